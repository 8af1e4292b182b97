// The first cause is named first, however the deaths that follow from it race with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace dl {
namespace {

using testing::HasSubstr;

TEST(FirstCause, IsTheRankThatThrewInEveryOf200Runs) {
  for (int run = 0; run < 200; ++run) {
    tests::Process job(
        {tests::program("dlrun"), "--nproc-per-node", "2", tests::program("../tests/group_probe")});
    ASSERT_EQ(job.wait(), 1) << job.err();
    const std::string err = job.err();
    const std::string first = err.substr(err.find("dlrun: "), 20);
    ASSERT_THAT(first, HasSubstr("dlrun: rank 1 (node ")) << "run " << run << ":\n" << err;
    ASSERT_THAT(err, HasSubstr("| error: train.bin: a broken record"));
  }
}

}  // namespace
}  // namespace dl
