// Queue: numbers the operations that callers submit, and keeps them until the driver takes them.
// Collectives run one at a time, in the order of their numbers; messages run beside them, all at
// once.
//
// Owned by the Core. Callers add, the driver takes. Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "collectives/shm/driver/operation.h"
#include "collectives/shm/driver/records.h"
#include "collectives/shm/peers/failure.h"
#include "collectives/shm/peers/peers.h"
#include "core/base/mutex.h"

namespace dl::collectives::shm {

class Queue {
 public:
  // `salt` identifies the group in the hashes of its operations.
  Queue(Peers& peers, Failure& failure, Records& records, std::uint64_t salt)
      : peers_(peers), failure_(failure), records_(records), salt_(salt) {}

  // Operations that are not over, taken ones among them.
  bool has_collectives() const noexcept { return collectives_under_way_.load() > 0; }
  bool has_messages() const noexcept { return messages_under_way_.load() > 0; }
  bool has_operations() const noexcept { return has_collectives() || has_messages(); }
  int under_way() const noexcept {
    return collectives_under_way_.load() + messages_under_way_.load();
  }
  bool has_one_collective() const noexcept { return collectives_under_way_.load() == 1; }

  // Callers. --------------------------------------------------------------------------------------
  // Throws the first cause if the group is closed.
  void check_is_open(const Descriptor& called);
  // `is_idle`: the caller holds the role, and the Driver has no front operation. Returns true if
  // the caller must begin the operation at once; otherwise it is queued. Throws the first cause if
  // the group is broken.
  bool add(const Ref<Operation>& operation, bool is_idle);
  void add(const Ref<Message>& message);
  // At exit: if nothing is under way or the group is closed, refuses calls from now on and returns
  // true.
  bool close_if_idle();

  // Driver. ---------------------------------------------------------------------------------------
  // The next collective; null: there is none.
  Ref<Operation> take();
  // The next collective that the failure of the group ends; null: there is none.
  Ref<Operation> take_ended();
  bool has_new_messages() const noexcept { return has_new_messages_.load(); }
  // Moves all messages that have been added to `taken`, and appends them to `under_way`.
  void take_messages(std::vector<Ref<Message>>& under_way, std::vector<Ref<Message>>& taken);
  // Calls look(operation) for each queued collective while that returns true.
  template <typename Look>
  void for_each(const Look& look);
  void note_collective_over() noexcept { collectives_under_way_.fetch_sub(1); }
  void note_message_over() noexcept { messages_under_way_.fetch_sub(1); }

 private:
  // Refuses a call that comes after this rank has said goodbye at its exit.
  void check_has_not_left(const Descriptor& called) const DL_REQUIRES(mutex_);

  Peers& peers_;
  Failure& failure_;
  Records& records_;
  const std::uint64_t salt_;

  Mutex mutex_;
  std::uint64_t next_collective_ DL_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_message_ DL_GUARDED_BY(mutex_) = 1;
  std::deque<Ref<Operation>> collectives_ DL_GUARDED_BY(mutex_);
  std::vector<Ref<Message>> messages_ DL_GUARDED_BY(mutex_);
  bool has_left_ DL_GUARDED_BY(mutex_) = false;  // said goodbye at exit
  std::atomic<bool> has_new_messages_{false};
  std::atomic<int> collectives_under_way_{0};
  std::atomic<int> messages_under_way_{0};
};

template <typename Look>
void Queue::for_each(const Look& look) {
  const Lock lock(mutex_);
  for (const Ref<Operation>& op : collectives_) {
    if (!look(*op)) return;
  }
}

}  // namespace dl::collectives::shm
