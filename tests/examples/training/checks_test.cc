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
    EXPECT_NO_THROW(require_equal_settings({}, group));
    EXPECT_EQ(group.error(), nullptr);
  });
}

TEST(Settings, OfARankThatDifferAreAnErrorOnAllRanks) {
  run_ranks(2, [](ProcessGroup& group) {
    Options options;
    if (group.rank() == 1) options.seed = 7;
    const auto thrown = thrown_by([&] { require_equal_settings(options, group); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch);
    EXPECT_NE(thrown.text.find("rank 1 was started with --dataset digits"), std::string::npos)
        << thrown.text;
    EXPECT_NE(thrown.text.find("--seed 7 --amp off --epochs 15, rank 0 with"), std::string::npos)
        << thrown.text;
  });
}

// Checkpoints of earlier versions hold this text.
TEST(Settings, NameALaterOptionOnlyIfItIsUsed) {
  EXPECT_EQ(settings_of_steps({}),
            "--dataset digits --batch-size 32 --lr 0.05 --momentum 0.9 --seed 42 --amp off");
  const std::string all = settings_of_steps({.model = "resnet18",
                                             .image_size = 8,
                                             .augment = "shift",
                                             .optimizer = "adamw",
                                             .weight_decay = 0.5,
                                             .schedule = "step",
                                             .label_smoothing = 0.1,
                                             .clip_norm = 1,
                                             .ema = 0.9});
  EXPECT_TRUE(all.ends_with(
      " --amp off --model resnet18 --image-size 8 --augment shift --optimizer adamw "
      "--weight-decay 0.5 --schedule step --epochs 15 --warmup-epochs 0 --step-epochs 0 --gamma "
      "0.1 --label-smoothing 0.1 --clip-norm 1 --ema 0.9"))
      << all;
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
