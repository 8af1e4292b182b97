#include "collectives/shm/group.h"

#include "collectives/call/checks.h"
#include "collectives/join/split.h"

namespace dl::collectives::shm {

Ref<Work> Group::start(const Call& call) {
  check_is_on_cpu(call, backend());
  const std::chrono::nanoseconds timeout = call.options->timeout.value_or(how_.timeout);
  if (call.row().is_message) {
    auto message = make_ref<Message>(call, timeout, core_);
    stay_or_throw([&] { core_->submit(message); });
    return message;
  }
  auto operation = make_ref<Operation>(core_, call, timeout);
  stay_or_throw([&] { core_->submit(operation); });
  return operation;
}

// The parent group exchanges the new groups' addresses, so no store is needed.
Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  return split_group(
      *this, o, next_split_++, how_, 1,
      [](const GroupOptions& part, const SplitPlan&, SplitStore&) { return make_shm_group(part); });
}

}  // namespace dl::collectives::shm
