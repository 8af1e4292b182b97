#include "collectives/shm/segment/memories.h"

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/log/log.h"

namespace dl::collectives::shm {
namespace {

class SharedMemory final : public SymmetricMemory {
 public:
  SharedMemory(std::vector<Ref<Memories>> known_in, Ref<Mapped> memory, std::size_t bytes,
               std::string group)
      : SymmetricMemory(memory->data(), bytes, {}),
        known_in_(std::move(known_in)),
        memory_(std::move(memory)),
        group_(std::move(group)) {
    for (const Ref<Memories>& memories : known_in_) memories->add(memory_);
  }

  void check(std::string_view operation) const override {
    DL_CHECK(!memory_->is_cut_off(), kAborted,
             "{}: its symmetric memory was in use when an operation of group '{}' failed, and its "
             "contents are undefined; make a new group and new memory",
             operation, group_);
  }

 private:
  ~SharedMemory() override {
    for (const Ref<Memories>& memories : known_in_) memories->remove(*memory_);
  }

  const std::vector<Ref<Memories>> known_in_;
  const Ref<Mapped> memory_;
  const std::string group_;
};

}  // namespace

Mapped::Mapped(std::uint64_t number, int rank, std::vector<Segment> segments, Ref<RefCounted> owner)
    : number_(number), rank_(rank), owner_(std::move(owner)), segments_(std::move(segments)) {
  for (const Segment& segment : segments_) addresses_.push_back(segment.data());
}

void Mapped::cut_off(std::size_t offset, std::size_t bytes) noexcept {
  is_cut_off_.store(true, std::memory_order_release);
  if (!segments_[static_cast<std::size_t>(rank_)].make_private(offset, bytes)) {
    log::warning(
        "cannot copy {} bytes of a failed operation's symmetric memory: {}; other ranks may still "
        "write to it, so do not use its contents",
        bytes, std::strerror(errno));
  }
}

Memories::Place Memories::find(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const Lock lock(mutex_);
  for (const Ref<Mapped>& memory : all_) {
    // Wraps to a large number if the buffer begins before the memory.
    const std::size_t offset = begin - reinterpret_cast<std::uintptr_t>(memory->data());
    if (offset < memory->bytes() && bytes <= memory->bytes() - offset) return {memory, offset};
  }
  return {};
}

void Memories::add(const Ref<Mapped>& memory) {
  const Lock lock(mutex_);
  all_.push_back(memory);
}

void Memories::remove(const Mapped& memory) noexcept {
  // In a forked child, a lock that another thread held is never released.
  if (made_in_.is_in_child()) return;
  const Lock lock(mutex_);
  std::erase_if(all_, [&](const Ref<Mapped>& known) { return known.get() == &memory; });
}

Ref<SymmetricMemory> make_shared_memory(std::vector<Ref<Memories>> known_in, Ref<Mapped> memory,
                                        std::size_t bytes, std::string group) {
  return make_ref<SharedMemory>(std::move(known_in), std::move(memory), bytes, std::move(group));
}

}  // namespace dl::collectives::shm
