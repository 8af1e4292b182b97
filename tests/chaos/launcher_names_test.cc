// Two nodes whose hosts have names: what the names lead to on each of them, and that the nodes and
// their ranks meet all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "rendezvous/net/handshake/job_key.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_hosts.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;
using Node = std::unique_ptr<tests::Process>;

class Names : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
    hosts_ = std::make_unique<tests::TwoHosts>();
  }

  // A process of host 0 or 1 with these variables.
  Node start(int host, const Words& line, Words environment = {}) const {
    environment.push_back("XDG_CONFIG_HOME=" + home_.path());
    return std::make_unique<tests::Process>(
        hosts_->on(host, line), tests::Process::Options{.environment = std::move(environment)});
  }
  // dlrun of a node with one rank.
  Node node(int host, const Words& options, const Words& program,
            const Words& environment = {}) const {
    Words line = {tests::program("dlrun"), "--nproc-per-node", "1"};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), program.begin(), program.end());
    return start(host, line, environment);
  }
  static Words at(const std::string& endpoint) {
    return {"--nnodes", "2", "--rdzv-endpoint", endpoint};
  }
  // torchrun's static line.
  static Words statically(int number, const std::string& address, const Words& more = {}) {
    Words line = {"--nnodes",      "2",     "--node-rank",   std::to_string(number),
                  "--master-addr", address, "--master-port", "23456"};
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
  static Words torch(const std::string& what) {
    return {"env", tests::program("../tests/torch_store_probe"), what};
  }
  // Its ranks make a group and sum in it.
  static Words group() {
    return {tests::program("dlbench"), "all_reduce", "-e", "8", "-n", "1", "-w", "0"};
  }
  static Words echo(const std::string& text) { return {"sh", "-c", "echo " + text}; }

  static void expect_success(const Node& zero, const Node& one) {
    EXPECT_EQ(zero->wait(), 0) << zero->err();
    EXPECT_EQ(one->wait(), 0) << one->err();
  }

  tests::TempDir home_;
  std::unique_ptr<tests::TwoHosts> hosts_;
};

// What node 0 calls itself, while the other node calls it a.
class OwnName : public Names, public testing::WithParamInterface<const char*> {};

TEST_P(OwnName, LeadsToItselfAndStillTheRanksMakeAGroup) {
  hosts_->call_as_debian();
  const Node one = node(1, at("a:29400"), group());
  const Node zero = node(0, at(std::string(GetParam()) + ":29400"), group());
  expect_success(zero, one);
}

TEST_P(OwnName, LeadsToItselfAndStillTheRanksMeetInTorchsStore) {
  hosts_->call_as_debian();
  const std::string own = GetParam();
  const Node one = node(1, statically(1, "a"), torch("meet"));
  const Node zero = node(0, statically(0, own == "[::]" ? "::" : own), torch("meet"));
  expect_success(zero, one);
  EXPECT_THAT(zero->out(), HasSubstr("] all are here\n"));
  EXPECT_THAT(one->out(), HasSubstr("] all are here\n"));
}

INSTANTIATE_TEST_SUITE_P(Of, OwnName, testing::Values("a", "localhost", "0.0.0.0", "[::]"),
                         [](const auto& word) {
                           const std::string text = word.param;
                           return text == "0.0.0.0" ? "AnyIpv4" : text == "[::]" ? "AnyIpv6" : text;
                         });

TEST_F(Names, ASlurmStepsNodesMeetThoughTheFirstIsLoopbackToItself) {
  hosts_->call_as_debian();
  const auto task = [&](int number) {
    const std::string id = std::to_string(number);
    return node(number, {"--key-file", home_.path() + "/key"}, group(),
                {"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=a,b",
                 "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=2",
                 "SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_NODEID=" + id, "SLURM_PROCID=" + id});
  };
  rendezvous::JobKey::generate().write_file(home_.path() + "/key");
  const Node one = task(1);
  const Node zero = task(0);
  expect_success(zero, one);
}

TEST_F(Names, RanksWithoutDlrunMeetThoughMasterAddrIsLoopbackOnRank0) {
  hosts_->call_as_debian();
  rendezvous::JobKey::generate().write_file(home_.path() + "/key");
  const auto rank = [&](int number) {
    return start(number, group(),
                 {"RANK=" + std::to_string(number), "WORLD_SIZE=2", "MASTER_ADDR=a",
                  "MASTER_PORT=23456", "DLRUN_KEY_FILE=" + home_.path() + "/key"});
  };
  const Node one = rank(1);
  const Node zero = rank(0);
  expect_success(zero, one);
}

// Gloo looks its host's address up by the host's name.
TEST_F(Names, RanksGetTheInterfaceForGlooIfTheHostsNameIsLoopback) {
  const Words program = echo("${GLOO_SOCKET_IFNAME-none}");
  for (const std::string own : {"127.0.1.1 a\n", "10.0.0.1 a\n"}) {
    hosts_->call(0, "a", own);
    const Node one = node(1, at("10.0.0.1"), program, {"GLOO_SOCKET_IFNAME=mine"});
    const Node zero = node(0, at("10.0.0.1"), program);
    expect_success(zero, one);
    EXPECT_EQ(zero->out(), own.starts_with("127") ? "[rank 0] eth0\n" : "[rank 0] none\n");
    EXPECT_EQ(one->out(), "[rank 1] mine\n") << "the user's counts";
  }
}

TEST_F(Names, HostsThatBothTakeTheEndpointForTheirOwnAreToldSo) {
  hosts_->call(0, "twin", "127.0.1.1 twin\n");
  hosts_->call(1, "twin", "127.0.1.1 twin\n");
  const Words once = {"--join-timeout", "1"};
  for (const std::string name : {"twin", "localhost"}) {
    Words options = at(name);
    options.insert(options.end(), once.begin(), once.end());
    const Node nodes[] = {node(0, options, {"true"}), node(1, options, {"true"})};
    const std::string address = name == "twin" ? "127.0.1.1" : "127.0.0.1";
    for (const Node& each : nodes) {
      EXPECT_EQ(each->wait(), 124);
      EXPECT_THAT(each->err(),
                  AllOf(HasSubstr("node rank 1 (this host is node 0, because " + name + " is "),
                        HasSubstr("if another host takes it for its own too, the two never meet: "
                                  "give all nodes an address at which they reach one host)")));
    }
    EXPECT_THAT(nodes[0]->err(), HasSubstr(address == "127.0.1.1" ? address : " is "));
  }
}

TEST_F(Names, OfTwoHostsWithOneNameTheSecondIsRefusedAndToldWhy) {
  hosts_->call(0, "twin", "10.0.0.1 twin\n");
  hosts_->call(1, "twin", "10.0.0.1 twin\n");
  const Node nodes[] = {node(0, at("twin"), {"true"}), node(1, at("twin"), {"true"})};
  // Host 0 serves, and may be the second: then host 1 ends too, maybe earlier, as its service is
  // gone.
  const auto second = [&] {
    return std::ranges::find_if(nodes, [](const Node& each) {
      return each->has_ended() &&
             each->err().find("took the endpoint for its own, as host twin (pid ") !=
                 std::string::npos;
    });
  };
  ASSERT_TRUE(tests::eventually([&] { return second() != std::end(nodes); }))
      << nodes[0]->err() << nodes[1]->err();
  EXPECT_EQ((*second())->wait(), 1);
}

TEST_F(Names, ANodeWhoseEndpointIsItselfIsToldSo) {
  hosts_->call_as_debian();
  const Node one =
      node(1, {"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "b", "--join-timeout", "1"},
           {"true"});
  EXPECT_EQ(one->wait(), 124);
  EXPECT_THAT(one->err(), HasSubstr("(b is this host itself; if node 0 is on another host, give an "
                                    "address of that host)"));
}

TEST_F(Names, MasterAddrIsIpv4IfTheNameHasBothAndBothLeadThere) {
  hosts_->ip(0, "address add fd00::1/64 dev eth0 nodad");
  hosts_->ip(1, "address add fd00::2/64 dev eth0 nodad");
  for (const int host : {0, 1}) {
    hosts_->call(host, host == 0 ? "a" : "b", "fd00::1 a\n10.0.0.1 a\n");
  }
  const Node one = node(1, at("a"), echo("$MASTER_ADDR $DLRUN_STORE"));
  const Node zero = node(0, at("a"), echo("$MASTER_ADDR $DLRUN_STORE"));
  expect_success(zero, one);
  for (const Node* each : {&zero, &one}) {
    EXPECT_THAT((*each)->out(), HasSubstr("] 10.0.0.1 10.0.0.1:29400\n"));
  }
}

// 10.9.0.1 is an address of node 0, and packets to it from the other host get lost.
TEST_F(Names, MasterAddrIsTheAddressOverWhichTheNodesHaveMet) {
  hosts_->ip(0, "address add 10.9.0.1/32 dev eth0");
  hosts_->ip(1, "route add 10.9.0.1/32 dev eth0");
  hosts_->ip(1, "neighbour add 10.9.0.1 lladdr 02:00:00:00:00:99 dev eth0");
  for (const int host : {0, 1}) {
    hosts_->call(host, host == 0 ? "a" : "b", "10.9.0.1 a\n10.0.0.1 a\n");
  }
  Words program = torch("meet");
  program.insert(program.begin(), {"sh", "-c", "echo $MASTER_ADDR; exec \"$@\"", "sh"});
  const Node one = node(1, at("a"), program);
  const Node zero = node(0, at("a"), program);
  expect_success(zero, one);
  EXPECT_THAT(zero->out(), AllOf(HasSubstr("] 10.0.0.1\n"), HasSubstr("] all are here\n")));
  EXPECT_THAT(one->out(), AllOf(HasSubstr("] 10.0.0.1\n"), HasSubstr("] all are here\n")));
}

TEST_F(Names, ALinkLocalEndpointIsNode0sOwn) {
  hosts_->ip(0, "address add fe80::a/64 dev eth0 nodad");
  const Node one = node(1, at("[fe80::a%eth0]:29400"), echo("$GROUP_RANK"));
  const Node zero = node(0, at("[fe80::a%eth0]:29400"), echo("$GROUP_RANK"));
  expect_success(zero, one);
  EXPECT_EQ(zero->out(), "[rank 0] 0\n");
  EXPECT_EQ(one->out(), "[rank 1] 1\n");
}

TEST_F(Names, RanksSeeTheMasterPortAtWhichTheNodesHaveMet) {
  hosts_->call_as_debian();
  for (const Words& program : {torch("meet"), Words{torch("listen").back()}}) {
    Words line = {"sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT; exec \"$@\"", "sh"};
    if (program.size() == 1)
      line.insert(line.end(), {tests::program("../tests/torch_store_probe")});
    line.insert(line.end(), program.begin(), program.end());
    // A program that listens at the port itself: the rendezvous has left it.
    const Words alone = {program.size() == 1 ? "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" : "UNUSED="};
    const Node one = node(1, statically(1, "a"), line, alone);
    const Node zero = node(0, statically(0, "a"), line, alone);
    expect_success(zero, one);
    EXPECT_THAT(zero->out(), HasSubstr("] a:23456\n"));
    EXPECT_THAT(one->out(), HasSubstr("] a:23456\n"));
  }
}

TEST_F(Names, AtASharedPortNodesMeetAgainAfterAFailure) {
  hosts_->call_as_debian();
  Words program = torch("meet");
  program.insert(
      program.begin(),
      {"sh", "-c",
       "test $TORCHELASTIC_RESTART_COUNT = 2 || { test $RANK = 1 && exit 3; sleep 300; }; "
       "exec \"$@\"",
       "sh"});
  const Words options = {"--max-restarts", "2", "--grace", "1"};
  const Node one = node(1, statically(1, "a", options), program);
  const Node zero = node(0, statically(0, "a", options), program);
  expect_success(zero, one);
  EXPECT_THAT(zero->out(), HasSubstr("] all are here\n"));
  EXPECT_THAT(one->out(), HasSubstr("] all are here\n"));
}

// Its dlrun is killed and started again, as a program that watches over it would.
TEST_F(Names, AtASharedPortALostNodeJoinsTheNextGeneration) {
  hosts_->call_as_debian();
  const Words program = {"sh", "-c", "echo $TORCHELASTIC_RESTART_COUNT; exec sleep 300"};
  const Words options = {"--max-restarts", "1", "--grace", "1"};
  const Node zero = node(0, statically(0, "a", options), program);
  {
    const Node one = node(1, statically(1, "a", options), program);
    ASSERT_TRUE(one->wait_for_out("] 0\n"));
    one->signal(SIGKILL);
  }
  const Node again = node(1, statically(1, "a", options), program);
  ASSERT_TRUE(again->wait_for_out("] 1\n")) << again->err();
  ASSERT_TRUE(zero->wait_for_out("] 1\n")) << zero->err();
  zero->signal(SIGINT);
  zero->wait();
  again->wait();
}

TEST_F(Names, ATakenPortIsSaidOfTheOptionThatNamesIt) {
  hosts_->call_as_debian();
  const Node holder =
      start(0, {"python3", "-c",
                "import socket; s = socket.socket(); s.bind(('', 23456)); s.listen(); print('up', "
                "flush=True); s.accept()"});
  ASSERT_TRUE(holder->wait_for_out("up"));
  const Node zero = node(0, statically(0, "a"), {"true"});
  EXPECT_EQ(zero->wait(), 1);
  EXPECT_THAT(zero->err(), AllOf(HasSubstr("dlrun: --master-port 23456: the port is taken on a"),
                                 Not(HasSubstr("--rdzv-endpoint"))));
}

}  // namespace
}  // namespace dl
