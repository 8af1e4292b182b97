// The templates of deploy/slurm, as a user submits them.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/slurm/cluster.h"

namespace dl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Templates : public tests::SlurmTest {
 protected:
  // A folder with a program ./train, and dlrun in PATH.
  std::string submit(const std::string& name, const std::string& train) {
    const std::string program = work_.path() + "/train";
    std::ofstream(program) << "#!/bin/sh\n" << train;
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const std::string bin = tests::program("");
    const std::string number =
        cluster().ask({"sbatch", "--parsable", "--chdir=" + work_.path(),
                       std::string(DLRUN_TEST_SOURCE) + "/deploy/slurm/" + name},
                      {"PATH=" + bin + ":" + std::getenv("PATH")});
    return number.substr(0, number.find('\n'));
  }
  std::string output_of(const std::string& job) const {
    std::ifstream file(work_.path() + "/train-" + job + ".out");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  tests::TempDir work_;
};

TEST_F(Templates, OneNode) {
  const std::string job = submit("one_node.sbatch", "echo of $WORLD_SIZE");
  EXPECT_EQ(cluster().wait(job), "0:0") << output_of(job);
  EXPECT_THAT(output_of(job), AllOf(HasSubstr("[rank 0] of 2\n"), HasSubstr("[rank 1] of 2\n")));
}

TEST_F(Templates, SeveralNodes) {
  const std::string job = submit("several_nodes.sbatch", "echo of $WORLD_SIZE on $(hostname)");
  EXPECT_EQ(cluster().wait(job), "0:0") << output_of(job);
  EXPECT_THAT(output_of(job),
              AllOf(HasSubstr("[rank 0] of 4 on n1\n"), HasSubstr("[rank 3] of 4 on n2\n")));
}

TEST_F(Templates, SixteenRanksOnTwoNodesWithEightGpus) {
  const std::string job = submit(
      "gpus.sbatch", "echo $LOCAL_RANK of $WORLD_SIZE on $(hostname): $CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(cluster().wait(job), "0:0") << output_of(job);
  EXPECT_THAT(output_of(job), AllOf(HasSubstr("[rank 0] 0 of 16 on n1: 0,1,2,3,4,5,6,7\n"),
                                    HasSubstr("[rank 15] 7 of 16 on n2: 0,1,2,3,4,5,6,7\n")));
}

// 10 by hand: DLRUN_TEST_REQUEUES=10.
int requeues() {
  const char* const wanted = std::getenv("DLRUN_TEST_REQUEUES");
  return wanted == nullptr ? 2 : std::atoi(wanted);
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST_F(Templates, AJobThatSlurmPreemptsSavesIsRequeuedAndGoesOn) {
  const std::string rank = tests::program("../tests/checkpoint_rank");
  const int times = requeues();
  // The last run has one step more than the one before it has saved.
  const std::string job = submit(
      "requeue.sbatch", "file=" + work_.path() + "/step\nsteps=100000000\n" +
                            "[ \"${SLURM_RESTART_COUNT:-0}\" != " + std::to_string(times) +
                            " ] || steps=$(($(cat $file) + 1))\nexec " + rank + " $steps $file\n");
  for (int run = 1; run <= times; ++run) {
    ASSERT_TRUE(tests::eventually(std::chrono::seconds(120), [&] {
      const std::string out = output_of(job);
      return count(out, "[rank 0] up") == run && count(out, "[rank 3] up") == run;
    })) << output_of(job);
    const std::string urgent =
        cluster().submit("#!/bin/sh\n", {"--partition=urgent", "--nodes=2", "--exclusive"});
    EXPECT_EQ(cluster().wait(urgent), "0:0");
  }
  EXPECT_EQ(cluster().wait(job), "0:0") << output_of(job);
  EXPECT_EQ(cluster().field(job, "Restarts"), std::to_string(times));
  std::string out = output_of(job);
  int saved = 0;
  for (int run = 1; run <= times; ++run) {
    const int now = tests::number_after("[rank 0] saved at ", out);
    EXPECT_GT(now, saved) << output_of(job);
    saved = now;
    const std::string at = " saved at " + std::to_string(saved) + "\n";
    EXPECT_EQ(count(output_of(job), at), 4) << output_of(job);
    out.erase(0, out.find(at) + at.size());
    if (const std::size_t others = out.rfind(at); others != std::string::npos) {
      out.erase(0, others + at.size());
    }
  }
  EXPECT_EQ(count(output_of(job), " done at " + std::to_string(saved + 1) + "\n"), 4)
      << output_of(job);
  EXPECT_TRUE(cluster().is_swept());
}

TEST_F(Templates, AProgramThatExitsWith75IsNotRequeued) {
  const std::string job = submit("requeue.sbatch", "exit 75");
  EXPECT_EQ(cluster().wait(job), "1:0") << output_of(job);
  EXPECT_EQ(cluster().field(job, "Restarts"), "0");
}

// The script alone, with programs in place of dlrun and scontrol.
TEST(RequeueScript, StopsAfterSoManyRequeues) {
  const tests::TempDir bin;
  std::ofstream(bin.path() + "/dlrun") << "#!/bin/sh\nexit 75\n";
  std::ofstream(bin.path() + "/scontrol") << "#!/bin/sh\necho scontrol $*\n";
  for (const char* program : {"/dlrun", "/scontrol"}) {
    std::filesystem::permissions(bin.path() + program, std::filesystem::perms::owner_all);
  }
  for (const std::string before : {"", "99", "100", "101"}) {
    tests::Process script({"bash", std::string(DLRUN_TEST_SOURCE) + "/deploy/slurm/requeue.sbatch"},
                          {.environment = {"PATH=" + bin.path() + ":" + std::getenv("PATH"),
                                           "SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=" + before}});
    EXPECT_EQ(script.wait(), 75);
    const bool goes_on = before.size() < 3;
    EXPECT_EQ(script.out(), goes_on ? "scontrol requeue 7\n" : "");
    EXPECT_EQ(script.err().empty(), goes_on) << script.err();
  }
}

}  // namespace
}  // namespace dl
