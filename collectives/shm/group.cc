#include "collectives/shm/group.h"

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"

namespace dl::collectives::shm {

Ref<Work> Group::start(const Call& call) {
  check_call(call.what, *call.options, "shm");
  const std::chrono::nanoseconds timeout = call.options->timeout.value_or(how_.timeout);
  if (call.row().is_message) {
    check_peer(call.what, call.peer, rank(), size(), call.memory());
    auto message = make_ref<Message>(core_, call, timeout);
    stay_or_throw([&] { core_->submit(message); });
    return message;
  }
  auto operation = make_ref<Operation>(core_, call, timeout);
  stay_or_throw([&] { core_->submit(operation); });
  return operation;
}

Ref<Work> Group::all_reduce(const AllReduceOptions& o) {
  check_all_reduce(o);
  return start(call_of(o));
}

Ref<Work> Group::broadcast(const BroadcastOptions& o) {
  check_broadcast(o, size());
  return start(call_of(o));
}

Ref<Work> Group::all_gather(const AllGatherOptions& o) {
  check_all_gather(o, rank(), size());
  return start(call_of(o));
}

Ref<Work> Group::reduce_scatter(const ReduceScatterOptions& o) {
  check_reduce_scatter(o, rank(), size());
  return start(call_of(o));
}

Ref<Work> Group::barrier(const BarrierOptions& o) {
  return start(call_of(o));
}

Ref<Work> Group::reduce(const ReduceOptions& o) {
  check_reduce(o, rank(), size());
  return start(call_of(o));
}

Ref<Work> Group::gather(const GatherOptions& o) {
  check_parts(OpKind::kGather, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(call_of(o));
}

Ref<Work> Group::scatter(const ScatterOptions& o) {
  check_parts(OpKind::kScatter, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(call_of(o));
}

Ref<Work> Group::all_to_all(const AllToAllOptions& o) {
  check_parts(OpKind::kAllToAll, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(call_of(o));
}

Ref<Work> Group::all_gatherv(const AllGathervOptions& o) {
  const std::size_t sum = check_parts(OpKind::kAllGatherv, o, rank(), size());
  Call call = call_of(o, rank(), size());
  call.what.count = sum;
  return start(call);
}

Ref<Work> Group::reduce_scatterv(const ReduceScattervOptions& o) {
  const std::size_t sum = check_parts(OpKind::kReduceScatterv, o, rank(), size());
  Call call = call_of(o, rank(), size());
  call.what.count = sum;
  return start(call);
}

Ref<Work> Group::gatherv(const GathervOptions& o) {
  check_parts(OpKind::kGatherv, o, rank(), size());
  return start(call_of(o, rank(), size()));
}

Ref<Work> Group::scatterv(const ScattervOptions& o) {
  check_parts(OpKind::kScatterv, o, rank(), size());
  return start(call_of(o, rank(), size()));
}

Ref<Work> Group::all_to_allv(const AllToAllvOptions& o) {
  check_parts(OpKind::kAllToAllv, o, rank(), size());
  return start(call_of(o, rank(), size()));
}

Ref<Work> Group::send(const SendOptions& o) {
  return start(call_of(o));
}

Ref<Work> Group::recv(const RecvOptions& o) {
  return start(call_of(o));
}

}  // namespace dl::collectives::shm
