// The line that an agent on another host gets, and what it means there.
#include "launcher/remote/node_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "launcher/cli/table/option_table.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;

Options parsed(std::vector<std::string> words) {
  return std::get<Options>(parse_options(words));
}

// The options of the agent of node 1, which knows the rendezvous endpoint.
Options of_node_1(const Options& frontend) {
  const JobPlan plan = make_job_plan(frontend, HostList(frontend));
  std::vector<std::string> line = remote::node_line(frontend, plan, 1);
  line.insert(line.begin(), "--rdzv-endpoint=a:1");
  return parse_agent_options(line, remote::program_lines(plan.started.apps));
}

TEST(NodeLine, EachPassedOptionMeansTheSameOnTheOtherHost) {
  const Options frontend = parsed({"--hosts=a:2,b:3",
                                   "--mpi=none",
                                   "--torch-backend=dlrun",
                                   "--rank-by=node",
                                   "--role=trainer",
                                   "--bind=core",
                                   "--map-by=socket",
                                   "--report-bindings",
                                   "--gpus-per-rank=2",
                                   "--virtual-local-rank",
                                   "--join-timeout=7",
                                   "--iface=lo",
                                   "--master-addr=h",
                                   "--master-port=5",
                                   "--grace=1.5",
                                   "--linger=0",
                                   "--preempt",
                                   "--preempt-usr2",
                                   "--max-restarts=3",
                                   "--on-failure=keep",
                                   "--forward-signals=USR1,34",
                                   "x",
                                   "--role"});
  const Options node = of_node_1(frontend);
  const Options none = parsed({"x"});
  for (const OptionRow& row : option_table()) {
    if (row.pass == nullptr) continue;
    EXPECT_EQ(row.pass(node), row.pass(frontend)) << row.name;
    EXPECT_NE(row.pass(frontend), row.pass(none)) << row.name << " has to stand in the line above";
  }
  EXPECT_EQ(node.where.nnodes, 2);
  EXPECT_EQ(node.where.node_rank, 1);
  EXPECT_EQ(node.job.nproc_per_node, "3");
  EXPECT_THAT(node.job.apps.front().program, ElementsAre("x", "--role"));
}

TEST(NodeLine, EachProgramMeansTheSameOnTheOtherHost) {
  const Options frontend = parsed({"--hosts=a:1,b:3",
                                   "-x",
                                   "ALL=1",
                                   "-x",
                                   "A=:",
                                   "-n",
                                   "1",
                                   "./a",
                                   ":",
                                   "-n",
                                   "2",
                                   "-x",
                                   "ALL=1",
                                   "--wdir=/tmp",
                                   "-m",
                                   "b",
                                   "--",
                                   "-n",
                                   "7",
                                   ":",
                                   "-n1",
                                   "-x",
                                   "ALL=1",
                                   "--",
                                   "c",
                                   ":",
                                   ""});
  const Options node = of_node_1(frontend);
  EXPECT_FALSE(node.job.np);
  EXPECT_EQ(node.job.nproc_per_node, "3");
  ASSERT_EQ(node.job.apps.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(node.job.apps[i].program, frontend.job.apps[i].program);
    EXPECT_EQ(node.job.apps[i].np, frontend.job.apps[i].np);
  }
  // What all have goes by the environment.
  EXPECT_THAT(node.job.apps[0].exports, ElementsAre(Exported{"A", ":"}));
  EXPECT_THAT(node.job.apps[1].exports, ElementsAre());
  EXPECT_EQ(node.job.apps[0].wdir, std::filesystem::current_path());
  EXPECT_EQ(node.job.apps[1].wdir, "/tmp");
}

TEST(NodeLine, OnlyAProgramsOwnNodesLookForIt) {
  const Options frontend = parsed({"--hosts=a:2,b:2", "-n1", "a", ":", "-n3", "b"});
  const JobPlan plan = make_job_plan(frontend, HostList(frontend));
  EXPECT_THAT(remote::programs_on(plan, 0), ElementsAre(0, 1));
  EXPECT_THAT(remote::programs_on(plan, 1), ElementsAre(1));
  const Options round = parsed({"--hosts=a:2,b:2", "--rank-by=node", "-n3", "a", ":", "-n1", "b"});
  EXPECT_THAT(remote::programs_on(make_job_plan(round, HostList(round)), 0), ElementsAre(0));
  EXPECT_THAT(remote::programs_on(make_job_plan(round, HostList(round)), 1), ElementsAre(0, 1));
}

TEST(NodeLine, AValueMayLookLikeAnOption) {
  EXPECT_EQ(of_node_1(parsed({"--hosts=a,b", "--role=--bind", "x"})).job.role, "--bind");
}

TEST(NodeLine, WhatConcernsOnlyTheFrontIsNotPassedOn) {
  const Options frontend = parsed({"--hosts=a,b", "--log-dir=logs", "--timestamp-output",
                                   "--verbose", "--timeout=9", "--wdir=/", "x"});
  for (const std::string& word :
       remote::node_line(frontend, make_job_plan(frontend, HostList(frontend)), 0)) {
    for (const char* own :
         {"--hosts", "--log-dir", "--timestamp", "--verbose", "--timeout", "--wdir"}) {
      EXPECT_FALSE(word.starts_with(own)) << word;
    }
  }
}

}  // namespace
}  // namespace dl::launcher
