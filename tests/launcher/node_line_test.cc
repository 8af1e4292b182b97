// The line that an agent on another host gets, and what it means there.
#include "launcher/remote/node_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/table/option_table.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;

Options parsed(std::vector<std::string> words) {
  return std::get<Options>(parse_options(words));
}

// The options of the agent of node 1, which knows the rendezvous endpoint.
Options of_node_1(const Options& frontend) {
  std::vector<std::string> line =
      remote::node_line(frontend, make_job_plan(frontend, HostList(frontend)), 1);
  line.insert(line.begin(), "--rdzv-endpoint=a:1");
  return parsed(std::move(line));
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
