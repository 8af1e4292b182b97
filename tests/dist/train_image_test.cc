// train_image, run as a user runs it: alone and on two ranks, stopped and resumed, and refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "nn/checkpoint/checkpoint.h"
#include "nn/serialize/safetensors.h"
#include "tests/dist/shell.h"
#include "tests/dist/train_report.h"
#include "tests/nn/data/bytes.h"

namespace dl::dist {
namespace {

using data::TemporaryDirectory;
using testing::HasSubstr;

// 96 training and 40 test images of 8 x 8 pixels, in two classes that differ.
std::string write_images(const TemporaryDirectory& dir) {
  std::uint32_t random = 1;
  const auto write = [&](const std::string& split, std::uint32_t count) {
    data::Bytes images = data::idx_header(8, {count, 8, 8});
    data::Bytes labels = data::idx_header(8, {count});
    for (std::uint32_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<std::byte>(i % 2));
      for (std::uint32_t pixel = 0; pixel < 64; ++pixel) {
        random = random * 1664525 + 1013904223;
        const bool bright = (pixel < 32) == (i % 2 == 0);
        images.push_back(static_cast<std::byte>((random >> 26) + (bright ? 128 : 0)));
      }
    }
    dir.write(split + "-images-idx3-ubyte", images);
    dir.write(split + "-labels-idx1-ubyte", labels);
  };
  write("train", 96);
  write("t10k", 40);
  return "--dataset mnist --data-dir " + dir.path();
}

std::string train_image(const std::string& flags) {
  return program("train_image") + " --threads 1 " + flags;
}

std::string on_two_ranks(const std::string& flags) {
  return program("dlrun") + " --nproc-per-node 2 " + train_image(flags);
}

Report run(const std::string& command) {
  const Ran ran = shell(command + " --json");
  EXPECT_EQ(ran.code, 0) << ran.text;
  return parse_report(ran.text);
}

// Removes all checkpoints but that of `step`, as if the run had been killed soon after it.
void go_back_to(const std::string& dir, std::int64_t step) {
  for (const std::int64_t other : nn::CheckpointDir(dir).steps()) {
    if (other == step) continue;
    std::filesystem::remove_all(dir + "/step-" +
                                std::string(12 - std::to_string(other).size(), '0') +
                                std::to_string(other));
  }
  ASSERT_EQ(nn::CheckpointDir(dir).steps(), std::vector{step});
}

// All state that there is: batch norm, augmentation, a schedule, an average and clipped gradients.
// An epoch is 6 steps, so that step 5 is inside of one.
TEST(TrainImage, GoesOnWithTheSameBitsInsideAnEpoch) {
  const TemporaryDirectory dir;
  const std::string checkpoints = dir.path() + "/c";
  const std::string flags =
      write_images(dir) +
      " --model efficientnet_b0 --batch-size 8 --epochs 2 --augment shift-flip --schedule cosine "
      "--warmup-epochs 1 --label-smoothing 0.1 --clip-norm 1 --ema 0.8 --eval-every 1 "
      "--checkpoint-every 5 --checkpoint-dir " +
      checkpoints;
  const Report whole = run(on_two_ranks(flags));
  ASSERT_EQ(whole.steps.size(), 12U);
  ASSERT_EQ(whole.evaluations.size(), 2U);
  EXPECT_EQ(whole.end["test_accuracy"], whole.evaluations[1]["test_accuracy"]);
  go_back_to(checkpoints, 5);
  const Report rest = run(on_two_ranks(flags + " --resume"));
  EXPECT_EQ(rest.steps, decltype(rest.steps)(whole.steps.begin() + 5, whole.steps.end()));
  EXPECT_EQ(rest.evaluations, whole.evaluations);
  EXPECT_EQ(rest.end["parameters_sha256"], whole.end["parameters_sha256"]);

  EXPECT_THAT(shell(train_image(flags + " --resume --momentum 0.5")).text,
              HasSubstr("--schedule cosine --epochs 2 --warmup-epochs 1 --label-smoothing 0.1 "
                        "--clip-norm 1 --ema 0.8 on 2 ranks, this one is started with"));
}

// The evaluation of a checkpoint's own epoch is not made again.
TEST(TrainImage, GoesOnWithTheSameBitsAtTheEndOfAnEpoch) {
  const TemporaryDirectory dir;
  const std::string checkpoints = dir.path() + "/c";
  const std::string flags =
      write_images(dir) +
      " --model book --batch-size 16 --epochs 2 --augment shift --optimizer adamw --amp f16 "
      "--eval-every 1 --checkpoint-every 6 --checkpoint-dir " +
      checkpoints;
  const Report whole = run(train_image(flags));
  go_back_to(checkpoints, 6);
  const Report rest = run(train_image(flags + " --resume"));
  EXPECT_EQ(rest.steps, decltype(rest.steps)(whole.steps.begin() + 6, whole.steps.end()));
  EXPECT_EQ(rest.evaluations, decltype(rest.evaluations)({whole.evaluations[1]}));
  EXPECT_EQ(rest.end["parameters_sha256"], whole.end["parameters_sha256"]);
}

TEST(TrainImage, KeepsTheBestModel) {
  const TemporaryDirectory dir;
  const std::string flags = write_images(dir) + " --model book --batch-size 16";
  const std::string checkpoints = dir.path() + "/c";
  const Report ran = run(
      train_image(flags + " --epochs 6 --lr 0.3 --eval-every 1 --checkpoint-dir " + checkpoints));
  const auto best = std::ranges::max_element(ran.evaluations, {}, [](const nlohmann::json& one) {
    return one["test_accuracy"].get<double>();
  });
  for (const nlohmann::json& one : ran.evaluations) {
    EXPECT_LE(one["best"].get<bool>(), one["epoch"] <= (*best)["epoch"]);
  }
  const std::string file = checkpoints + "/best.safetensors";
  EXPECT_EQ(nn::load_safetensors(file).metadata.at("epoch"),
            std::to_string((*best)["epoch"].get<int>()));
  EXPECT_EQ(run(train_image(flags + " --epochs 0 --load " + file)).end["test_accuracy"],
            (*best)["test_accuracy"]);
}

TEST(TrainImage, WithTheBooksModelHasTheBitsOfTrainCnn) {
  const TemporaryDirectory dir;
  const std::string flags = write_images(dir) + " --epochs 1 --batch-size 16 --json";
  const Report cnn = parse_report(shell(program("train_cnn") + " --threads 1 " + flags).text);
  EXPECT_EQ(run(train_image("--model book " + flags)).end["parameters_sha256"],
            cnn.end["parameters_sha256"]);
}

TEST(TrainImage, CompiledStepsHaveTheBitsOfTheOthers) {
  const TemporaryDirectory dir;
  const std::string flags = write_images(dir) +
                            " --model book --batch-size 8 --epochs 1 --optimizer adamw --schedule "
                            "one-cycle --ema 0.5 --clip-norm 0.1 --amp ";
  for (const char* amp : {"off", "f16"}) {
    const Report eager = run(train_image(flags + amp));
    const Report compiled = run(train_image(flags + amp + " --compile"));
    EXPECT_EQ(compiled.steps, eager.steps) << amp;
    EXPECT_EQ(compiled.end["parameters_sha256"], eager.end["parameters_sha256"]) << amp;
  }
}

// A sample is changed alike on whatever rank and by whatever thread it is read.
TEST(TrainImage, RanksAndWorkersDoNotChangeTheAugmentations) {
  const TemporaryDirectory dir;
  const std::string flags =
      write_images(dir) + " --model book --epochs 1 --lr 0.01 --augment crop-flip --batch-size ";
  const Report one = run(train_image(flags + "16 --workers 0"));
  const Report two = run(on_two_ranks(flags + "8 --workers 2"));
  expect_near_relative(two.losses(), one.losses(), 1e-5);
}

TEST(TrainImage, StopsAtALossThatIsNoNumberAndNamesTheModule) {
  const TemporaryDirectory dir;
  const std::string flags = write_images(dir) + " --model book --epochs 3 --lr 1e9";
  for (const char* compile : {"", " --compile"}) {
    const Ran ran = shell(train_image(flags + compile));
    EXPECT_EQ(ran.code, 1) << ran.text;
    EXPECT_THAT(ran.text, testing::ContainsRegex(
                              "\nerror: the loss of step [0-9]+ is -?(nan|inf): the output of "
                              "[0-9] \\([A-Za-z0-9]+\\) is not finite; try a smaller --lr, "
                              "--warmup-epochs or --clip-norm\n$"));
  }
}

TEST(TrainImage, AnswersBadInputWithOneSentence) {
  const auto refused = [](const std::string& flags, int code, const std::string& text) {
    const Ran ran = shell(train_image(flags));
    EXPECT_EQ(ran.code, code) << ran.text;
    EXPECT_THAT(ran.text, HasSubstr(text));
    EXPECT_LE(std::count(ran.text.begin(), ran.text.end(), '\n'), 2) << ran.text;
  };
  refused("--model resnet19", 2, "--model: resnet19 not in {book,resnet18,");
  refused("--schedule cosine --warmup-epochs 15", 2, "--warmup-epochs: leaves no epoch");
  refused("--dataset folder --data-dir /nowhere", 1, "error: ");
  refused("--dataset cifar100", 1, "error: --dataset cifar100 needs --data-dir");
}

}  // namespace
}  // namespace dl::dist
