#include "collectives/shm/driver/queue.h"

#include <utility>

#include "collectives/call/recording.h"

namespace dl::collectives::shm {

void Queue::check_has_not_left(const Descriptor& called) const {
  DL_CHECK(!has_left_, kAborted, "{}: this rank has left group '{}' by exit()", text(called),
           peers_.group());
}

void Queue::check_is_open(const Descriptor& called) {
  if (!failure_.is_closed()) return;
  const Lock lock(mutex_);
  failure_.throw_if_refused(called, next_collective_);
}

bool Queue::add(const Ref<Operation>& operation, bool is_idle) {
  Operation& op = *operation;
  Descriptor& d = op.descriptor;
  const Lock lock(mutex_);
  failure_.throw_if_refused(d, next_collective_);
  check_has_not_left(d);
  d.sequence = next_collective_++;
  op.transfer.descriptor.sequence = d.sequence;
  op.transfer.hash = hash(d, salt_);
  const record::What what = record_of(d, op.transfer.hash);
  const bool begins = is_idle && collectives_.empty();
  if (begins) {
    op.slot = records_.log().begin(what, records_.first_path(op));
  } else {
    op.slot = records_.log().enqueue(what);
    collectives_.push_back(operation);
  }
  collectives_under_way_.fetch_add(1);
  peers_.own().called.store(d.sequence, std::memory_order_release);
  return begins;
}

void Queue::add(const Ref<Message>& message) {
  Descriptor& d = message->descriptor;
  const Lock lock(mutex_);
  failure_.throw_if_broken();
  check_has_not_left(d);
  messages_.push_back(message);
  d.sequence = next_message_++;
  // Messages are numbered by each rank alone, so their hash means nothing to other ranks.
  message->slot = records_.log().begin(record_of(d, 0, message->peer));
  has_new_messages_.store(true);
  messages_under_way_.fetch_add(1);
}

bool Queue::close_if_idle() {
  // No call can come between this look and the goodbye.
  const Lock lock(mutex_);
  has_left_ = !has_operations() || failure_.is_closed();
  return has_left_;
}

Ref<Operation> Queue::take() {
  const Lock lock(mutex_);
  if (collectives_.empty()) return nullptr;
  Ref<Operation> next = std::move(collectives_.front());
  collectives_.pop_front();
  return next;
}

Ref<Operation> Queue::take_ended() {
  const Lock lock(mutex_);
  const auto found = std::ranges::find_if(collectives_, [this](const Ref<Operation>& op) {
    return failure_.ends(op->descriptor.sequence);
  });
  if (found == collectives_.end()) return nullptr;
  Ref<Operation> ended = std::move(*found);
  collectives_.erase(found);
  return ended;
}

void Queue::take_messages(std::vector<Ref<Message>>& under_way, std::vector<Ref<Message>>& taken) {
  const Lock lock(mutex_);
  under_way.insert(under_way.end(), messages_.begin(), messages_.end());
  taken.swap(messages_);
  messages_.clear();
  has_new_messages_.store(false);
}

}  // namespace dl::collectives::shm
