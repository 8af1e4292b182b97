#include "nn/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/base/error.h"

namespace dl::data {
namespace {

// Two images of two channels and 1x2 pixels.
LabelledImages two_images() {
  LabelledImages images{.count = 2, .channels = 2, .height = 1, .width = 2};
  for (const int value : {0, 255, 51, 102, 255, 0, 102, 51}) {
    images.pixels.push_back(static_cast<std::byte>(value));
  }
  images.labels = {4, 7};
  return images;
}

struct Read {
  std::vector<float> input;
  std::int64_t target = -1;
};

Read read(const ImageDataset& dataset, std::int64_t index) {
  Read result;
  result.input.resize(dataset.fields()[0].bytes() / sizeof(float));
  const std::array<std::span<std::byte>, 2> out = {
      std::as_writable_bytes(std::span(result.input)),
      std::as_writable_bytes(std::span(&result.target, 1))};
  dataset.read(index, out);
  return result;
}

TEST(ImageDataset, DescribesItsFields) {
  const ImageDataset dataset(two_images(), {.size = ImageSize{4, 6}});
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.fields()[0].name, "input");
  EXPECT_THAT(dataset.fields()[0].shape, testing::ElementsAre(2, 4, 6));
  EXPECT_EQ(dataset.fields()[0].bytes(), 2U * 4 * 6 * 4);
  EXPECT_EQ(dataset.fields()[1].name, "target");
  EXPECT_EQ(dataset.fields()[1].bytes(), 8U);
}

TEST(ImageDataset, RefusesImagesThatAreNotAllThere) {
  LabelledImages images = two_images();
  images.pixels.pop_back();
  EXPECT_THAT([&] { ImageDataset{images}; },
              testing::ThrowsMessage<Error>(
                  "ImageDataset: got 7 bytes of pixels and 2 labels for 2 images of 2x1x2"));
  images = two_images();
  images.labels.pop_back();
  EXPECT_THROW(ImageDataset{images}, Error);
  images = two_images();
  images.channels = 0;
  EXPECT_THROW(ImageDataset{images}, Error);
  images.channels = -1;
  EXPECT_THROW(ImageDataset{images}, Error);
}

TEST(ImageDataset, RefusesToReadWhatItDoesNotHave) {
  const ImageDataset dataset(two_images());
  EXPECT_THAT([&] { read(dataset, 2); },
              testing::ThrowsMessage<Error>("ImageDataset: there is no sample 2 among 2"));
  EXPECT_THROW(read(dataset, -1), Error);
  EXPECT_THROW(dataset.read(0, {}), Error);
}

TEST(ImageDataset, ScalesToOneAndGivesTheLabel) {
  const ImageDataset dataset(two_images());
  const Read second = read(dataset, 1);
  EXPECT_THAT(second.input, testing::ElementsAre(1.0F, 0.0F, 0.4F, 0.2F));
  EXPECT_EQ(second.target, 7);
}

TEST(ImageDataset, NormalisesEachChannel) {
  const ImageDataset dataset(two_images(), {.mean = {0.5F, 0.2F}, .std = {0.5F, 0.1F}});
  EXPECT_THAT(read(dataset, 0).input,
              testing::Pointwise(testing::FloatNear(1e-6F), {-1.0F, 1.0F, 0.0F, 2.0F}));
}

TEST(ImageDataset, ResizesBeforeItNormalises) {
  const ImageDataset dataset(two_images(), {.size = ImageSize{1, 1}, .mean = {0.5F}});
  EXPECT_THAT(read(dataset, 0).input, testing::Pointwise(testing::FloatNear(1e-6F), {0.0F, -0.2F}));
}

TEST(ImageDataset, RefusesStatisticsThatDoNotFit) {
  EXPECT_THAT(
      [] { ImageDataset(two_images(), {.mean = {1, 2, 3}}); },
      testing::ThrowsMessage<Error>("ImageDataset: got 3 values of mean for images of 2 channels"));
  EXPECT_THAT([] { ImageDataset(two_images(), {.std = {0}}); },
              testing::ThrowsMessage<Error>("ImageDataset: got std = 0, wanted more than 0"));
}

TEST(ImageDataset, GivesWhatATransformMakesOfItsBytes) {
  namespace tf = transforms;
  const ImageDataset dataset(two_images(),
                             {.transform = tf::Compose({tf::Pad(1), tf::ToTensor()})});
  EXPECT_TRUE(dataset.fields().empty());
  const Sample sample = dataset.get(1);
  EXPECT_EQ(sample[0].sizes(), Shape({2, 3, 4}));
  EXPECT_EQ(sample[0].at<float>({1, 1, 2}), 0.2F);
  EXPECT_EQ(sample[1].item<std::int64_t>(), 7);
  EXPECT_THAT([&] { dataset.get(2); },
              testing::ThrowsMessage<Error>("ImageDataset: there is no sample 2 among 2"));
  EXPECT_EQ(ImageDataset(two_images()).get(0)[0].at<float>({1, 0, 0}), 0.2F);
  EXPECT_THAT([] { ImageDataset(two_images(), {.mean = {0.5F}, .transform = tf::ToTensor()}); },
              testing::ThrowsMessage<Error>(
                  "ImageDataset: size, mean or std beside a transform, which does their work"));
}

}  // namespace
}  // namespace dl::data
