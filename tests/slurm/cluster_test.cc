// The SLURM that the other tests of this folder run in.
#include <gmock/gmock.h>

#include "tests/slurm/cluster.h"

namespace dl {
namespace {

using testing::HasSubstr;

class ClusterOfOurOwn : public tests::SlurmTest {};

TEST_F(ClusterOfOurOwn, RunsAStepOnBothNodesUnderTheirOwnNames) {
  tests::Process step({"srun", "--nodes=2", "--gpus-per-node=2", "sh", "-c",
                       "echo $(hostname) $SLURM_NODEID $CUDA_VISIBLE_DEVICES"},
                      cluster().options());
  EXPECT_EQ(step.wait(), 0) << step.err();
  EXPECT_THAT(step.out(), HasSubstr("n1 0 0,1\n"));
  EXPECT_THAT(step.out(), HasSubstr("n2 1 0,1\n"));
}

TEST_F(ClusterOfOurOwn, RunsABatchScriptAndTellsItsEnd) {
  const std::string job = cluster().submit("#!/bin/sh\nsrun hostname\nexit 3\n", {"--nodes=2"});
  EXPECT_EQ(cluster().wait(job), "3:0");
  EXPECT_THAT(cluster().output_of(job), HasSubstr("n2\n"));
  EXPECT_TRUE(cluster().is_swept());
}

// The namespace goes with its first process, and so does a job in it.
TEST_F(ClusterOfOurOwn, EndsWithTheTest) {
  std::string marker = "SLURM_CONF=";
  {
    const tests::SlurmCluster other;
    marker += other.folder() + "/slurm.conf";
    const std::string job = other.submit("#!/bin/sh\nsetsid sleep 300\n");
    EXPECT_TRUE(tests::eventually([&] { return other.state(job) == "RUNNING"; }));
  }
  EXPECT_TRUE(tests::eventually([&] { return tests::processes_with(marker).empty(); }));
}

}  // namespace
}  // namespace dl
