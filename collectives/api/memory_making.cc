#include "collectives/api/memory_making.h"

#include <vector>

#include "collectives/api/purpose.h"

namespace dl::collectives {
namespace {

// What the ranks exchange.
struct Part {
  std::uint64_t bytes = 0;
  std::uint32_t number = 0;
  std::uint32_t is_good = 0;
};

}  // namespace

Called MemoryMaking::called() const {
  return {.operation = "the making of symmetric memory",
          .text = fmt::format("{} of {} bytes",
                              wish_.call == kForAllocate ? "allocate" : "register", wish_.bytes)};
}

std::string MemoryMaking::meet(bool is_good) {
  const Part own{.bytes = wish_.bytes, .number = wish_.number, .is_good = is_good ? 1U : 0U};
  std::vector<Part> parts(static_cast<std::size_t>(group_.size()));
  const AllGatherOptions all{
      .input = &own, .output = parts.data(), .count = sizeof own, .dtype = DType::kU8};
  start_for(wish_.call, group_, all)->wait();
  std::string bad;
  for (int r = 0; r < group_.size(); ++r) {
    const Part& part = parts[static_cast<std::size_t>(r)];
    const Identity other = group_.identity(r);
    if (part.bytes != own.bytes || part.number != own.number) {
      const auto call = [&](const Part& of) {
        return part.number == own.number ? std::string() : fmt::format(" (call {})", of.number);
      };
      throw_mismatch(
          other.in_job(),
          "symmetric memory: {} wants {} bytes{}, {} wants {}{}; all ranks must make the "
          "same calls in the same order",
          other.text(), part.bytes, call(part), group_.identity(group_.rank()).text(), own.bytes,
          call(own));
    }
    if (part.is_good == 0 && bad.empty()) {
      bad = fmt::format("{} cannot {} its {} bytes; its own error says why", other.text(),
                        wish_.call == kForAllocate ? "allocate" : "share", own.bytes);
    }
  }
  return bad;
}

}  // namespace dl::collectives
