#include "collectives/hybrid/hybrid_group.h"

#include "collectives/hybrid/group.h"
#include "collectives/shm/shm_group.h"
#include "collectives/solo/solo_group.h"
#include "collectives/tcp/tcp_group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

using hybrid::Places;

// A name for an inner group that differs from those of other nodes or indices.
std::string inner_name(const GroupOptions& o, std::string_view kind, int number) {
  return fmt::format("{:016x}.{}{}", hash_of_group(o.name, 0), kind, number);
}

// Makes the group of the ranks of this node and its lane. The group of a rank that is alone there
// stays null.
void make_inside(const GroupOptions& o, const Places& places, std::string_view kind,
                 const Ref<SegmentLease>& segment, Ref<shm::Group>& group,
                 Ref<ProcessGroup>& lane) {
  const auto rank = static_cast<std::size_t>(o.rank);
  const int node = places.node_of[rank];
  GroupOptions inside = o;
  inside.rank = places.index_of[rank];
  inside.size = static_cast<int>(places.nodes[static_cast<std::size_t>(node)].size());
  inside.name = inner_name(o, kind, node);
  inside.known_as = o.rank;
  inside.segment = segment;
  if (inside.size == 1) {
    lane = make_solo_group(inside.name);
    return;
  }
  group = shm::make_group(inside);
  lane = group;
}

// Null for a rank that carries no data between nodes.
Ref<ProcessGroup> make_across(const GroupOptions& o, const Places& places) {
  const auto rank = static_cast<std::size_t>(o.rank);
  const int index = places.index_of[rank];
  if (index >= places.carriers()) return nullptr;
  GroupOptions across = o;
  across.rank = places.node_of[rank];
  across.size = static_cast<int>(places.nodes.size());
  across.name = inner_name(o, "cross", index);
  across.known_as = o.rank;
  return make_tcp_group(across);
}

}  // namespace

Ref<ProcessGroup> hybrid::make_group(const GroupOptions& options,
                                     const std::function<void(int)>& begin_round) {
  GroupOptions inner = options;
  inner.connect_by = connect_deadline(options);
  inner.segment = nullptr;
  // `all` reports failures itself: operations that take no route fail there without this group.
  const Ref<tcp::Group> all = tcp::make_group(inner);
  // An inner operation does not name the operation that was called.
  inner.reports_failures = false;
  // One plan for all ranks: the order of additions must not depend on which rank carries a share.
  inner.plan = all->whole_plan();
  std::vector<std::string> nodes;
  for (int r = 0; r < options.size; ++r) nodes.push_back(all->identity(r).node);
  Places places = places_of(nodes);
  Inner groups{.all = all, .in = {}, .out = {}, .lanes = {}};
  auto& [in, cross, out] = groups.lanes;
  begin_round(1);
  make_inside(inner, places, "in", options.segment, groups.in, in);
  begin_round(2);
  cross = make_across(inner, places);
  begin_round(3);
  make_inside(inner, places, "out", {}, groups.out, out);
  GroupOptions how = options;
  how.plan = inner.plan;
  forget_connecting(how);
  return make_ref<Group>(make_ref<Core>(std::move(groups)), std::move(places), std::move(how));
}

Ref<ProcessGroup> make_hybrid_group(const GroupOptions& given) {
  if (given.size == 1) return make_solo_group(given.name);
  GroupOptions options = given;
  if (!options.engine) options.engine = make_tcp_engine();
  return hybrid::make_group(options, [](int) {});
}

}  // namespace dl::collectives
