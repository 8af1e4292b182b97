// Subcommands on the nodes of an allocation, as docs/guides/slurm.md shows them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/slurm/cluster.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AllocatedNodes : public tests::SlurmTest {
 protected:
  static std::vector<std::string> salloc(const std::string& script) {
    return {"salloc", "--quiet", "--nodes=2", "sh", "-c", script};
  }
};

TEST_F(AllocatedNodes, AreAllShownByTopo) {
  tests::Process topo(salloc(tests::program("dlrun") + " topo"), cluster().options());
  EXPECT_EQ(topo.wait(), 0) << topo.err();
  EXPECT_THAT(topo.out(), HasSubstr("2 hosts (n1-n2): "));
  EXPECT_EQ(topo.err(), "");
  tests::Process all(salloc(tests::program("dlrun") + " topo --json"), cluster().options());
  EXPECT_EQ(all.wait(), 0) << all.err();
  const auto hosts = nlohmann::json::parse(all.out()).at("hosts");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts.at(0).at("host"), "n1");
  EXPECT_EQ(hosts.at(1).at("host"), "n2");
  EXPECT_FALSE(hosts.at(1).at("cores").empty());
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(AllocatedNodes, AreAskedBesideAStepThatRuns) {
  const std::string job = cluster().submit("#!/bin/sh\n" + tests::program("dlrun") +
                                               " --nproc-per-node 1 --rdzv-id beside sleep 300 &\n"
                                               "until " +
                                               tests::program("dlrun") +
                                               " ps --json | grep -q '\"is_agent\": true'; do :; "
                                               "done\n" +
                                               tests::program("dlrun") + " ps\n" +
                                               tests::program("dlrun") + " kill --all beside\n",
                                           {"--nodes=2", "--exclusive"});
  EXPECT_EQ(cluster().wait(job), "0:0") << cluster().output_of(job);
  // The nodes share this machine's processes, so each shows the dlruns of both.
  EXPECT_THAT(cluster().output_of(job),
              AllOf(HasSubstr("n1: 3 jobs"), HasSubstr("n2: 3 jobs"), HasSubstr("beside (dlrun "),
                    HasSubstr("after SIGTERM")));
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(AllocatedNodes, AreCheckedByDoctor) {
  tests::Process doctor(salloc(tests::program("dlrun") + " doctor --json --ranks 1 --measure"),
                        cluster().options());
  doctor.wait();
  const auto all = nlohmann::json::parse(doctor.out());
  EXPECT_EQ(all.at("hosts").size(), 2U);
  std::vector<std::string> well;
  for (const auto& check : all.at("between")) {
    if (check.at("verdict") == "ok") well.push_back(check.at("name"));
  }
  EXPECT_THAT(well, testing::IsSupersetOf({"srun to n1", "srun to n2", "dlrun's version on n1",
                                           "clock of n2", "addresses of n2"}));
  // Each node alone, and both together. How fast that is depends on the machine.
  std::vector<std::string> measured;
  const auto add = [&](const nlohmann::json& checks) {
    for (const auto& check : checks) {
      const std::string name = check.at("name");
      if (!name.starts_with("two ranks") && !name.starts_with("ranks on")) continue;
      measured.push_back(name);
      EXPECT_NE(check.at("verdict"), "wrong") << check;
    }
  };
  for (const auto& host : all.at("hosts")) add(host.at("checks"));
  add(all.at("between"));
  EXPECT_THAT(measured, testing::ElementsAre("two ranks of this host", "two ranks of this host",
                                             "ranks on n1 and n2"));
}

// The test has a cluster of its own, as it loses a slurmd.
TEST_F(AllocatedNodes, OfWhichOneIsLostAreNamed) {
  const tests::SlurmCluster own;
  ASSERT_TRUE(own.kill_slurmd("n2"));
  tests::Process topo(salloc(tests::program("dlrun") + " topo"), own.options());
  EXPECT_EQ(topo.wait(), 1);
  EXPECT_THAT(topo.out(), HasSubstr("n1: "));
  EXPECT_THAT(topo.err(), HasSubstr("dlrun: host n2"));
}

TEST_F(AllocatedNodes, ATaskOfSrunShowsItself) {
  tests::Process topo({"srun", "--nodes=2", tests::program("dlrun"), "topo", "--json"},
                      cluster().options());
  EXPECT_EQ(topo.wait(), 0) << topo.err();
  EXPECT_THAT(topo.out(), AllOf(HasSubstr("\"host\": \"n1\""), HasSubstr("\"host\": \"n2\""),
                                Not(HasSubstr("\"hosts\""))));
}

// As salloc starts a shell with LaunchParameters=use_interactive_step.
TEST_F(AllocatedNodes, AreUsedFromTheShellOnOneOfThem) {
  const std::string dlrun = tests::program("dlrun");
  tests::Process shell(
      {"salloc", "--quiet", "--nodes=2", "srun", "--interactive", "--preserve-env", "--nodes=1",
       "--ntasks=1", "sh", "-c", dlrun + " topo; " + dlrun + " --nproc-per-node 1 hostname"},
      cluster().options());
  EXPECT_EQ(shell.wait(), 0) << shell.err();
  EXPECT_THAT(shell.out(), AllOf(HasSubstr("2 hosts (n1-n2): "), HasSubstr("[rank 0] n1\n"),
                                 HasSubstr("[rank 1] n2\n")));
}

TEST_F(AllocatedNodes, AreAskedByTheNamesThatScontrolShows) {
  // No sshd runs on these nodes: each is named as one that does not answer.
  tests::Process topo(
      salloc(tests::program("dlrun") + " topo --ssh false --hosts "
                                       "\"$(scontrol show hostnames | paste -sd,)\""),
      cluster().options());
  EXPECT_EQ(topo.wait(), 1);
  EXPECT_THAT(topo.err(), AllOf(HasSubstr("dlrun: host n1: "), HasSubstr("dlrun: host n2: ")));
}

}  // namespace
}  // namespace dl
