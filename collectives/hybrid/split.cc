// Group's split: the parent carries the new groups' addresses. Ranks of one node get a group over
// shared memory, ranks that are all on different nodes one over TCP, others a hybrid one.
#include "collectives/split.h"

#include "collectives/hybrid/group.h"
#include "collectives/shm/shm_group.h"
#include "collectives/solo/solo_group.h"

namespace dl::collectives::hybrid {
namespace {

// Round 1 of the store: whichever kind of group it is, the TCP group of its ranks is round 0.
Ref<ProcessGroup> make_inside_one_node(const HybridGroupOptions& o, SplitStore& store,
                                       Ref<ProcessGroup> messages) {
  store.begin_round(1);
  return make_shm_group({.rank = o.rank,
                         .size = o.size,
                         .name = o.name,
                         .store = o.store,
                         .key = o.key,
                         .job = o.job,
                         .generation = o.generation,
                         .timeout = o.timeout,
                         .connect_timeout = o.connect_timeout,
                         .node = o.node,
                         .speak_after = o.speak_after,
                         .recorder = o.recorder,
                         .messages = std::move(messages)});
}

Ref<ProcessGroup> make_part(const HybridGroupOptions& options, SplitStore& store,
                            const Places& places) {
  const std::size_t nodes = places.nodes.size();
  const bool is_tcp = nodes == places.node_of.size();
  Ref<ProcessGroup> all = make_tcp_group(tcp_options(options, is_tcp));
  if (is_tcp) return all;
  if (nodes == 1) return make_inside_one_node(options, store, std::move(all));
  return make_around(options, all, [&](int round) { store.begin_round(round); });
}

}  // namespace

Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  tcp::Group& all = core_->pass_on();
  const SplitPlan plan = plan_split(all, o, next_split_++);
  SplitStore store(all);
  Ref<ProcessGroup> part;
  if (plan.members.size() == 1 && plan.rank == 0) part = make_solo_group(plan.name);
  if (plan.members.size() > 1) {
    HybridGroupOptions options = how_;
    options.rank = plan.rank;
    options.size = static_cast<int>(plan.members.size());
    options.name = plan.name;
    options.store = &store;
    options.timeout = o.timeout.value_or(timeout_);
    options.segment = nullptr;
    std::vector<std::string> nodes;
    for (const int member : plan.members) nodes.push_back(all.identity(member).node);
    try {
      part = make_part(options, store, places_of(nodes));
    } catch (const std::exception& error) {
      // The others wait for this rank, in the parent or for its connections.
      abort(fmt::format("split into group '{}' failed: {}", plan.name, error.what()));
      throw;
    }
  }
  store.begin_round(kRounds);
  return part;
}

}  // namespace dl::collectives::hybrid
