// Which address of node 0 the nodes get: the one over which they have met.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rendezvous/membership/membership.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;
using Texts = std::vector<std::string>;

// A node that reaches the service at `reached` from `own`.
pb::Join node(int number, const std::string& own, const std::string& reached) {
  pb::Join join;
  join.set_node_id("node-" + std::to_string(number));
  join.set_host("host-" + std::to_string(number));
  join.set_address(own);
  join.set_service_address(reached);
  join.set_slots(1);
  join.set_node_rank(number);
  join.set_master_port(20000);
  return join;
}
// Node 0, which serves, with the addresses of its host.
pb::Join server(const std::string& own, const Texts& addresses) {
  pb::Join join = node(0, own, own);
  join.set_serves(true);
  for (const std::string& address : addresses) join.add_host_addresses(address);
  return join;
}

class MasterAddr : public testing::Test {
 protected:
  // The nodes' generations, by node rank. The nodes come in reverse order.
  std::vector<pb::Generation> meet(std::vector<pb::Join> joins, std::uint16_t moves_to = 0) {
    Membership membership({.moves_to = moves_to});
    std::vector<pb::Generation> generations(joins.size());
    for (std::size_t i = joins.size(); i-- > 0;) {
      pb::FromNode message;
      *message.mutable_join() = joins[i];
      message.mutable_join()->set_nnodes(static_cast<int>(joins.size()));
      for (const Membership::Outgoing& out :
           membership.on_message(i + 1, message, Deadline::Clock::now())) {
        EXPECT_TRUE(out.message.has_generation()) << out.message.ShortDebugString();
        generations[static_cast<std::size_t>(out.to) - 1] = out.message.generation();
      }
    }
    return generations;
  }
  Texts master_addrs(std::vector<pb::Join> joins) {
    Texts addresses;
    for (const pb::Generation& each : meet(std::move(joins))) {
      addresses.push_back(each.master_addr());
    }
    return addresses;
  }
};

TEST_F(MasterAddr, IsWhatOthersHaveReachedIfNodeZeroKnowsLoopback) {
  EXPECT_EQ(master_addrs({server("127.0.1.1", {"10.0.0.1"}), node(1, "10.0.0.2", "10.0.0.1")}),
            (Texts{"10.0.0.1", "10.0.0.1"}));
}

TEST_F(MasterAddr, IsWhatOthersHaveReachedIfNodeZeroReachesAnother) {
  EXPECT_EQ(
      master_addrs({server("10.9.0.1", {"10.9.0.1", "10.0.0.1"}), node(1, "10.0.0.2", "10.0.0.1")}),
      (Texts{"10.0.0.1", "10.0.0.1"}));
}

TEST_F(MasterAddr, IsLoopbackIfAllNodesShareAHost) {
  EXPECT_EQ(master_addrs({server("127.0.0.1", {"10.0.0.1"}), node(1, "127.0.0.1", "127.0.0.1")}),
            (Texts{"127.0.0.1", "127.0.0.1"}));
}

TEST_F(MasterAddr, IsForEachNodeTheOneThatItHasReached) {
  const std::vector<pb::Generation> all =
      meet({server("127.0.0.1", {"10.0.0.1", "fd00::1"}), node(1, "fd00::2", "fd00::1"),
            node(2, "10.0.0.2", "10.0.0.1")});
  EXPECT_EQ(all[0].master_addr(), "10.0.0.1") << "IPv4 first";
  EXPECT_EQ(all[1].master_addr(), "fd00::1");
  EXPECT_EQ(all[2].master_addr(), "10.0.0.1");
  EXPECT_EQ(Texts(all[0].met_at().begin(), all[0].met_at().end()), (Texts{"10.0.0.1", "fd00::1"}));
}

TEST_F(MasterAddr, KeepsTheInterfaceOfTheNodeThatUsesALinkLocalOne) {
  EXPECT_EQ(master_addrs(
                {server("fe80::1%eth0", {"fe80::1%eth0"}), node(1, "fe80::2%en1", "fe80::1%en1")}),
            (Texts{"fe80::1%eth0", "fe80::1%en1"}));
}

// Only the endpoint's own port is forwarded.
TEST_F(MasterAddr, IsNoAddressThatForwardsToNodeZero) {
  EXPECT_EQ(master_addrs({server("10.0.0.1", {"10.0.0.1"}), node(1, "10.0.0.2", "192.0.2.9")}),
            (Texts{"10.0.0.1", "10.0.0.1"}));
  EXPECT_EQ(master_addrs({server("127.0.0.1", {"10.0.0.1"}), node(1, "10.0.0.2", "192.0.2.9")}),
            (Texts{"10.0.0.1", "10.0.0.1"}));
}

TEST_F(MasterAddr, IsTheUsersIfThereIsOne) {
  pb::Join first = server("head", {"10.0.0.1"});
  first.set_is_address_given(true);
  EXPECT_EQ(master_addrs({first, node(1, "10.0.0.2", "10.0.0.1")}), (Texts{"head", "head"}));
}

TEST_F(MasterAddr, IsNodeZerosOwnIfAnotherNodeServes) {
  pb::Join second = node(1, "10.0.0.2", "10.0.0.2");
  second.set_serves(true);
  EXPECT_EQ(master_addrs({node(0, "10.0.0.1", "10.0.0.2"), second}),
            (Texts{"10.0.0.1", "10.0.0.1"}));
}

TEST_F(MasterAddr, IsWhereAServiceThatMovesIsFound) {
  const std::vector<pb::Generation> all =
      meet({server("127.0.1.1", {"10.0.0.1", "fd00::1"}), node(1, "fd00::2", "fd00::1")}, 4711);
  EXPECT_EQ(all[0].store(), "[fd00::1]:4711");
  EXPECT_EQ(all[1].store(), "[fd00::1]:4711");
}

TEST(TwoNodesThatServe, AreOneEndpointTakenTwice) {
  Membership membership(Membership::Options{});
  pb::FromNode message;
  for (const std::uint64_t id : {1, 2}) {
    *message.mutable_join() = server("10.0.0.1", {"10.0.0.1"});
    message.mutable_join()->set_node_id(std::to_string(id));
    message.mutable_join()->set_host("twin");
    message.mutable_join()->set_nnodes(2);
    message.mutable_join()->set_pid(static_cast<int>(id));
    const Membership::Outbox out = membership.on_message(id, message, Deadline::Clock::now());
    ASSERT_EQ(out.size(), id - 1);
    if (id == 1) continue;
    EXPECT_EQ(out[0].message.refused().reason(),
              "host twin (pid 2) took the endpoint for its own, as host twin (pid 1) has done; do "
              "both have one name? Give all nodes an address of node 0, or its number to each "
              "(--node-rank)");
  }
}

}  // namespace
}  // namespace dl::rendezvous
