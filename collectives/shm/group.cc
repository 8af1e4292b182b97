#include "collectives/shm/group.h"

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/join/split.h"

namespace dl::collectives::shm {

Ref<Work> Group::start(const Descriptor& what, const CallOptions& call, const void* input,
                       Parts&& gives, void* output, Parts&& takes) {
  check_call(what, call, "shm");
  auto operation = make_ref<Operation>(core_, what, call.timeout.value_or(how_.timeout), call.holds,
                                       input, std::move(gives), output, std::move(takes));
  stay_or_throw([&] { core_->submit(operation); });
  return operation;
}

Ref<Work> Group::all_reduce(const AllReduceOptions& o) {
  check_all_reduce(o);
  return start(descriptor_of(o), o.call, o.input, Parts::whole(o.count), o.output,
               Parts::whole(o.count));
}

Ref<Work> Group::broadcast(const BroadcastOptions& o) {
  check_broadcast(o, size());
  return start(descriptor_of(o), o.call, o.buffer, Parts::whole(o.count), o.buffer,
               Parts::whole(o.count));
}

Ref<Work> Group::all_gather(const AllGatherOptions& o) {
  check_all_gather(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, Parts::whole(o.count), o.output,
               Parts::of_each(o.count));
}

Ref<Work> Group::reduce_scatter(const ReduceScatterOptions& o) {
  check_reduce_scatter(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, Parts::of_each(o.count), o.output,
               Parts::whole(o.count));
}

Ref<Work> Group::barrier(const BarrierOptions& o) {
  return start({.op = OpKind::kBarrier}, o.call, nullptr, {}, nullptr, {});
}

Ref<Work> Group::reduce(const ReduceOptions& o) {
  check_reduce(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, Parts::whole(o.count), o.output,
               Parts::whole(o.count));
}

Ref<Work> Group::gather(const GatherOptions& o) {
  check_parts(OpKind::kGather, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(descriptor_of(o), o.call, o.input, Parts::whole(o.count), o.output,
               Parts::of_each(o.count));
}

Ref<Work> Group::scatter(const ScatterOptions& o) {
  check_parts(OpKind::kScatter, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(descriptor_of(o), o.call, o.input, Parts::of_each(o.count), o.output,
               Parts::whole(o.count));
}

Ref<Work> Group::all_to_all(const AllToAllOptions& o) {
  check_parts(OpKind::kAllToAll, as_parts(o, equal_counts(o.count, size())), rank(), size());
  return start(descriptor_of(o), o.call, o.input, Parts::of_each(o.count), o.output,
               Parts::of_each(o.count));
}

Ref<Work> Group::all_gatherv(const AllGathervOptions& o) {
  const Descriptor what{.count = check_parts(OpKind::kAllGatherv, o, rank(), size()),
                        .op = OpKind::kAllGatherv,
                        .dtype = o.dtype};
  const std::size_t own = o.counts[static_cast<std::size_t>(rank())];
  return start(what, o.call, o.input, Parts::whole(own), o.output, Parts::of(o.counts));
}

Ref<Work> Group::reduce_scatterv(const ReduceScattervOptions& o) {
  const Descriptor what{.count = check_parts(OpKind::kReduceScatterv, o, rank(), size()),
                        .op = OpKind::kReduceScatterv,
                        .dtype = o.dtype,
                        .reduce = o.op,
                        .order = o.call.order};
  const std::size_t own = o.counts[static_cast<std::size_t>(rank())];
  return start(what, o.call, o.input, Parts::of(o.counts), o.output, Parts::whole(own));
}

Ref<Work> Group::gatherv(const GathervOptions& o) {
  check_parts(OpKind::kGatherv, o, rank(), size());
  const Descriptor what{.root = o.root, .op = OpKind::kGatherv, .dtype = o.dtype};
  return start(what, o.call, o.input, Parts::whole(o.count), o.output,
               rank() == o.root ? Parts::of(o.counts) : Parts());
}

Ref<Work> Group::scatterv(const ScattervOptions& o) {
  check_parts(OpKind::kScatterv, o, rank(), size());
  const Descriptor what{.root = o.root, .op = OpKind::kScatterv, .dtype = o.dtype};
  return start(what, o.call, o.input, rank() == o.root ? Parts::of(o.counts) : Parts(), o.output,
               Parts::whole(o.count));
}

Ref<Work> Group::all_to_allv(const AllToAllvOptions& o) {
  check_parts(OpKind::kAllToAllv, o, rank(), size());
  return start({.op = OpKind::kAllToAllv, .dtype = o.dtype}, o.call, o.input,
               Parts::of(o.send_counts), o.output, Parts::of(o.receive_counts));
}

Ref<Work> Group::start_message(const Descriptor& what, const CallOptions& call, int peer,
                               void* buffer) {
  check_peer(what, peer, rank(), size(), buffer);
  check_call(what, call, "shm");
  auto message =
      make_ref<Message>(core_, what, call.timeout.value_or(how_.timeout), call.holds, peer, buffer);
  stay_or_throw([&] { core_->submit(message); });
  return message;
}

Ref<Work> Group::send(const SendOptions& o) {
  return start_message(descriptor_of(o), o.call, o.peer, const_cast<void*>(o.buffer));
}

Ref<Work> Group::recv(const RecvOptions& o) {
  return start_message(descriptor_of(o), o.call, o.peer, o.buffer);
}

// The parent group exchanges the new groups' addresses, so no store is needed.
Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  return split_group(
      *this, o, next_split_++, how_, 1,
      [](const GroupOptions& part, const SplitPlan&, SplitStore&) { return make_shm_group(part); });
}

}  // namespace dl::collectives::shm
