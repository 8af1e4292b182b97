// Programs of Open MPI on several nodes: two dlruns of this host, which are two nodes to the ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/dist/mpi_programs.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Line = std::vector<std::string>;

class PmixNodes : public testing::Test {
 protected:
  void SetUp() override {
    DL_NEED_PROGRAM(probe_, "Open MPI (libopenmpi-dev)");
    DL_NEED_PROGRAM(program("dlrun-pmix"), "PMIx (libpmix-dev)");
  }

  // Two ranks on node 0, one on node 1, unless the options give the ranks.
  void start(const Line& options, const Line& what) {
    const bool are_given = std::ranges::find(options, "-n") != options.end();
    const std::string place = "127.0.0.1:" + std::to_string(free_port());
    for (const int node : {0, 1}) {
      Line line = {program("dlrun"),     "--mpi",           "pmix", "--nnodes", "2", "--node-rank",
                   std::to_string(node), "--rdzv-endpoint", place};
      if (!are_given) line.insert(line.end(), {"--nproc-per-node", node == 0 ? "2" : "1"});
      line.insert(line.end(), options.begin(), options.end());
      line.insert(line.end(), what.begin(), what.end());
      nodes_[node] = std::make_unique<Process>(
          line, Process::Options{.environment = {"TMPDIR=" + temp_.path()}});
    }
  }
  void start_probe(const Line& options, const Line& steps) {
    Line line = {"sh", "-c", "echo folder $PMIX_SERVER_TMPDIR; exec \"$@\"", "sh", probe_};
    line.insert(line.end(), steps.begin(), steps.end());
    start(options, line);
  }
  // Both end with this code, and leave nothing.
  void expect_end(int code) {
    for (const auto& node : nodes_) EXPECT_EQ(node->wait(), code) << node->err();
    for (const auto& node : nodes_) {
      std::vector<std::string> folders;
      const std::string out = node->out();
      const std::string word = "folder ";
      for (std::size_t at = out.find(word); at != std::string::npos; at = out.find(word, at + 1)) {
        const std::size_t begin = at + word.size();
        folders.push_back(out.substr(begin, out.find('\n', begin) - begin));
      }
      EXPECT_TRUE(eventually([&] {
        return processes_with(node->mark()).empty() &&
               std::ranges::none_of(folders, [](const std::string& folder) {
                 return std::filesystem::exists(folder);
               });
      }));
    }
  }

  const std::string probe_ = mpi_program("mpi_probe", "openmpi");
  TempDir temp_;
  std::unique_ptr<Process> nodes_[2];
};

TEST_F(PmixNodes, AreOneMpiJob) {
  for (const char* rank_by : {"slot", "node"}) {
    start({"--rank-by", rank_by}, {mpi_program("mpi_sum", "openmpi")});
    expect_end(0);
    for (int rank = 0; rank < 3; ++rank) {
      const bool is_on_node_1 = rank == (rank_by == std::string("slot") ? 2 : 1);
      const std::string number = std::to_string(rank);
      EXPECT_THAT(nodes_[is_on_node_1]->out(),
                  HasSubstr("[rank " + number + "] rank " + number + " of 3: sum 6\n"));
    }
    for (const auto& node : nodes_) EXPECT_EQ(node->err(), "");
  }
}

TEST_F(PmixNodes, SeveralProgramsAreOneMpiJob) {
  // Ranks 0 and 1 are on node 0.
  const Line steps = {"init", "app", "barrier", "finalize"};
  Line all = {probe_};
  all.insert(all.end(), steps.begin(), steps.end());
  all.insert(all.end(), {":", "-n", "3", probe_});
  all.insert(all.end(), steps.begin(), steps.end());
  start({"-n", "1"}, all);
  expect_end(0);
  EXPECT_THAT(nodes_[0]->out(),
              AllOf(HasSubstr("[rank 0] program 0\n"), HasSubstr("[rank 1] program 1\n")));
  EXPECT_THAT(nodes_[1]->out(),
              AllOf(HasSubstr("[rank 2] program 1\n"), HasSubstr("[rank 3] program 1\n")));
}

TEST_F(PmixNodes, WhatOneProgramNeedsCountsForAllNodes) {
  // Node 1 sees only a program of no MPI, which is a wrapper.
  const std::string place = "127.0.0.1:" + std::to_string(free_port());
  for (const int node : {0, 1}) {
    const std::string number = std::to_string(node);
    Line line = {program("dlrun"),
                 "--nnodes",
                 "2",
                 "--node-rank",
                 number,
                 "--rdzv-endpoint",
                 place,
                 "-n",
                 "1"};
    const Line steps = {probe_, "init", "app", "barrier", "finalize"};
    line.insert(line.end(), steps.begin(), steps.end());
    line.insert(line.end(), {":", "-n", "1", "sh", "-c", "exec \"$0\" \"$@\""});
    line.insert(line.end(), steps.begin(), steps.end());
    nodes_[node] = std::make_unique<Process>(line);
  }
  expect_end(0);
  EXPECT_THAT(nodes_[0]->out(), HasSubstr("[rank 0] program 0\n"));
  EXPECT_THAT(nodes_[1]->out(), HasSubstr("[rank 1] program 1\n"));
}

TEST_F(PmixNodes, ANameIsKnownOnAllNodes) {
  start_probe({}, {"init", "names", "finalize"});
  expect_end(0);
  EXPECT_THAT(nodes_[1]->out(), AllOf(HasSubstr("[rank 2] lookup succeeded: a port of rank 0\n"),
                                      HasSubstr("[rank 2] lookup again failed\n")));
}

TEST_F(PmixNodes, AGroupHasOneNumberOnAllNodes) {
  start({}, {program("../tests/pmix_client")});
  expect_end(0);
  for (const auto& node : nodes_) {
    EXPECT_THAT(node->out(),
                AllOf(HasSubstr("group a has number 1\n"), HasSubstr("group b has number 2\n")));
  }
}

TEST_F(PmixNodes, ARankAsksTheNodeOfAnother) {
  start({}, {program("../tests/pmix_client"), "ask"});
  expect_end(0);
  EXPECT_THAT(nodes_[0]->out(), AllOf(HasSubstr("[rank 0] rank 2 has value of 2\n"),
                                      HasSubstr("[rank 1] rank 2 has value of 2\n")));
  EXPECT_THAT(nodes_[1]->out(), AllOf(HasSubstr("[rank 2] rank 0 has value of 0\n"),
                                      HasSubstr("[rank 2] rank 1 has value of 1\n")));
}

TEST_F(PmixNodes, TheCodeOfMpiAbortIsTheJobs) {
  start_probe({}, {"init", "2:abort", "barrier", "finalize"});
  expect_end(3);
  EXPECT_THAT(nodes_[0]->err(),
              ::testing::ContainsRegex("rank 2 .node 1, [^\n]*. called MPI_Abort with 3 after "));
  EXPECT_THAT(nodes_[1]->err(),
              ::testing::ContainsRegex("rank 2 .node 1, [^\n]*. called MPI_Abort with 3 after "));
}

TEST_F(PmixNodes, ARankOfAnotherNodeIsNamed) {
  struct Case {
    Line steps;
    int code;
    const char* text;
  };
  for (const Case& one : {Case{{"init", "barrier", "2:kill", "barrier", "finalize"},
                               128 + SIGKILL,
                               " was killed by signal 9 (SIGKILL) after "},
                          Case{{"2:exit", "init", "finalize"},
                               1,
                               " while ranks 0-1 were waiting for it in MPI_Init\n"},
                          Case{{"init", "barrier", "2:exit", "barrier", "finalize"},
                               1,
                               " ended with exit code 0 without MPI_Finalize after "}}) {
    start_probe({}, one.steps);
    expect_end(one.code);
    for (const auto& node : nodes_) {
      EXPECT_THAT(node->err(), AllOf(HasSubstr("dlrun: rank 2 (node 1, "), HasSubstr(one.text)));
    }
  }
}

TEST_F(PmixNodes, RanksThatLiveOnDoNotWaitForADeadOne) {
  // Rank 2 is all that node 1 has, and rank 1 a part of node 0.
  for (const char* kill : {"1:kill", "2:kill"}) {
    start_probe({"--on-failure", "keep"}, {"init", "barrier", kill, "finalize", "done"});
    expect_end(0);
    EXPECT_THAT(nodes_[0]->out(), HasSubstr("[rank 0] done\n"));
  }
  start_probe({"--on-failure", "keep"}, {"2:kill", "init", "finalize"});
  expect_end(1);
  EXPECT_THAT(nodes_[0]->err(), HasSubstr("dlrun: rank 2 has ended before MPI_Init, and Open MPI "
                                          "does not begin without it\n"));
}

TEST_F(PmixNodes, ANewGenerationIsANewMpiJob) {
  start_probe({"--max-restarts", "1"}, {"init", "barrier", "first:2:kill", "finalize", "done"});
  expect_end(0);
  EXPECT_THAT(nodes_[0]->out(), AllOf(HasSubstr("[rank 0] done\n"), HasSubstr("[rank 1] done\n")));
  EXPECT_THAT(nodes_[1]->out(), HasSubstr("[rank 2] done\n"));
}

TEST_F(PmixNodes, ALostHelperEndsTheJobOnAllNodes) {
  start_probe({}, {"init", "ready", "pause"});
  ASSERT_TRUE(nodes_[0]->wait_for_out("[rank 0] ready\n") &&
              nodes_[0]->wait_for_out("[rank 1] ready\n") &&
              nodes_[1]->wait_for_out("[rank 2] ready\n"));
  for (const pid_t pid : processes_with(nodes_[1]->mark())) {
    if (name_of(pid) == "dlrun-pmix") ::kill(pid, SIGKILL);
  }
  expect_end(1);
  EXPECT_THAT(nodes_[0]->err(), HasSubstr("dlrun-pmix, which serves the ranks as processes of"));
}

}  // namespace
}  // namespace dl::tests
