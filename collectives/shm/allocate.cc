// Group's symmetric memory: made by all ranks together, or by none.
#include <unistd.h>

#include <algorithm>

#include "collectives/api/memory_making.h"
#include "collectives/shm/group.h"

namespace dl::collectives::shm {
// Every rank maps what `make_own` returns on each rank, or none does and `why` gives the reason.
template <typename MakeOwn>
Ref<Mapped> Group::share(std::int32_t call, std::size_t bytes, const MakeOwn& make_own,
                         Ref<RefCounted> owner, std::string& why) {
  const std::uint32_t number = next_memory_++;
  std::vector<Segment> segments(static_cast<std::size_t>(size()));
  Segment& own = segments[static_cast<std::size_t>(rank())];
  MemoryMaking making(*this, {.call = call, .bytes = bytes, .number = number});
  try {
    why = making.run([&] {
      std::string obstacle = making.together([&] {
        own = make_own();
        core_->pass_memory(number, own.fd());
      });
      if (!obstacle.empty()) return obstacle;
      own.close_fd();
      return making.together([&] {
        std::vector<UniqueFd> passed =
            core_->passed_memories().take(number, Deadline::after(how_.timeout));
        for (std::size_t r = 0; r < segments.size(); ++r) {
          if (passed[r]) segments[r] = Segment::map(std::move(passed[r]), own.size());
        }
      });
    });
  } catch (...) {
    core_->passed_memories().drop(number);
    throw;
  }
  if (!why.empty()) {
    core_->passed_memories().drop(number);
    return nullptr;
  }
  return make_ref<Mapped>(number, rank(), std::move(segments), std::move(owner));
}

Ref<SymmetricMemory> Group::allocate_symmetric(std::size_t bytes) {
  return allocate_symmetric(bytes, {core_->memories()});
}

Ref<SymmetricMemory> Group::allocate_with(const Group& other, std::size_t bytes) {
  return allocate_symmetric(bytes, {core_->memories(), other.core_->memories()});
}

Ref<SymmetricMemory> Group::allocate_symmetric(std::size_t bytes,
                                               std::vector<Ref<Memories>> known_in) {
  check_memory_size(bytes);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t pages = std::max((bytes + page - 1) / page, std::size_t{1});
  std::string why;
  Ref<Mapped> memory =
      share(kForAllocate, bytes, [&] { return Segment::make(pages * page); }, nullptr, why);
  DL_CHECK(memory, kIo, "allocate: {}", why);
  return make_shared_memory(std::move(known_in), std::move(memory), bytes, std::string(name()));
}

Ref<SymmetricMemory> Group::register_symmetric(void* data, std::size_t bytes,
                                               Ref<RefCounted> owner) {
  auto* const begin = static_cast<std::byte*>(data);
  std::string why;
  Ref<Mapped> memory =
      share(kForRegister, bytes, [&] { return Segment::take_over(begin, bytes); }, owner, why);
  if (!memory) return make_unshared_memory(data, bytes, std::move(owner), std::move(why));
  return make_shared_memory({core_->memories()}, std::move(memory), bytes, std::string(name()));
}

}  // namespace dl::collectives::shm
