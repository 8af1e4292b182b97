#include "collectives/tcp/tcp_group.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "collectives/solo/solo_group.h"
#include "collectives/tcp/group.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// Also where ranks outnumber cores: between two looks they yield, which costs less than to hand an
// operation to the progress thread and be woken by it. Among ranks that share cores it lasts longer
// than the wait that suits shared memory.
constexpr std::chrono::milliseconds kTcpSpin{1};

}  // namespace

Ref<RefCounted> make_tcp_engine() {
  return make_ref<tcp::Engine>();
}

Ref<ProcessGroup> make_tcp_group(const TcpGroupOptions& options) {
  DL_CHECK(options.size >= 1 && options.rank >= 0 && options.rank < options.size, kInvalidArgument,
           "group '{}': rank is {} of a world size of {}", options.name, options.rank,
           options.size);
  DL_CHECK(!options.name.empty() && options.name.size() <= 128 &&
               options.name.find('/') == std::string::npos,
           kInvalidArgument, "a group's name has 1 to 128 bytes and no '/', got '{}'",
           options.name);
  if (options.size == 1) return make_solo_group(options.name);
  DL_CHECK(options.store != nullptr, kInvalidArgument,
           "group '{}' of {} ranks needs a store for them to find each other", options.name,
           options.size);
  auto* const shared = dynamic_cast<tcp::Engine*>(options.engine.get());
  DL_CHECK(shared != nullptr || !options.engine, kInvalidArgument,
           "group '{}': engine is none of make_tcp_engine()", options.name);
  tcp::Mesh mesh = tcp::connect_mesh(options);
  const std::string& node = mesh.peers[static_cast<std::size_t>(options.rank)].who.node;
  const auto local = std::count_if(mesh.peers.begin(), mesh.peers.end(),
                                   [&](const tcp::Mesh::Peer& p) { return p.who.node == node; });
  std::set<std::string_view> nodes;
  for (const tcp::Mesh::Peer& peer : mesh.peers) nodes.insert(peer.who.node);
  const Choices choices(mesh.plan,
                        {.ranks = options.size, .nodes = static_cast<int>(nodes.size())});
  TcpGroupOptions how = options;
  how.plan = mesh.plan;
  WaitPolicy policy = wait_policy(static_cast<int>(local));
  policy.speak_after = options.speak_after;
  policy.spin = kTcpSpin;
  return make_ref<tcp::Group>(
      shared != nullptr ? Ref<tcp::Engine>(shared) : make_ref<tcp::Engine>(), std::move(mesh),
      tcp::Group::Options{.name = options.name,
                          .generation = options.generation,
                          .timeout = options.timeout,
                          .policy = policy,
                          .choices = choices,
                          .how = how});
}

}  // namespace dl::collectives
