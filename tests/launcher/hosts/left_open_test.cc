// An ssh that leaves a process behind, which holds its streams open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::dlrun;
using tests::Process;

class StreamsLeftOpen : public testing::Test {
 protected:
  StreamsLeftOpen() {
    std::ofstream(ssh_) << "#!/bin/sh\n(while test -e " << ssh_ << "; do sleep 0.01; done) &\n"
                        << "for line; do :; done\nexec sh -c \"$line\"\n";
    std::filesystem::permissions(ssh_, std::filesystem::perms::owner_all);
  }

  tests::TempDir folder_;
  std::string ssh_ = folder_.path() + "/ssh";
};

TEST_F(StreamsLeftOpen, DoNotDelayTheEndOfAJob) {
  Process job(dlrun({"--ssh", ssh_, "--hosts", "a:2", "sh", "-c", "echo rank $RANK"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("[rank 1] rank 1\n"));
  Process bad(dlrun({"--ssh", ssh_, "--hosts", "a:2", "sh", "-c", "exit 7"}));
  EXPECT_EQ(bad.wait(), 7) << bad.err();
}

TEST_F(StreamsLeftOpen, DoNotDelayAnAnswer) {
  Process ps(dlrun({"ps", "--ssh", ssh_, "--hosts", "a"}));
  EXPECT_EQ(ps.wait(), 0) << ps.err();
  EXPECT_THAT(ps.err(), Not(HasSubstr("has not answered")));
}

}  // namespace
}  // namespace dl::launcher
