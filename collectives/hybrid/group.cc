#include "collectives/hybrid/group.h"

#include <algorithm>

#include "collectives/call/checks.h"
#include "collectives/join/split.h"
#include "collectives/shm/shm_group.h"
#include "collectives/waiting/group_error.h"
#include "collectives/waiting/joined_work.h"

namespace dl::collectives::hybrid {
namespace {

// What the ranks exchange after each node has made its symmetric memory.
struct Made {
  std::uint64_t bytes = 0;
  std::uint64_t is_good = 0;
};

}  // namespace

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
  core_->fail(cause_of_abort(name(), core_->all().identity().text(), reason));
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
  tcp::Group& all = core_->pass_on();
  // A lane takes operations in the same order on all ranks, so let those under way finish first.
  for (const Ref<Work>& work : core_->under_way()) work->wait();
  Made own{.bytes = bytes};
  Ref<SymmetricMemory> memory;
  std::string why;
  try {
    memory = core_->allocate_on_node(bytes);
    own.is_good = 1;
  } catch (const Error& error) {
    core_->throw_if_broken();
    why = error.what();
  }
  const std::vector<Made> made = tell_failure(making_of_memory(bytes), rank_in_job(), [&] {
    std::vector<Made> of_all(static_cast<std::size_t>(size()));
    all.all_gather(
           {.input = &own, .output = of_all.data(), .count = sizeof own, .dtype = DType::kU8})
        ->wait();
    for (std::size_t r = 0; r < of_all.size(); ++r) {
      if (of_all[r].bytes == bytes) continue;
      const Identity& other = all.identity(static_cast<int>(r));
      throw_mismatch(other.in_job(),
                     "symmetric memory: {} wants {} bytes, {} wants {}; all ranks must make the "
                     "same calls in the same order",
                     other.text(), of_all[r].bytes, all.identity().text(), bytes);
    }
    return of_all;
  });
  DL_CHECK(own.is_good != 0, kIo, "{}", why);
  const auto bad = std::ranges::find(made, std::uint64_t{0}, &Made::is_good);
  DL_CHECK(bad == made.end(), kIo,
           "allocate: the node of {} cannot share {} bytes; its ranks' errors say why",
           all.identity(static_cast<int>(bad - made.begin())).text(), bytes);
  return memory;
}

}  // namespace dl::collectives::hybrid
