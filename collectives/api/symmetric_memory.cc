#include "collectives/api/symmetric_memory.h"

#include <cstring>
#include <new>
#include <utility>

#include "core/base/error.h"

namespace dl::collectives {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kMostMemory = std::size_t{1} << 60;  // below it no rounding overflows

class Unshared final : public SymmetricMemory {
 public:
  Unshared(void* data, std::size_t bytes, Ref<RefCounted> owner, std::string why_not)
      : SymmetricMemory(static_cast<std::byte*>(data), bytes, std::move(why_not)),
        owner_(std::move(owner)) {}

 private:
  const Ref<RefCounted> owner_;
};

class Block final : public RefCounted {
 public:
  explicit Block(std::size_t bytes) : data_(::operator new(bytes, kAlignment, std::nothrow)) {
    DL_CHECK(data_ != nullptr, kIo, "allocate {} bytes: there is no memory for them", bytes);
    std::memset(data_, 0, bytes);
  }
  void* data() const noexcept { return data_; }

 private:
  ~Block() override { ::operator delete(data_, kAlignment); }
  void* const data_;
};

}  // namespace

void check_memory_size(std::size_t bytes) {
  DL_CHECK(bytes <= kMostMemory, kInvalidArgument,
           "allocate {} bytes: that is more than memory can hold", bytes);
}

Ref<SymmetricMemory> make_ordinary_memory(std::size_t bytes, std::string why_not) {
  check_memory_size(bytes);
  const auto block = make_ref<Block>(bytes);
  return make_unshared_memory(block->data(), bytes, block, std::move(why_not));
}

Ref<SymmetricMemory> make_unshared_memory(void* data, std::size_t bytes, Ref<RefCounted> owner,
                                          std::string why_not) {
  return make_ref<Unshared>(data, bytes, std::move(owner), std::move(why_not));
}

}  // namespace dl::collectives
