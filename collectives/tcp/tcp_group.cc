#include "collectives/tcp/tcp_group.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "collectives/solo/solo_group.h"
#include "collectives/tcp/group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// Used even if ranks outnumber cores: they yield between two polls, which costs less than handing
// the operation to the progress thread and being woken by it. For ranks that share cores this is
// longer than the spin that suits shared memory.
constexpr std::chrono::milliseconds kTcpSpin{1};

}  // namespace

Ref<TcpEngine> make_tcp_engine() {
  return make_ref<tcp::Engine>();
}

Ref<ProcessGroup> make_tcp_group(const GroupOptions& options) {
  check_group(options);
  if (options.size == 1) return make_solo_group(options.name);
  return tcp::make_group(options);
}

Ref<tcp::Group> tcp::make_group(const GroupOptions& options) {
  check_group(options);
  tcp::Mesh mesh = tcp::connect_mesh(options);
  const std::string& node = mesh.peers[static_cast<std::size_t>(options.rank)].who.node;
  const auto local = std::count_if(mesh.peers.begin(), mesh.peers.end(),
                                   [&](const tcp::Mesh::Peer& p) { return p.who.node == node; });
  std::set<std::string_view> nodes;
  for (const tcp::Mesh::Peer& peer : mesh.peers) nodes.insert(peer.who.node);
  const Choices choices(mesh.plan,
                        {.ranks = options.size, .nodes = static_cast<int>(nodes.size())});
  GroupOptions how = options;
  how.plan = mesh.plan;
  WaitPolicy policy = wait_policy(static_cast<int>(local));
  policy.warn_after = options.warn_after;
  policy.spin = kTcpSpin;
  const Ref<Engine> engine =
      options.engine ? Ref<Engine>(static_cast<Engine*>(options.engine.get())) : make_ref<Engine>();
  return make_ref<Group>(engine, std::move(mesh), std::move(how), policy, choices);
}

}  // namespace dl::collectives
