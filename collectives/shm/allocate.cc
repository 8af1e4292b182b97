// Group's symmetric memory: made by all ranks together, or by none.
#include <unistd.h>

#include <algorithm>

#include "collectives/shm/group.h"
#include "collectives/waiting/group_error.h"

namespace dl::collectives::shm {
namespace {

// What the ranks exchange.
struct Part {
  std::uint64_t bytes = 0;
  std::uint32_t number = 0;
  std::uint32_t is_good = 0;
};

// A symmetric memory that is being made.
class Making {
 public:
  Making(ProcessGroup& group, const Core& core, std::size_t bytes, std::uint32_t number)
      : group_(group),
        core_(core),
        own_{.bytes = bytes, .number = number},
        parts_(static_cast<std::size_t>(group.size())) {}

  // Runs this rank's step, then meets the other ranks. Returns what failed on any rank, or an empty
  // string.
  template <typename Step>
  std::string together(const Step& step) {
    std::string why;
    try {
      step();
      own_.is_good = 1;
    } catch (const Error& error) {
      own_.is_good = 0;
      why = error.what();
    }
    group_
        .all_gather(
            {.input = &own_, .output = parts_.data(), .count = sizeof own_, .dtype = DType::kU8})
        ->wait();
    for (int r = 0; r < group_.size(); ++r) {
      const Part& part = parts_[static_cast<std::size_t>(r)];
      if (part.bytes == own_.bytes && part.number == own_.number) continue;
      throw_mismatch(core_.identity(r).in_job(),
                     "symmetric memory: {} wants {} bytes (call {}), {} wants {} (call {}); all "
                     "ranks must make the same calls in the same order",
                     core_.identity(r).text(), part.bytes, part.number,
                     core_.identity(group_.rank()).text(), own_.bytes, own_.number);
    }
    if (own_.is_good == 0) return why;
    for (int r = 0; r < group_.size(); ++r) {
      if (parts_[static_cast<std::size_t>(r)].is_good != 0) continue;
      return fmt::format("{} cannot share its {} bytes; its own error says why",
                         core_.identity(r).text(), own_.bytes);
    }
    return {};
  }

 private:
  ProcessGroup& group_;
  const Core& core_;
  Part own_;
  std::vector<Part> parts_;
};

}  // namespace

// Every rank maps what `make_own` returns on each rank, or none does and `why` gives the reason.
template <typename MakeOwn>
Ref<Mapped> Group::share(std::size_t bytes, const MakeOwn& make_own, Ref<RefCounted> owner,
                         std::string& why) {
  const std::uint32_t number = next_memory_++;
  std::vector<Segment> segments(static_cast<std::size_t>(size()));
  Segment& own = segments[static_cast<std::size_t>(rank())];
  Making making(*this, *core_, bytes, number);
  try {
    why = tell_failure(making_of_memory(bytes), rank_in_job(), [&] {
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
  Ref<Mapped> memory = share(bytes, [&] { return Segment::make(pages * page); }, nullptr, why);
  DL_CHECK(memory, kIo, "allocate: {}", why);
  return make_shared_memory(std::move(known_in), std::move(memory), bytes, std::string(name()));
}

Ref<SymmetricMemory> Group::register_symmetric(void* data, std::size_t bytes,
                                               Ref<RefCounted> owner) {
  auto* const begin = static_cast<std::byte*>(data);
  std::string why;
  Ref<Mapped> memory = share(bytes, [&] { return Segment::take_over(begin, bytes); }, owner, why);
  if (!memory) return make_unshared_memory(data, bytes, std::move(owner), std::move(why));
  return make_shared_memory({core_->memories()}, std::move(memory), bytes, std::string(name()));
}

}  // namespace dl::collectives::shm
