#include "collectives/symmetric_memory.h"

#include <cstring>
#include <new>
#include <utility>

#include "core/base/error.h"

namespace dl::collectives {
namespace {

constexpr std::align_val_t kAlignment{64};

class OrdinaryMemory final : public SymmetricMemory {
 public:
  OrdinaryMemory(std::byte* data, std::size_t bytes, std::string why_not) noexcept
      : SymmetricMemory(data, bytes, std::move(why_not)) {}

 private:
  ~OrdinaryMemory() override { ::operator delete(data(), kAlignment); }
};

}  // namespace

Ref<SymmetricMemory> make_ordinary_memory(std::size_t bytes, std::string why_not) {
  void* const data = ::operator new(bytes, kAlignment, std::nothrow);
  DL_CHECK(data != nullptr, kIo, "allocate {} bytes: there is no memory for them", bytes);
  std::memset(data, 0, bytes);
  return make_ref<OrdinaryMemory>(static_cast<std::byte*>(data), bytes, std::move(why_not));
}

}  // namespace dl::collectives
