// The symmetric memories of one shared-memory group, and lookup of the memory that contains a
// buffer.
//
// A Mapped is one rank's view of a symmetric memory. The user's handle (symmetric_memory.h) and the
// operations under way hold a Ref, so that it stays mapped while a sum runs on it. A Memories lists
// the memories whose handles live, and may outlive the group, because the handles hold it.
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/api/symmetric_memory.h"
#include "collectives/shm/segment/segment.h"
#include "core/base/lifetime/ref.h"
#include "core/base/mutex.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::shm {

class Mapped final : public RefCounted {
 public:
  // `segments`: by rank, all of one size. `owner`: owns the user's memory that this rank's segment
  // has taken over, if any.
  Mapped(std::uint64_t number, int rank, std::vector<Segment> segments, Ref<RefCounted> owner);

  std::uint64_t number() const noexcept { return number_; }
  std::byte* data() const noexcept { return addresses_[static_cast<std::size_t>(rank_)]; }
  // The ranks' parts, by rank.
  std::byte* const* addresses() const noexcept { return addresses_.data(); }
  std::size_t bytes() const noexcept { return segments_.front().size(); }

  // Stops sharing the pages of a range of this rank's part: they keep their address and contents,
  // and other ranks no longer reach them. The caller must not write to the range meanwhile.
  void cut_off(std::size_t offset, std::size_t bytes) noexcept;
  bool is_cut_off() const noexcept { return is_cut_off_.load(std::memory_order_acquire); }

 private:
  const std::uint64_t number_;
  const int rank_;
  const Ref<RefCounted> owner_;
  const std::vector<Segment> segments_;
  std::vector<std::byte*> addresses_;
  std::atomic<bool> is_cut_off_{false};
};

class Memories final : public RefCounted {
 public:
  struct Place {
    Ref<Mapped> memory{};  // null: nowhere
    std::size_t offset = 0;
  };
  // The memory that contains all of [data, data + bytes), if any.
  Place find(const void* data, std::size_t bytes) const;

  void add(const Ref<Mapped>& memory);
  void remove(const Mapped& memory) noexcept;

 private:
  const ForkMark made_in_{};
  mutable Mutex mutex_;
  std::vector<Ref<Mapped>> all_ DL_GUARDED_BY(mutex_);
};

// The handle for the first `bytes` of a memory. All of `known_in` list the memory as long as the
// handle lives; `group` is named in its errors.
Ref<SymmetricMemory> make_shared_memory(std::vector<Ref<Memories>> known_in, Ref<Mapped> memory,
                                        std::size_t bytes, std::string group);

}  // namespace dl::collectives::shm
