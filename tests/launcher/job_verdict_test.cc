// JobVerdict: what the nodes of a job report, as one verdict.
#include "launcher/remote/nodes/job_verdict.h"

#include <gmock/gmock.h>

namespace dl::launcher::remote {
namespace {

using testing::ElementsAre;

Verdict failed(int exit_code, std::vector<std::string> page) {
  return {.exit_code = exit_code, .page = std::move(page)};
}
BeginsAgain restart(int number, std::vector<std::string> page) {
  return {.verdict = failed(1, std::move(page)), .number = number, .most = 3};
}

TEST(JobVerdict, IsThatOfTheFirstNodeThatFails) {
  JobVerdict job(2);
  EXPECT_FALSE(job.get());
  job.decided(failed(0, {}));
  EXPECT_FALSE(job.get());
  job.decided(failed(7, {"rank 0 exited with 7"}));
  job.decided(failed(9, {"rank 3 exited with 9"}));
  job.fail(failed(1, {"host b was lost"}));
  EXPECT_EQ(job.get()->exit_code, 7);
  EXPECT_THAT(job.get()->page, ElementsAre("rank 0 exited with 7"));
}

TEST(JobVerdict, TakesTheLongerReportOfTheSameEnd) {
  JobVerdict job(2);
  job.decided(failed(7, {}));
  job.decided(failed(9, {"another end"}));
  EXPECT_EQ(job.get()->exit_code, 7);
  job.decided(failed(7, {"rank 0 exited with 7"}));
  EXPECT_THAT(job.get()->page, ElementsAre("rank 0 exited with 7"));
}

TEST(JobVerdict, BeginsAgainOnceEveryNodeDoes) {
  JobVerdict job(3);
  EXPECT_FALSE(job.begins_again(2, restart(1, {})));
  EXPECT_FALSE(job.begins_again(0, restart(1, {"rank 0 exited with 7"})));
  EXPECT_TRUE(job.begins_again(1, restart(1, {})));
  EXPECT_THAT(job.take_restart()->verdict.page, ElementsAre("rank 0 exited with 7"));
  EXPECT_FALSE(job.take_restart());
  // The nodes that began the first restart have not begun the second one.
  EXPECT_FALSE(job.begins_again(0, restart(2, {})));
}

TEST(JobVerdict, ShowsTheFailureBeforeARestartThatDidNotHappen) {
  JobVerdict job(2);
  job.begins_again(0, restart(1, {"rank 0 exited with 7"}));
  job.fail(failed(1, {"host b was lost"}));
  EXPECT_THAT(job.get()->page, ElementsAre("rank 0 exited with 7", "host b was lost"));
  EXPECT_FALSE(job.take_restart());
}

}  // namespace
}  // namespace dl::launcher::remote
