#include "examples/support/training/checks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/collectives/ranks.h"
#include "tests/support/temp_dir.h"

namespace dl::examples {
namespace {

using collectives::ProcessGroup;
using collectives::testing::run_ranks;
using collectives::testing::thrown_by;

TEST(Settings, ThatAreEqualPass) {
  run_ranks(2, [](ProcessGroup& group) {
    EXPECT_NO_THROW(require_equal_settings("--seed 42", {}, group));
    EXPECT_EQ(group.error(), nullptr);
  });
}

TEST(Settings, OfARankThatDifferAreAnErrorOnAllRanks) {
  run_ranks(2, [](ProcessGroup& group) {
    const auto thrown = thrown_by(
        [&] { require_equal_settings(group.rank() == 1 ? "--seed 7" : "--seed 42", {}, group); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_EQ(thrown.text,
              "rank 1 was started with --seed 7, rank 0 with --seed 42; give all ranks the same");
  });
  run_ranks(2, [](ProcessGroup& group) {
    const RunOptions run{.checkpoint_dir = "c", .resume = group.rank() == 1};
    EXPECT_NE(thrown_by([&] { require_equal_settings("", run, group); })
                  .text.find("rank 1 was started with  --checkpoint-dir c --checkpoint-every 100 "
                             "--resume, rank 0 with"),
              std::string::npos);
  });
}

TEST(Writable, IsWhatAFileCanBeMadeIn) {
  const tests::TempDir folder;
  require_writable(folder.path() + "/new.safetensors");
  require_writable("here.safetensors");
  EXPECT_NE(thrown_by([&] { require_writable(folder.path()); }).text.find("is a folder"),
            std::string::npos);
  EXPECT_NE(thrown_by([&] {
              require_writable(folder.path() + "/none/x");
            }).text.find("cannot write to its folder: No such file or directory"),
            std::string::npos);
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(thrown_by([&] { require_writable(pipe); }).text.find("is a device or a pipe"),
            std::string::npos);
}

}  // namespace
}  // namespace dl::examples
