// Two nodes, each with a dlrun of its own, in network namespaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/gate.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_hosts.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

class Nodes : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tests::TwoHosts::why_not(); !why.empty()) GTEST_SKIP() << why;
    hosts_ = std::make_unique<tests::TwoHosts>();
  }

  // dlrun of one node with two ranks that run `script`.
  std::unique_ptr<tests::Process> node(int number, const std::string& script,
                                       std::vector<std::string> options = {}) const {
    return node(number, script, options, home_.path());
  }
  std::unique_ptr<tests::Process> node(int number, const std::string& script,
                                       const std::vector<std::string>& options,
                                       const std::string& home) const {
    return node_of(number, {"sh", "-c", script}, options, home);
  }
  std::unique_ptr<tests::Process> node_of(int number, const std::vector<std::string>& program,
                                          const std::vector<std::string>& options = {}) const {
    return node_of(number, program, options, home_.path());
  }
  std::unique_ptr<tests::Process> node_of(int number, const std::vector<std::string>& program,
                                          const std::vector<std::string>& options,
                                          const std::string& home) const {
    std::vector<std::string> line = {tests::program("dlrun"),
                                     "--nnodes",
                                     "2",
                                     "--node-rank",
                                     std::to_string(number),
                                     "--rdzv-endpoint",
                                     hosts_->address(0) + ":29400",
                                     "--nproc-per-node",
                                     "2"};
    line.insert(line.end(), options.begin(), options.end());
    line.insert(line.end(), program.begin(), program.end());
    return std::make_unique<tests::Process>(
        hosts_->on(number, line),
        tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home}});
  }

  static bool gone(const tests::Process& job) {
    return tests::eventually([&] { return tests::processes_with(job.mark()).empty(); });
  }

  tests::TempDir home_;
  std::unique_ptr<tests::TwoHosts> hosts_;
};

TEST_F(Nodes, RanksOfBothAreOneJob) {
  constexpr const char* kScript =
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE "
      "$MASTER_ADDR $DLRUN_STORE";
  const auto one = node(1, kScript);  // the second node may come first
  const auto zero = node(0, kScript);
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
  EXPECT_THAT(zero->out(), HasSubstr("[rank 0] 0/4 0/2 0/2 10.0.0.1 10.0.0.1:29400\n"));
  EXPECT_THAT(zero->out(), HasSubstr("[rank 1] 1/4 1/2 0/2 10.0.0.1 10.0.0.1:29400\n"));
  EXPECT_THAT(one->out(), HasSubstr("[rank 2] 2/4 0/2 1/2 10.0.0.1 10.0.0.1:29400\n"));
  EXPECT_THAT(one->out(), HasSubstr("[rank 3] 3/4 1/2 1/2 10.0.0.1 10.0.0.1:29400\n"));
}

// Ranks of both nodes find PyTorch's store on node 0, which listens on the interface between them.
TEST_F(Nodes, Node0ServesPyTorchsStoreOnOneInterface) {
  const std::vector<std::string> program = {"env", tests::program("../tests/torch_store_probe"),
                                            "loopback"};
  const auto one = node_of(1, program);
  const auto zero = node_of(0, program);
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
  for (const auto* node : {&zero, &one}) {
    EXPECT_THAT((*node)->out(), HasSubstr("] all are here\n"));
    EXPECT_THAT((*node)->out(), HasSubstr("] nobody listens on loopback\n"));
  }
}

// Nodes meet minutes after node 0 has looked at the port.
TEST_F(Nodes, ThePortOfPyTorchsStoreIsKeptUntilTheNodesHaveMet) {
  constexpr std::uint16_t kPort = 23456;
  const auto take_port = [&] {
    return hosts_->on(0, {"python3", "-c",
                          "import socket; s = socket.socket(); "
                          "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "
                          "s.bind(('10.0.0.1', " +
                              std::to_string(kPort) + ")); s.listen()"});
  };
  const std::vector<std::string> options = {"--master-port", std::to_string(kPort)};
  const std::vector<std::string> program = {"env", tests::program("../tests/torch_store_probe"),
                                            "loopback"};
  const auto zero = node_of(0, program, options);
  ASSERT_TRUE(tests::eventually([&] { return tests::Process(take_port()).wait() != 0; }));
  const auto one = node_of(1, program, options);
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
  EXPECT_THAT(zero->out(), HasSubstr("] all are here\n"));
  EXPECT_THAT(zero->out(), HasSubstr("] nobody listens on loopback\n"));
}

TEST_F(Nodes, PyTorchsStoreOutlivesRank0) {
  const std::vector<std::string> program = {"env", tests::program("../tests/torch_store_probe"),
                                            "outlive"};
  const auto one = node_of(1, program, {"--grace", "300"});
  const auto zero = node_of(0, program, {"--grace", "300"});
  EXPECT_EQ(zero->wait(), 128 + SIGKILL);
  EXPECT_EQ(one->wait(), 128 + SIGKILL);
  EXPECT_THAT(zero->out(), HasSubstr("[rank 1] left by rank 0, and still by rank 0\n"));
  EXPECT_THAT(one->out(), HasSubstr("[rank 2] left by rank 0, and still by rank 0\n"));
}

TEST_F(Nodes, TheNodeWhoseAddressTheEndpointIsListensAndIsNodeZero) {
  const auto start = [&](int host) {
    return std::make_unique<tests::Process>(
        hosts_->on(host, {tests::program("dlrun"), "--nnodes=2", "--rdzv-backend=c10d",
                          "--rdzv-endpoint=" + hosts_->address(0), "-n", "2", "sh", "-c",
                          "echo node $GROUP_RANK $MASTER_ADDR"}),
        tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home_.path()}});
  };
  const auto one = start(1);  // the node that does not listen may come first
  const auto zero = start(0);
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
  EXPECT_EQ(zero->out(), "[rank 0] node 0 10.0.0.1\n");
  EXPECT_EQ(one->out(), "[rank 1] node 1 10.0.0.1\n");
}

TEST_F(Nodes, AFailureOnOneEndsBothWithTheSameCauseAndExitCode) {
  for (const std::string failing : {"1", "2"}) {
    const std::string script =
        "test $RANK = " + failing + " && { echo why >&2; exit 7; }; exec sleep 300";
    const auto zero = node(0, script);
    const auto one = node(1, script);
    EXPECT_EQ(zero->wait(), 7);
    EXPECT_EQ(one->wait(), 7);
    for (const auto* job : {zero.get(), one.get()}) {
      EXPECT_THAT(job->err(), HasSubstr("dlrun: rank " + failing + " (node "));
      EXPECT_THAT(job->err(), HasSubstr("ended with exit code 7"));
      EXPECT_THAT(job->err(), HasSubstr("dlrun:     | why"));
      EXPECT_TRUE(gone(*job));
    }
  }
}

TEST_F(Nodes, AnAgentThatDiesIsNoticed) {
  for (const int victim : {0, 1}) {
    const auto zero = node(0, "echo ready; exec sleep 300");
    const auto one = node(1, "echo ready; exec sleep 300");
    ASSERT_TRUE(zero->wait_for_out("ready") && one->wait_for_out("ready"))
        << zero->err() << one->err();
    const auto& dead = victim == 0 ? zero : one;
    const auto& other = victim == 0 ? one : zero;
    dead->signal(SIGKILL);
    EXPECT_EQ(other->wait(), 1);
    EXPECT_THAT(other->err(), HasSubstr("lost")) << victim;
    EXPECT_TRUE(gone(*dead));
    EXPECT_TRUE(gone(*other));
  }
}

TEST_F(Nodes, ACutCableIsNoticedOnBothSides) {
  const auto zero = node(0, "echo ready; exec sleep 300");
  const auto one = node(1, "echo ready; exec sleep 300");
  ASSERT_TRUE(zero->wait_for_out("ready") && one->wait_for_out("ready"));
  hosts_->cut();
  EXPECT_EQ(zero->wait(), 1);
  EXPECT_EQ(one->wait(), 1);
  // Neither side can know which of them is to blame.
  EXPECT_THAT(zero->err(), HasSubstr(" lost each other: "));
  EXPECT_THAT(one->err(), HasSubstr(" lost each other: "));
  EXPECT_TRUE(gone(*zero));
  EXPECT_TRUE(gone(*one));
}

TEST_F(Nodes, ASignalToOneEndsBothWithTheSameExitCode) {
  struct Case {
    int node;
    int signal;
    const char* name;
  };
  for (const Case& c :
       {Case{1, SIGINT, "SIGINT"}, Case{0, SIGTERM, "SIGTERM"}, Case{1, SIGHUP, "SIGHUP"}}) {
    const auto zero = node(0, "echo ready; exec sleep 300");
    const auto one = node(1, "echo ready; exec sleep 300");
    ASSERT_TRUE(zero->wait_for_out("ready") && one->wait_for_out("ready"));
    (c.node == 0 ? zero : one)->signal(c.signal);
    EXPECT_EQ(zero->wait(), 128 + c.signal) << zero->err();
    EXPECT_EQ(one->wait(), 128 + c.signal) << one->err();
    for (const auto* job : {zero.get(), one.get()}) {
      EXPECT_THAT(job->err(), HasSubstr(std::string("stopped by ") + c.name));
    }
  }
}

// On a loaded machine the nodes may not have met when the time is over; they then get more.
TEST_F(Nodes, TheTimeoutOfOneEndsBothWith124) {
  for (const char* seconds : {"1", "10", "60"}) {
    const auto zero = node(0, "echo ready; exec sleep 300");
    const auto one = node(1, "exec sleep 300", {"--timeout", seconds});
    EXPECT_EQ(one->wait(), 124) << one->err();
    const bool had_met = zero->out().find("ready") != std::string::npos;
    if (!had_met) zero->signal(SIGTERM);
    const int code = zero->wait();
    if (!had_met) continue;
    EXPECT_EQ(code, 124) << zero->err();
    EXPECT_THAT(zero->err(), HasSubstr("which is its --timeout"));
    return;
  }
  FAIL() << "the nodes did not meet within 60 s";
}

TEST_F(Nodes, AStoppedDlrunIsNamedOnTheOtherNodeAndTheJobGoesOn) {
  const tests::Gate gate;
  const auto zero = node(0, "echo ready; " + gate.wait());
  const auto one = node(1, "echo ready; " + gate.wait());
  ASSERT_TRUE(zero->wait_for_out("ready") && one->wait_for_out("ready"));
  for (const int signal : {SIGSTOP, SIGTSTP}) {
    one->signal(signal);
    EXPECT_TRUE(zero->wait_for_err(signal == SIGSTOP
                                       ? "its dlrun has been stopped for "
                                       : "its dlrun was suspended by its user (Ctrl-Z)"))
        << zero->err();
    one->signal(SIGCONT);
    EXPECT_TRUE(zero->wait_for_err("its dlrun goes on after "));
  }
  gate.open();
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
}

TEST_F(Nodes, AStoppedRendezvousIsNamedAndThenEndsTheJob) {
  const auto zero = node(0, "echo ready; exec sleep 300");
  const auto one = node(1, "echo ready; exec sleep 300");
  ASSERT_TRUE(zero->wait_for_out("ready") && one->wait_for_out("ready"));
  for (const pid_t pid : tests::processes_with(one->mark())) {
    if (tests::name_of(pid).starts_with("dlrun-rendezv")) ::kill(pid, SIGSTOP);
  }
  EXPECT_EQ(zero->wait(), 1);
  EXPECT_EQ(one->wait(), 1);
  EXPECT_THAT(zero->err(), HasSubstr("node rank 1 (host "));
  EXPECT_THAT(zero->err(), HasSubstr("): nothing has come from it for "));
  EXPECT_THAT(one->err(), HasSubstr(", which the ranks meet through, has not answered for 5 s"));
  EXPECT_THAT(one->err(), HasSubstr("has not answered for 8 s, so dlrun has killed it"));
  EXPECT_TRUE(gone(*zero) && gone(*one));
}

TEST_F(Nodes, AnotherKeyIsRefused) {
  const tests::TempDir strangers_home;
  const auto zero = node(0, "true");
  const auto stranger = node(1, "true", {}, strangers_home.path());
  EXPECT_EQ(stranger->wait(), 1);
  EXPECT_THAT(stranger->err(), HasSubstr("key"));
  EXPECT_FALSE(zero->has_ended());
  const auto one = node(1, "true");  // is not kept out because of the stranger
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
}

TEST_F(Nodes, AnotherProgramIsRefusedAndBothSidesSaySo) {
  const auto zero = node_of(0, {"sh", "-c", "true"});
  const auto stranger = node_of(1, {"/bin/echo", "hello"});
  EXPECT_EQ(stranger->wait(), 1);
  for (const auto* side : {zero.get(), stranger.get()}) {
    EXPECT_TRUE(side->wait_for_err("runs echo (`/bin/echo hello`)")) << side->err();
    EXPECT_THAT(side->err(), HasSubstr("this endpoint runs sh (`sh -c true`"));
  }
  EXPECT_FALSE(zero->has_ended());
  const auto one = node_of(1, {"/bin/sh", "-c", "true"});
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
  for (const auto* side : {zero.get(), one.get()}) {
    EXPECT_THAT(side->err(), HasSubstr("the nodes run different lines: node rank 0 ("));
    EXPECT_THAT(side->err(), HasSubstr("`/bin/sh -c true`"));
  }
}

TEST_F(Nodes, ANameMakesOneJobOfTwoPrograms) {
  const auto zero = node_of(0, {"sh", "-c", "true"}, {"--rdzv-id", "a"});
  const auto one = node_of(1, {"/bin/echo", "hello"}, {"--rdzv-id", "a"});
  EXPECT_EQ(zero->wait(), 0) << zero->err();
  EXPECT_EQ(one->wait(), 0) << one->err();
  EXPECT_THAT(zero->err() + one->err(), testing::Not(HasSubstr("different lines")));
}

TEST_F(Nodes, ATakenEndpointIsSaid) {
  const auto zero = node(0, "exec sleep 300", {"--rdzv-id", "a"});
  ASSERT_TRUE(tests::eventually([&] { return tests::processes_with(zero->mark()).size() > 3; }));
  const auto again = node(0, "true", {"--rdzv-id", "b"});
  EXPECT_EQ(again->wait(), 1);
  EXPECT_THAT(again->err(),
              HasSubstr("dlrun: --rdzv-endpoint 10.0.0.1:29400: port 29400 is taken"));
}

TEST_F(Nodes, NoOtherNodeInTimeIs124) {
  // Time for a loaded machine to bring the node to the rendezvous, at which it waits for the other.
  const auto zero = node(0, "true", {"--join-timeout", "4"});
  EXPECT_EQ(zero->wait(), 124);
  EXPECT_THAT(zero->err(), HasSubstr("the other nodes did not join within 4 s"));
  EXPECT_THAT(tests::processes_with(zero->mark()), IsEmpty());
}

}  // namespace
}  // namespace dl
