#include "collectives/hybrid/hybrid_group.h"

#include "collectives/hybrid/group.h"
#include "collectives/shm/shm_group.h"
#include "collectives/solo/solo_group.h"
#include "collectives/tcp/tcp_group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

using hybrid::Places;

// An inner group's name, different from those of the same kind on other nodes or indices.
std::string inner_name(const HybridGroupOptions& o, std::string_view kind, int number) {
  return fmt::format("{:016x}.{}{}", hash_of_group(o.name, 0), kind, number);
}

Ref<ProcessGroup> make_inside(const HybridGroupOptions& o, const Places& places,
                              std::string_view kind, const Ref<RefCounted>& segment) {
  const auto rank = static_cast<std::size_t>(o.rank);
  const int node = places.node_of[rank];
  const std::string name = inner_name(o, kind, node);
  return make_shm_group(
      {.rank = places.index_of[rank],
       .size = static_cast<int>(places.nodes[static_cast<std::size_t>(node)].size()),
       .name = name,
       .store = o.store,
       .key = o.key,
       .job = o.job,
       .generation = o.generation,
       .timeout = o.timeout,
       .connect_timeout = o.connect_timeout,
       .node = o.node,
       .speak_after = o.speak_after,
       .recorder = o.recorder,
       .messages = make_solo_group(name),  // nobody sends any
       .reports_failures = false,
       .known_as = o.rank,
       .segment = segment});
}

// Null for a rank that carries nothing between nodes.
Ref<ProcessGroup> make_across(const HybridGroupOptions& o, const Places& places) {
  const auto rank = static_cast<std::size_t>(o.rank);
  const int index = places.index_of[rank];
  if (index >= places.carriers()) return nullptr;
  TcpGroupOptions options = hybrid::tcp_options(o, false);
  options.rank = places.node_of[rank];
  options.size = static_cast<int>(places.nodes.size());
  options.name = inner_name(o, "cross", index);
  options.known_as = o.rank;
  return make_tcp_group(options);
}

}  // namespace

TcpGroupOptions hybrid::tcp_options(const HybridGroupOptions& o, bool reports_failures) {
  return {.rank = o.rank,
          .size = o.size,
          .name = o.name,
          .store = o.store,
          .key = o.key,
          .job = o.job,
          .generation = o.generation,
          .timeout = o.timeout,
          .connect_timeout = o.connect_timeout,
          .speak_after = o.speak_after,
          .iface = o.iface,
          .route_to = o.route_to,
          .node = o.node,
          .reports_failures = reports_failures,
          .recorder = o.recorder,
          .plan = o.plan,
          .engine = o.engine};
}

Ref<ProcessGroup> hybrid::make_around(HybridGroupOptions options, const Ref<ProcessGroup>& all,
                                      const std::function<void(int)>& begin_round) {
  auto* const tcp = dynamic_cast<tcp::Group*>(all.get());
  DL_CHECK(tcp != nullptr, kInternal, "group '{}': its inner group is {}", options.name,
           all->backend());
  // One for all: the order of additions must be the same whichever rank carries a share.
  options.plan = tcp->whole_plan();
  std::vector<std::string> nodes;
  for (int r = 0; r < options.size; ++r) nodes.push_back(tcp->identity(r).node);
  Places places = places_of(nodes);
  Inner inner{.all = Ref<tcp::Group>(tcp), .lanes = {}};
  auto& [in, cross, out] = inner.lanes;
  begin_round(1);
  in = make_inside(options, places, "in", options.segment);
  begin_round(2);
  cross = make_across(options, places);
  begin_round(3);
  out = make_inside(options, places, "out", {});
  options.store = nullptr;
  options.segment = nullptr;
  return make_ref<Group>(make_ref<Core>(std::move(inner)), std::move(places), std::move(options));
}

Ref<ProcessGroup> make_hybrid_group(const HybridGroupOptions& given) {
  if (given.size == 1) return make_solo_group(given.name);
  HybridGroupOptions options = given;
  if (!options.engine) options.engine = make_tcp_engine();
  const Ref<ProcessGroup> all = make_tcp_group(hybrid::tcp_options(options, false));
  return hybrid::make_around(std::move(options), all, [](int) {});
}

}  // namespace dl::collectives
