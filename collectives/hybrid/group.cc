#include "collectives/hybrid/group.h"

#include "collectives/api/memory_making.h"
#include "collectives/call/checks.h"
#include "collectives/join/split.h"
#include "collectives/shm/shm_group.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/joined_work.h"

namespace dl::collectives::hybrid {
Ref<Work> Group::start(const Call& call) {
  if (call.row().is_message) return core_->pass_on().start(call);
  check_is_on_cpu(call, backend());
  std::optional<Route> way = route(call, places_, rank());
  if (!way) return pass_on(call);
  if (call.what.op == OpKind::kAllGather) {
    core_->pass_on().throw_if_refused(call.what);
    copy_own_part(call, rank());
  }
  auto operation = make_ref<Operation>(core_, call, call.options->timeout.value_or(how_.timeout),
                                       std::move(*way));
  stay_or_throw([&] { core_->submit(operation); });
  return operation;
}

Ref<Work> Group::pass_on(const Call& call) {
  core_->stay_if_leaving();
  ProcessGroup& all = stay_or_throw([&]() -> ProcessGroup& { return core_->pass_on(); });
  std::vector<Ref<Work>> works = core_->under_way();
  Ref<Work> work = all.start(call);
  if (works.empty()) return work;
  works.push_back(std::move(work));
  return join(std::move(works));
}

void Group::abort(std::string_view reason) noexcept {
  core_->fail(cause_of_abort(name(), core_->all().own_identity().text(), reason));
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

// Each node's ranks share a memory of their own, on all nodes or on none. The part of an operation
// inside a node then needs no staging copy (shm/protocol/direct.cc).
Ref<SymmetricMemory> Group::allocate_symmetric(std::size_t bytes) {
  if (places_.nodes.size() == places_.node_of.size()) {
    return ProcessGroup::allocate_symmetric(bytes);
  }
  check_memory_size(bytes);
  MemoryMaking making(core_->pass_on(), {.call = kForAllocate, .bytes = bytes});
  // A lane takes operations in the same order on all ranks, so let those under way finish first.
  for (const Ref<Work>& work : core_->under_way()) work->wait();
  Ref<SymmetricMemory> memory;
  const std::string why = making.run([&] {
    // A lane cannot see what ranks of other nodes call, so all ranks agree before it is used.
    making.together([] {});
    return making.together([&] {
      try {
        memory = core_->allocate_on_node(bytes);
      } catch (const Error&) {
        core_->throw_if_broken();
        throw;
      }
    });
  });
  DL_CHECK(why.empty(), kIo, "allocate: {}", why);
  return memory;
}

}  // namespace dl::collectives::hybrid
