#include "examples/train_image/choices/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/ops/logic/logic.h"
#include "core/random/tensor_random.h"
#include "nn/data/readers/picture.h"
#include "nn/data/writers/image_grid.h"
#include "tests/support/temp_dir.h"

namespace dl::examples {
namespace {

TEST(Task, FindsTheShippedDigitsFromTheProgramsPlace) {
  const Task task = load_task({});
  EXPECT_EQ(task.train->size(), 1433);
  EXPECT_EQ(task.test->size(), 364);
  EXPECT_THAT(task.train->fields()[0].shape, testing::ElementsAre(1, 28, 28));
  EXPECT_EQ(task.input.channels, 1);
  EXPECT_EQ(task.input.side, 28);
  EXPECT_EQ(task.input.classes, 10);
}

TEST(Task, OtherSetsNeedAFolder) {
  EXPECT_THAT(
      [] { load_task({.dataset = "cifar10"}); },
      testing::ThrowsMessage<Error>("--dataset cifar10 needs --data-dir, the folder with its "
                                    "files; only the digits come with dlrun"));
}

TEST(Task, GreyImagesAreRepeatedForAModelOfColours) {
  const Task grey = load_task({.image_size = 8});
  const Task colours = load_task({.model = "resnet18", .image_size = 8});
  EXPECT_EQ(colours.input.channels, 3);
  const Tensor want = grey.test->get(5)[0];
  const Tensor got = colours.test->get(5)[0];
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    EXPECT_TRUE(equal(got[channel], want[0]));
  }
}

TEST(Task, ImagesGrowToWhatTheModelTakes) {
  EXPECT_EQ(load_task({.model = "densenet121"}).input.side, 32);
}

TEST(Task, OnlyTrainingImagesAreAugmented) {
  const Task plain = load_task({});
  const Task changed = load_task({.augment = "shift"});
  int moved = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    const Tensor image = changed.train->get(i)[0];
    ASSERT_EQ(image.sizes(), (Shape{1, 28, 28}));
    moved += allclose(image, plain.train->get(i)[0]) ? 0 : 1;
    EXPECT_TRUE(allclose(changed.test->get(i)[0], plain.test->get(i)[0], {.atol = 1e-5}));
  }
  EXPECT_GE(moved, 15);
}

TEST(Task, AFolderOfImagesHasAClassForEachOfItsFolders) {
  if (!data::can_read_png()) GTEST_SKIP() << "this build has no libpng";
  const tests::TempDir root;
  const auto write = [&](const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(root.path() + name).parent_path());
    data::save_image(rand({3, 20, 30}), root.path() + name);
  };
  for (const char* split : {"/train/", "/val/"}) {
    for (const char* name : {"cat/1.png", "cat/2.png", "dog/1.png"}) {
      write(std::string(split) + name);
    }
  }
  const Options options{.model = "resnet18",
                        .dataset = "folder",
                        .data_dir = root.path(),
                        .image_size = 16,
                        .augment = "crop-flip"};
  const Task task = load_task(options);
  EXPECT_EQ(task.input.classes, 2);
  EXPECT_EQ(task.train->size(), 3);
  for (const auto* set : {task.train.get(), task.test.get()}) {
    EXPECT_EQ(set->get(2)[0].sizes(), (Shape{3, 16, 16}));
    EXPECT_EQ(set->get(2)[1].item<std::int64_t>(), 1);
  }
  write("/val/emu/1.png");
  EXPECT_THAT([&] { load_task(options); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("have different classes")));
}

}  // namespace
}  // namespace dl::examples
