#include "collectives/hybrid/group.h"

#include <cstring>
#include <memory>

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/join/split.h"
#include "collectives/shm/shm_group.h"
#include "collectives/waiting/joined_work.h"

namespace dl::collectives::hybrid {
namespace {

// Memory for partial sums of a reduce_scatter.
struct Partial final : RefCounted {
  explicit Partial(std::size_t bytes)
      : memory(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}
  std::unique_ptr<std::byte[]> memory;
};

}  // namespace

Ref<Work> Group::start(const Descriptor& what, const CallOptions& call, std::vector<Slice> slices,
                       Ref<RefCounted> memory) {
  auto operation = make_ref<Operation>(core_, what, call.timeout.value_or(how_.timeout), call.holds,
                                       std::move(slices), std::move(memory));
  stay_or_throw([&] { core_->submit(operation); });
  return operation;
}

template <typename Options>
Ref<Work> Group::pass_on(Ref<Work> (ProcessGroup::*call)(const Options&), const Options& options) {
  core_->stay_if_leaving();
  ProcessGroup& all = stay_or_throw([&]() -> ProcessGroup& { return core_->pass_on(); });
  std::vector<Ref<Work>> works = core_->under_way();
  Ref<Work> work = (all.*call)(options);
  if (works.empty()) return work;
  works.push_back(std::move(work));
  return join(std::move(works));
}

Ref<Work> Group::all_reduce(const AllReduceOptions& o) {
  const Descriptor what = descriptor_of(o);
  check_all_reduce(o);
  check_call(what, o.call, backend());
  auto slices = route(o, places_, rank());
  if (!slices) return pass_on(&ProcessGroup::all_reduce, o);
  return start(what, o.call, std::move(*slices));
}

Ref<Work> Group::broadcast(const BroadcastOptions& o) {
  const Descriptor what = descriptor_of(o);
  check_broadcast(o, size());
  check_call(what, o.call, backend());
  auto slices = route(o, places_, rank());
  if (!slices) return pass_on(&ProcessGroup::broadcast, o);
  return start(what, o.call, std::move(*slices));
}

Ref<Work> Group::all_gather(const AllGatherOptions& o) {
  const Descriptor what = descriptor_of(o);
  check_all_gather(o, rank(), size());
  check_call(what, o.call, backend());
  auto slices = route(o, places_, rank());
  if (!slices) return pass_on(&ProcessGroup::all_gather, o);
  core_->pass_on().throw_if_refused(what);
  const std::size_t bytes = o.count * size_of(o.dtype);
  auto* const own = static_cast<std::byte*>(o.output) + static_cast<std::size_t>(rank()) * bytes;
  if (own != o.input) std::memcpy(own, o.input, bytes);
  return start(what, o.call, std::move(*slices));
}

Ref<Work> Group::reduce_scatter(const ReduceScatterOptions& o) {
  const Descriptor what = descriptor_of(o);
  check_reduce_scatter(o, rank(), size());
  check_call(what, o.call, backend());
  if (!routes(o, places_)) return pass_on(&ProcessGroup::reduce_scatter, o);
  auto partial = make_ref<Partial>(places_.nodes.size() * o.count * size_of(o.dtype));
  std::vector<Slice> slices = route(o, places_, rank(), partial->memory.get());
  return start(what, o.call, std::move(slices), partial);
}

Ref<Work> Group::barrier(const BarrierOptions& o) {
  return pass_on(&ProcessGroup::barrier, o);
}
Ref<Work> Group::reduce(const ReduceOptions& o) {
  return pass_on(&ProcessGroup::reduce, o);
}
Ref<Work> Group::gather(const GatherOptions& o) {
  return pass_on(&ProcessGroup::gather, o);
}
Ref<Work> Group::scatter(const ScatterOptions& o) {
  return pass_on(&ProcessGroup::scatter, o);
}
Ref<Work> Group::all_to_all(const AllToAllOptions& o) {
  return pass_on(&ProcessGroup::all_to_all, o);
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

void Group::abort(std::string_view reason) noexcept {
  core_->fail({.kind = ErrorKind::kAborted,
               .text = fmt::format("group '{}' was aborted by {}: {}", name(),
                                   core_->all().identity().text(), reason)});
}

// The parent group exchanges the new groups' addresses. Ranks of one node get a group over shared
// memory, ranks on pairwise different nodes one over TCP, others a hybrid one.
Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  const MakePart make = [this](const GroupOptions& part, const SplitPlan& plan,
                               SplitStore& store) -> Ref<ProcessGroup> {
    std::vector<std::string> nodes;
    for (const int member : plan.members) nodes.push_back(core_->all().identity(member).node);
    const std::size_t count = places_of(nodes).nodes.size();
    if (count == 1) return make_shm_group(part);
    if (count == nodes.size()) return make_tcp_group(part);
    return make_group(part, [&store](int round) { store.begin_round(round); });
  };
  return split_group(*this, o, next_split_++, how_, kRounds, make);
}

}  // namespace dl::collectives::hybrid
