#include "examples/train_image/choices/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace dl::examples {
namespace {

TEST(Task, FindsTheShippedDigitsFromTheProgramsPlace) {
  const Task task = load_task("digits", "");
  EXPECT_EQ(task.train.size(), 1433);
  EXPECT_EQ(task.test.size(), 364);
  EXPECT_THAT(task.train.fields()[0].shape, testing::ElementsAre(1, 28, 28));
  EXPECT_EQ(task.model.channels, 1);
  EXPECT_EQ(task.model.size, 28);
}

TEST(Task, OtherSetsNeedAFolder) {
  EXPECT_THAT(
      [] { load_task("cifar10", ""); },
      testing::ThrowsMessage<Error>("--dataset cifar10 needs --data-dir, the folder with its "
                                    "files; only the digits come with dlrun"));
}

}  // namespace
}  // namespace dl::examples
