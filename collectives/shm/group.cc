#include "collectives/shm/group.h"

#include "collectives/buffers.h"
#include "collectives/calls.h"
#include "collectives/shm/passed_on.h"

namespace dl::collectives::shm {

Ref<Work> Group::start(const Descriptor& what, const CallOptions& call, const void* input,
                       void* output) {
  check_call(what, call, "shm");
  auto operation =
      make_ref<Operation>(core_, what, call.timeout.value_or(timeout_), call.holds, input, output);
  core_->submit(operation);
  return operation;
}

Ref<Work> Group::all_reduce(const AllReduceOptions& o) {
  check_all_reduce(o);
  return start(descriptor_of(o), o.call, o.input, o.output);
}

Ref<Work> Group::broadcast(const BroadcastOptions& o) {
  check_broadcast(o, size());
  return start(descriptor_of(o), o.call, o.buffer, o.buffer);
}

Ref<Work> Group::all_gather(const AllGatherOptions& o) {
  check_all_gather(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output);
}

Ref<Work> Group::reduce_scatter(const ReduceScatterOptions& o) {
  check_reduce_scatter(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output);
}

Ref<Work> Group::barrier(const BarrierOptions& o) {
  return start({.op = OpKind::kBarrier}, o.call, nullptr, nullptr);
}

Ref<Work> Group::reduce(const ReduceOptions& o) {
  check_reduce(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output);
}

Ref<Work> Group::gather(const GatherOptions& o) {
  check_parts(OpKind::kGather, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output);
}

Ref<Work> Group::scatter(const ScatterOptions& o) {
  check_parts(OpKind::kScatter, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output);
}

Ref<Work> Group::all_to_all(const AllToAllOptions& o) {
  check_parts(OpKind::kAllToAll, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output);
}

template <typename Options>
Ref<Work> Group::pass_on(Ref<Work> (ProcessGroup::*call)(const Options&), const Options& options) {
  core_->throw_if_broken();
  Options inner = options;
  if (!inner.call.timeout) inner.call.timeout = timeout_;
  return make_ref<PassedOn>(core_, (core_->messages().*call)(inner));
}

Ref<Work> Group::send(const SendOptions& o) {
  return pass_on(&ProcessGroup::send, o);
}
Ref<Work> Group::recv(const RecvOptions& o) {
  return pass_on(&ProcessGroup::recv, o);
}
Ref<Work> Group::all_gatherv(const AllGathervOptions& o) {
  return pass_on(&ProcessGroup::all_gatherv, o);
}
Ref<Work> Group::reduce_scatterv(const ReduceScattervOptions& o) {
  return pass_on(&ProcessGroup::reduce_scatterv, o);
}
Ref<Work> Group::gatherv(const GathervOptions& o) {
  return pass_on(&ProcessGroup::gatherv, o);
}
Ref<Work> Group::scatterv(const ScattervOptions& o) {
  return pass_on(&ProcessGroup::scatterv, o);
}
Ref<Work> Group::all_to_allv(const AllToAllvOptions& o) {
  return pass_on(&ProcessGroup::all_to_allv, o);
}

}  // namespace dl::collectives::shm
