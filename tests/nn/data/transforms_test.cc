// Transforms against torchvision's (tests/parity/make_arrays.py, transforms() and colors()).
#include "nn/data/transforms/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "nn/data/data_loader.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::data::transforms {
namespace {

using testing::ThrowsMessage;

const parity::Arrays& torchvision() {
  static const parity::Arrays arrays("transforms");
  return arrays;
}

const parity::Arrays& colors() {
  static const parity::Arrays arrays("colors");
  return arrays;
}

Tensor tensor_of(const parity::Arrays& arrays, const std::string& name) {
  std::vector<std::int64_t> shape(arrays.shape(name).begin(), arrays.shape(name).end());
  const bool bytes = arrays.dtype(name) == "U8";
  const Tensor tensor = empty(Shape(std::span<const std::int64_t>(shape)),
                              {.dtype = bytes ? DType::kU8 : DType::kF32});
  std::memcpy(tensor.data_ptr(), arrays.raw(name).data(), tensor.nbytes());
  return tensor;
}

Tensor torchvisions(const std::string& name) {
  return tensor_of(torchvision(), name);
}

struct Difference {
  double largest = 0;
  double share = 0;  // of the numbers that differ by more than 1e-5
};

Difference difference(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.sizes(), want.sizes());
  EXPECT_EQ(got.dtype(), want.dtype());
  if (got.sizes() != want.sizes()) return {.largest = INFINITY, .share = 1};
  const Tensor a = got.to(DType::kF32).contiguous();
  const Tensor b = want.to(DType::kF32);
  Difference result;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double d = std::abs(double{a.data<float>()[i]} - double{b.data<float>()[i]});
    result.largest = std::max(result.largest, d);
    result.share += d > 1e-5 ? 1.0 / static_cast<double>(a.numel()) : 0;
  }
  return result;
}

void expect_near(const Tensor& got, const std::string& name, double tolerance = 1e-5) {
  EXPECT_LE(difference(got, torchvisions(name)).largest, tolerance) << name;
}

void expect_rotated(const Tensor& got, const std::string& name) {
  EXPECT_EQ(difference(got, torchvisions(name)).share, 0) << name;
}

TEST(Resize, AgreesWithTorchvisions) {
  const Tensor image = torchvisions("image");
  expect_near(Resize(33)(image), "resize_33");
  expect_near(Resize(11)(image), "resize_11");
  expect_near(Resize(20)(image), "resize_20", 0);
  expect_near(Resize({9, 40})(image), "resize_9_40");
  expect_near(Resize({64, 7})(image), "resize_64_7");
  expect_near(Resize({20, 5})(image), "resize_20_5");
  expect_near(Resize(11)(torchvisions("pixels")), "pixels_resize", 1);
  // Not row-major, and without channels.
  expect_near(Resize({40, 9})(image.transpose(1, 2)).transpose(1, 2), "resize_9_40");
  EXPECT_EQ(Resize(10)(image[0]).sizes(), Shape({10, 13}));
}

// PyTorch gives 5/7 three times, but the means if the image has two equal columns.
TEST(Resize, ToOneColumnHasTheWeightedMeans) {
  const Tensor result = Resize({3, 1})(arange(6, {.dtype = DType::kF32}).view({1, 6, 1}));
  const float want[] = {5.0F / 7, 2.5F, 30.0F / 7};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(result.data<float>()[i], want[i], 1e-6) << i;
}

TEST(CenterCrop, AgreesWithTorchvisions) {
  const Tensor image = torchvisions("image");
  expect_near(CenterCrop(15)(image), "center_crop_15", 0);
  expect_near(CenterCrop({30, 24})(image), "center_crop_30_24", 0);
  expect_near(CenterCrop({31, 10})(image), "center_crop_31_10", 0);
  expect_near(CenterCrop({20, 27})(image), "center_crop_20_27", 0);
  expect_near(CenterCrop({5, 28})(image), "center_crop_5_28", 0);
}

// A list of one number is that number: Resize's shorter side, both sides of a crop, all of a
// padding.
TEST(Transforms, TakeNumbersInBracesAsTorchvisionTakesLists) {
  const Tensor image = ones({1, 30, 40});
  EXPECT_EQ(Resize(15)(image).sizes(), Shape({1, 15, 20}));
  EXPECT_EQ(CenterCrop(20)(image).sizes(), Shape({1, 20, 20}));
  EXPECT_EQ(RandomCrop(20)(image).sizes(), Shape({1, 20, 20}));
  EXPECT_EQ(RandomResizedCrop(20)(image).sizes(), Shape({1, 20, 20}));
  EXPECT_EQ(Pad(2)(image).sizes(), Shape({1, 34, 44}));
  EXPECT_EQ(Pad({2, 3})(image).sizes(), Shape({1, 36, 44}));
  EXPECT_EQ(Pad({1, 2, 3, 5})(image).sizes(), Shape({1, 37, 44}));
  EXPECT_EQ(Pad({1, 2, 3, 5})(image).at<float>({0, 2, 1}), 1);
  EXPECT_EQ(Pad({.left = 1, .top = 2})(image).sizes(), Shape({1, 32, 41}));
  EXPECT_EQ(RandomCrop({34, 46}, {.padding = {3, 2}})(image).sizes(), Shape({1, 34, 46}));
  EXPECT_EQ(RandomCrop({34, 44}, {.padding = {2}})(image).sizes(), Shape({1, 34, 44}));
}

TEST(Transforms, TakeABatchOfNoImages) {
  const struct {
    Transform transform;
    std::int64_t side;
  } kRows[] = {{Resize(3), 3},
               {Resize({5, 5}), 5},
               {CenterCrop(3), 3},
               {CenterCrop(9), 9},
               {Pad(2), 9},
               {Pad(2, {.mode = PaddingMode::kReflect}), 9},
               {RandomCrop(3), 3},
               {RandomCrop(9, {.pad_if_needed = true}), 9},
               {RandomResizedCrop(4), 4},
               {RandomHorizontalFlip(1), 5},
               {RandomHorizontalFlip(0), 5},
               {RandomRotation(20), 5},
               {GaussianBlur(3), 5}};
  for (const auto& [transform, side] : kRows) {
    for (const DType dtype : {DType::kF32, DType::kU8}) {
      const Tensor result = transform(empty({0, 3, 5, 5}, {.dtype = dtype}));
      EXPECT_EQ(result.sizes(), Shape({0, 3, side, side}));
      EXPECT_EQ(result.dtype(), dtype);
    }
  }
  const Tensor bytes = empty({0, 3, 5, 5}, {.dtype = DType::kU8});
  EXPECT_EQ(ToTensor()(bytes).dtype(), DType::kF32);
  EXPECT_EQ(Normalize({0.5F, 0.5F, 0.5F}, {1, 1, 1})(ToTensor()(bytes)).sizes(),
            Shape({0, 3, 5, 5}));
  for (const Shape& shape : {Shape({2, 3, 0, 5}), Shape({2, 3, 5, 0})}) {
    EXPECT_THAT([&] { Resize(3)(empty(shape)); },
                ThrowsMessage<Error>(testing::HasSubstr("with at least 1 pixel")));
  }
}

TEST(Pad, AgreesWithTorchvisionsInEachMode) {
  const Tensor image = torchvisions("image");
  const Padding padding{.left = 1, .top = 2, .right = 3, .bottom = 4};
  expect_near(Pad(padding, {.fill = 0.5})(image), "pad_constant", 0);
  expect_near(Pad(padding, {.mode = PaddingMode::kEdge})(image), "pad_edge", 0);
  expect_near(Pad(padding, {.mode = PaddingMode::kReflect})(image), "pad_reflect", 0);
  expect_near(Pad(padding, {.mode = PaddingMode::kSymmetric})(image), "pad_symmetric", 0);
  EXPECT_EQ(Pad(2)(image).sizes(), Shape({3, 24, 31}));
  const Padding both{.left = -2, .top = 3, .right = 1, .bottom = -4};
  expect_near(Pad(both, {.fill = 0.5})(image), "crop_pad_constant", 0);
  expect_near(Pad(both, {.mode = PaddingMode::kEdge})(image), "crop_pad_edge", 0);
  expect_near(Pad(both, {.mode = PaddingMode::kReflect})(image), "crop_pad_reflect", 0);
  expect_near(Pad(both, {.mode = PaddingMode::kSymmetric})(image), "crop_pad_symmetric", 0);
  EXPECT_EQ(Pad(-3)(image).sizes(), Shape({3, 14, 21}));
  // The columns are 0 and "none", which look like a mirrored pair.
  const Tensor narrow = Pad({.right = 1}, {.fill = 7})(ones({2, 1}));
  EXPECT_THAT(std::vector(narrow.data<float>(), narrow.data<float>() + 4),
              testing::ElementsAre(1, 7, 1, 7));
}

TEST(Rotate, TakesTheNearestPixelAsTorchvisions) {
  const Tensor image = torchvisions("image");
  expect_rotated(rotate(image, 17.3), "rotate_17.3");
  expect_rotated(rotate(image, -20), "rotate_-20.0");
  expect_rotated(rotate(image, 45), "rotate_45.0");
  expect_rotated(rotate(image, 90), "rotate_90.0");
  expect_rotated(rotate(image, 30, 0.25), "rotate_filled");
  expect_rotated(rotate(torchvisions("pixels"), 17.3), "pixels_rotate");
}

// In quarter turns every pixel may lie equally near to two.
TEST(Rotate, TakesTorchvisionsPixelsAtTies) {
  for (const auto& [height, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {20, 27}, {27, 20}, {7, 7}, {16, 16}, {33, 32}, {5, 4}, {1, 9}}) {
    const Tensor counted =
        arange(1, height * width + 1, 1, {.dtype = DType::kF32}).reshape({1, height, width});
    for (const int angle : {0, 90, 180, 270, -90, -180, -270, 360, 45, -30}) {
      expect_rotated(rotate(counted, angle), "turned_" + std::to_string(height) + "_" +
                                                 std::to_string(width) + "_" +
                                                 std::to_string(angle));
    }
  }
}

TEST(GaussianBlur, AgreesWithTorchvisions) {
  const Tensor image = torchvisions("image");
  expect_near(gaussian_blur(image, 3, 0.1), "blur_3_0.1", 1e-6);
  expect_near(gaussian_blur(image, 3, 1.3), "blur_3_1.3", 1e-6);
  expect_near(gaussian_blur(image, 5, 2.0), "blur_5_2.0", 1e-6);
  expect_near(gaussian_blur(image, 9, 0.7), "blur_9_0.7", 1e-6);
  expect_near(gaussian_blur(torchvisions("pixels"), 3, 1.3), "pixels_blur", 1);
}

TEST(Normalize, AgreesWithTorchvisions) {
  expect_near(Normalize({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F})(torchvisions("image")),
              "normalize", 0);
  expect_near(ToTensor()(torchvisions("pixels")), "pixels_unit", 0);
  const Tensor image = torchvisions("image");
  EXPECT_EQ(difference(Normalize({0.5F}, {0.5F})(image),
                       Normalize({0.5F, 0.5F, 0.5F}, {0.5F, 0.5F, 0.5F})(image))
                .largest,
            0);
}

// Bytes are rounded down after sums whose order differs.
void expect_colors(const Tensor& got, const std::string& name) {
  const double tolerance = got.dtype() == DType::kU8 ? 1 : 2e-6;
  EXPECT_LE(difference(got, tensor_of(colors(), name)).largest, tolerance) << name;
}

TEST(Colors, AgreeWithTorchvisions) {
  for (const std::string kind : {"image", "pixels"}) {
    const Tensor image = tensor_of(colors(), kind);
    expect_colors(adjust_brightness(image, 0.3), kind + "_brightness_0.3");
    expect_colors(adjust_brightness(image, 1.7), kind + "_brightness_1.7");
    expect_colors(adjust_contrast(image, 0.3), kind + "_contrast_0.3");
    expect_colors(adjust_contrast(image, 1.7), kind + "_contrast_1.7");
    expect_colors(adjust_saturation(image, 0.3), kind + "_saturation_0.3");
    expect_colors(adjust_saturation(image, 1.7), kind + "_saturation_1.7");
    expect_colors(adjust_hue(image, -0.5), kind + "_hue_-0.5");
    expect_colors(adjust_hue(image, -0.13), kind + "_hue_-0.13");
    expect_colors(adjust_hue(image, 0.4), kind + "_hue_0.4");
    expect_colors(Grayscale()(image), kind + "_grey");
    const Tensor three = Grayscale(3)(image);
    EXPECT_EQ(three.sizes(), image.sizes());
    for (std::int64_t c = 0; c < 3; ++c) expect_colors(three.narrow(0, c, 1), kind + "_grey");
  }
  const Tensor image = tensor_of(colors(), "image");
  expect_colors(adjust_contrast(image.narrow(0, 0, 1), 1.7), "one_channel_contrast");
  expect_colors(adjust_contrast(stack({image, image.flip(-1) * 0.5}), 0.3), "two_images_contrast");
  EXPECT_TRUE(adjust_hue(image.narrow(0, 0, 1), 0.3).equal(image.narrow(0, 0, 1)));
  EXPECT_EQ(adjust_hue(zeros({0, 3, 4, 4}), 0.3).sizes(), (Shape{0, 3, 4, 4}));
}

// Four results of `transform`.
Tensor four(const Transform& transform, const Tensor& image) {
  std::vector<Sample> results;
  for (int i = 0; i < 4; ++i) results.emplace_back(transform(image));
  return default_collate(results)[0];
}

TEST(RandomColors, DrawAsTorchvisionsDo) {
  const Tensor image = tensor_of(colors(), "image");
  const Tensor before = image.clone();
  manual_seed(5);
  expect_colors(four(RandomVerticalFlip(), image), "random_vertical_flip");
  expect_colors(
      four(ColorJitter({.brightness = 0.4, .contrast = 0.5, .saturation = {0.2, 1.9}, .hue = 0.2}),
           image),
      "random_jitter");
  expect_colors(four(ColorJitter({.contrast = 0.5}), image), "random_one_jitter");
  expect_colors(four(ColorJitter(), image), "random_no_jitter");
  expect_colors(four(RandomErasing(), image), "random_erasing");
  expect_colors(four(RandomErasing(1, {.min_scale = 0.1,
                                       .max_scale = 0.5,
                                       .min_ratio = 0.5,
                                       .max_ratio = 2,
                                       .value = {0.1F, 0.2F, 0.3F}}),
                     image),
                "random_coloured_erasing");
  expect_colors(four(RandomErasing(1, {.random = true}), image), "random_noise");
  expect_colors(four(RandomErasing(1, {.min_scale = 0.9, .max_scale = 1}), image),
                "random_large_erasing");
  expect_colors(four(RandomGrayscale(0.5), image), "random_greyscale");
  EXPECT_EQ(default_generator().random() % 1'000'000,
            static_cast<std::uint64_t>(colors().get<std::int64_t>("random_after")[0]));
  EXPECT_TRUE(image.equal(before));
}

TEST(Colors, RefuseWhatIsNoColor) {
  const Tensor two = ones({2, 3, 3});
  EXPECT_ERROR(ColorJitter({.hue = 0.6}), kInvalidArgument,
               "ColorJitter: hue is -0.6 to 0.6, wanted numbers from -0.5 to 0.5 in order");
  EXPECT_ERROR(ColorJitter({.contrast = -1}), kInvalidArgument,
               "ColorJitter: contrast is -1, wanted at least 0");
  EXPECT_ERROR(ColorJitter({.saturation = {2, 1}}), kInvalidArgument,
               "ColorJitter: saturation is 2 to 1, wanted numbers from 0 to 1e+30 in order");
  EXPECT_ERROR(ColorJitter({.hue = 0.1})(two), kShape,
               "ColorJitter: got an image [2, 3, 3] of 2 channels, wanted 1 or 3");
  EXPECT_ERROR(adjust_brightness(two, -1), kInvalidArgument,
               "adjust_brightness: the factor is -1, wanted a number from 0 to 1e+30");
  EXPECT_ERROR(adjust_contrast(ones({3, 2, 2}).to(DType::kU8), 1e300), kInvalidArgument,
               "adjust_contrast: the factor is 1e+300, wanted a number from 0 to 1e+30");
  EXPECT_ERROR(adjust_hue(two, 0.7), kInvalidArgument,
               "adjust_hue: the factor is 0.7, wanted -0.5 to 0.5");
  EXPECT_ERROR(Grayscale(2), kInvalidArgument,
               "Grayscale: num_output_channels is 2, wanted 1 or 3");
  EXPECT_ERROR(RandomErasing(0.5, {.max_scale = 2}), kInvalidArgument,
               "RandomErasing: the scale is 0.02 to 2, wanted numbers from 0 to 1 in order");
  EXPECT_ERROR(RandomErasing(0.5, {.value = {1, 2, 3}})(two), kInvalidArgument,
               "RandomErasing: value has 3 numbers for 2 channels, wanted 1 or as many");
  EXPECT_ERROR(RandomErasing(1, {.random = true})(two.to(DType::kU8)), kDType,
               "RandomErasing: got an image of uint8, wanted float32 for random numbers; put "
               "ToTensor() before it");
  EXPECT_ERROR(RandomVerticalFlip(2), kInvalidArgument,
               "RandomVerticalFlip: p is 2, wanted 0 to 1");
}

TEST(Colors, AHueOfNoNumberIsNoNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float odd : {kNan, kInfinity, -kInfinity}) {
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      const Tensor image = tensor({0.25, 0.5, 0.75}, {.dtype = DType::kF32}).view(3, 1, 1);
      image.select(0, channel).fill_(odd);
      const Tensor turned = adjust_hue(image, 0.25);
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(std::isnan(turned.data<float>()[i])) << odd << channel;
    }
  }
}

TEST(Colors, RandomGrayscaleRefusesChannelsWhateverItDraws) {
  EXPECT_ERROR(RandomGrayscale(0)(ones({2, 3, 3})), kShape,
               "RandomGrayscale: got an image [2, 3, 3] of 2 channels, wanted 1 or 3");
}

// As torchvision's.
TEST(RandomTransforms, ErasingAcceptsAnAreaOfNothing) {
  const Tensor image = ones({3, 4, 5});
  EXPECT_TRUE(RandomErasing(1, {.min_scale = 0, .max_scale = 0})(image).equal(image));
  EXPECT_ERROR(RandomErasing(1, {.min_scale = -0.1}), kInvalidArgument,
               "RandomErasing: the scale is -0.1 to 0.33, wanted numbers from 0 to 1 in order");
}

// Four results of each, from one stream of numbers through all.
TEST(RandomTransforms, DrawAsTorchvisionsDo) {
  const Tensor image = torchvisions("image");
  const auto four = [&](const Transform& transform) { return transforms::four(transform, image); };
  manual_seed(5);
  expect_near(four(RandomHorizontalFlip()), "random_flip", 0);
  expect_rotated(four(RandomRotation(20)), "random_rotation");
  expect_rotated(four(RandomRotation(5, 90)), "random_angles");
  expect_near(four(GaussianBlur(3)), "random_blur", 1e-6);
  expect_near(four(RandomCrop(10, {.padding = 2})), "random_crop", 0);
  expect_near(four(RandomCrop({40, 20}, {.pad_if_needed = true})), "random_small_crop", 0);
  expect_near(four(RandomCrop({20, 27})), "random_whole_crop", 0);
  expect_near(four(RandomResizedCrop(7)), "random_resized_crop");
  expect_near(four(RandomResizedCrop(
                  {4, 9}, {.min_scale = 0.9, .max_scale = 1, .min_ratio = 2, .max_ratio = 3})),
              "random_wide_crop");
  EXPECT_EQ(default_generator().random() % 1'000'000,
            static_cast<std::uint64_t>(torchvision().get<std::int64_t>("random_after")[0]));
}

Transform book() {
  return Compose({Resize(30), CenterCrop(24), RandomHorizontalFlip(0.5), RandomRotation(20),
                  GaussianBlur(3), ToTensor(),
                  Normalize({0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F})});
}

// Sample i is the image, shifted by i.
class Rolled : public Dataset {
 public:
  std::int64_t size() const noexcept override { return 5; }
  Sample get(std::int64_t i) const override { return {transform_(roll(image_, i, 2)), tensor(i)}; }

 private:
  Tensor image_ = torchvisions("image");
  Transform transform_ = book();
};

TEST(Transforms, AFlipReadsACropInPlace) {
  Tensor image = empty({2, 5, 7});
  for (std::int64_t i = 0; i < image.numel(); ++i) image.data<float>()[i] = static_cast<float>(i);
  for (const DType dtype : {DType::kF32, DType::kU8}) {
    const Tensor crop = CenterCrop(3)(image.to(dtype));
    const Tensor mirrored = RandomHorizontalFlip(1)(crop);
    for (const Tensor& x : {crop, crop.transpose(1, 2).contiguous().transpose(1, 2)}) {
      EXPECT_EQ(values<float>(RandomHorizontalFlip(1)(x)), values<float>(mirrored));
      EXPECT_EQ(values<float>(RandomHorizontalFlip(0)(x)), values<float>(crop));
    }
    EXPECT_EQ(values<float>(mirrored)[0], values<float>(crop)[2]);
    EXPECT_EQ(RandomHorizontalFlip(0)(crop).data_ptr(), crop.data_ptr());
  }
}

TEST(RandomTransforms, InALoaderGivePyTorchsBatchesIfAskedFor) {
  const DataLoader loader(Rolled(),
                          {.batch_size = 3, .shuffle = true, .default_generator_draws = true});
  manual_seed(9);
  int i = 0;
  for (auto& [x, y] : loader) {
    const std::string name = "book_" + std::to_string(i++);
    EXPECT_EQ(std::vector(y.data<std::int64_t>(), y.data<std::int64_t>() + y.numel()),
              torchvision().get<std::int64_t>(name + "_targets"));
    // A pixel that is another one at a tie spreads over 9 by the blur.
    EXPECT_LE(difference(x, torchvisions(name)).share, 0.009);
  }
  EXPECT_EQ(i, 2);
}

TEST(RandomTransforms, DoNotDependOnTheNumberOfWorkers) {
  std::vector<Tensor> first;
  for (const int workers : {0, 1, 3}) {
    const DataLoader loader(Rolled(), {.batch_size = 2, .shuffle = true, .num_workers = workers});
    manual_seed(9);
    std::vector<Tensor> batches;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto& [x, y] : loader) batches.push_back(x);
    }
    if (first.empty()) first = batches;
    ASSERT_EQ(batches.size(), 6U);
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(difference(batches[i], first[i]).largest, 0) << workers;
    EXPECT_GT(difference(batches[0], batches[3]).largest, 0);
  }
}

TEST(Compose, TakesFunctionsOfYourOwn) {
  const Compose twice({[](const Tensor& x) { return x * 2; }, Resize({2, 2})});
  EXPECT_EQ(twice(ones({1, 2, 2})).at<float>({0, 1, 1}), 2.0F);
}

TEST(Transforms, SayWhatIsWrong) {
  const Tensor image = ones({3, 4, 5});
  EXPECT_THAT([] { Resize(0); },
              ThrowsMessage<Error>("Resize: the size is 0x0, wanted at least 1x1"));
  EXPECT_THAT([] { Resize(3)(ones({3})); },
              ThrowsMessage<Error>(
                  "Resize: got an image [3], wanted [..., height, width] with at least 1 pixel"));
  EXPECT_THAT([] { Resize(3)(ones({3, 3}, {.dtype = DType::kF64})); },
              ThrowsMessage<Error>("Resize: got an image of float64, wanted float32 or uint8"));
  EXPECT_THAT([] { Resize(3)(Tensor()); }, ThrowsMessage<Error>("Resize: the image is undefined"));
  EXPECT_THAT([] { RandomHorizontalFlip(1.5); },
              ThrowsMessage<Error>("RandomHorizontalFlip: p is 1.5, wanted 0 to 1"));
  EXPECT_THAT(
      [&] { RandomCrop(5)(image); },
      ThrowsMessage<Error>(
          "RandomCrop: the image is 4x5, wanted at least 5x5; set pad_if_needed for smaller ones"));
  EXPECT_THAT([] { RandomResizedCrop(5, {.min_scale = 2}); },
              ThrowsMessage<Error>(
                  "RandomResizedCrop: the scale is 2 to 1, wanted more than 0 and not less"));
  EXPECT_THAT([] { RandomRotation(-3); },
              ThrowsMessage<Error>(
                  "RandomRotation: the angle is 3 to -3 degrees, wanted finite numbers in order"));
  EXPECT_THAT([] { GaussianBlur(4); },
              ThrowsMessage<Error>(
                  "GaussianBlur: the kernel's size is 4, wanted an odd number of at least 1"));
  EXPECT_THAT([&] { GaussianBlur(9)(image); },
              ThrowsMessage<Error>(
                  "GaussianBlur: the image is 4x5, wanted more than 4 lines for a kernel of 9"));
  EXPECT_THAT([&] { Pad(-2)(image); },
              ThrowsMessage<Error>(
                  "Pad: crops 2 and 2 lines of an image that has 4, wanted to leave at least 1"));
  EXPECT_THAT([&] { Pad({.right = -5})(image); },
              ThrowsMessage<Error>(
                  "Pad: crops 0 and 5 lines of an image that has 5, wanted to leave at least 1"));
  EXPECT_THAT(
      [&] { Pad({.left = -3, .right = 3}, {.mode = PaddingMode::kSymmetric})(image); },
      ThrowsMessage<Error>("Pad: mirrors 3 lines of an image that has 2, wanted at most as many"));
  EXPECT_THAT([&] { Pad(4, {.mode = PaddingMode::kReflect})(image); },
              ThrowsMessage<Error>(
                  "Pad: reflects 4 lines of an image that has 4, wanted fewer than it has"));
  EXPECT_THAT(
      [&] { Pad(5, {.mode = PaddingMode::kSymmetric})(image); },
      ThrowsMessage<Error>("Pad: mirrors 5 lines of an image that has 4, wanted at most as many"));
  EXPECT_THAT(
      [] { Normalize({0.5F}, {}); },
      ThrowsMessage<Error>(
          "Normalize: got 1 means and 0 standard deviations, wanted as many, and at least 1"));
  EXPECT_THAT([] { Normalize({0.5F}, {0.0F}); },
              ThrowsMessage<Error>("Normalize: a standard deviation is 0"));
  EXPECT_THAT([&] { Normalize({0.5F, 0.5F}, {1, 1})(image); },
              ThrowsMessage<Error>(
                  "Normalize: got an image [3, 4, 5] for 2 means, wanted [..., 2, height, width]"));
  EXPECT_THAT([&] { Normalize({0.5F}, {1})(image.to(DType::kU8)); },
              ThrowsMessage<Error>(
                  "Normalize: got an image of uint8, wanted float32; put ToTensor() before it"));
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

template <typename Call>
void expect_refused(const Call& call, const std::string& start) {
  EXPECT_THAT(call, ThrowsMessage<Error>(testing::StartsWith(start)));
}

TEST(Transforms, RefuseSizesThatNoImageHas) {
  const Tensor image = ones({3, 4, 5});
  for (const std::int64_t side : {std::int64_t{0}, std::int64_t{-1}, kHuge}) {
    expect_refused([=] { Resize{side}; }, "Resize: the size is ");
    expect_refused([=] { Resize({3, side}); }, "Resize: the size is ");
    expect_refused([=] { CenterCrop{side}; }, "CenterCrop: the size is ");
    expect_refused([=] { RandomCrop{side}; }, "RandomCrop: the size is ");
    expect_refused([=] { RandomResizedCrop{side}; }, "RandomResizedCrop: the size is ");
  }
  for (const std::int64_t lines : {-kHuge, kHuge}) {
    expect_refused([=] { Pad{lines}; }, "Pad: the padding of a side is ");
    expect_refused([=] { RandomCrop(3, {.padding = Padding{.top = lines}}); },
                   "RandomCrop: the padding of a side is ");
  }
  // Too many pixels: in the name of the transform, not of what it calls.
  const Tensor line = ones({1, 4000, 1}).expand({1, 4000, 1});
  expect_refused([&] { Resize({1, 4'000'000})(line); }, "Resize: got 4000x1 to 1x4000000, wanted");
  expect_refused(
      [&] { RandomResizedCrop({1, 4'000'000}, {.min_scale = 1, .min_ratio = 1e-4})(line); },
      "RandomResizedCrop: got ");
  expect_refused([&] { Resize{4'000'000}(image); },
                 "Resize: the image is 4x5 and would become 4000000x5000000, wanted at most");
  expect_refused(
      [&] {
        RandomCrop(3,
                   {.padding = Padding{4, 4, 4, 4}, .pad = {.mode = PaddingMode::kReflect}})(image);
      },
      "RandomCrop: reflects 4 lines");
}

TEST(Transforms, RefuseFillsThatBytesCannotHold) {
  const Tensor floats = ones({3, 4, 5});
  const Tensor bytes = floats.to(DType::kU8);
  expect_refused([&] { Pad(1, {.fill = kNaN})(bytes); }, "Pad: fill is nan for an image of uint8");
  expect_refused([&] { RandomCrop(8, {.pad_if_needed = true, .pad = {.fill = kNaN}})(bytes); },
                 "RandomCrop: fill is nan for an image of uint8");
  expect_refused([&] { RandomRotation(30, {.fill = kNaN})(bytes); },
                 "RandomRotation: fill is nan for an image of uint8");
  expect_refused([&] { rotate(bytes, 30, kNaN); }, "rotate: fill is nan for an image of uint8");
  EXPECT_TRUE(std::isnan(Pad(1, {.fill = kNaN})(floats).at<float>({0, 0, 0})));
  EXPECT_EQ(Pad(1, {.fill = kInfinity})(bytes).at<std::uint8_t>({0, 0, 0}), 255);
  EXPECT_EQ(Pad(1, {.fill = -1e300})(bytes).at<std::uint8_t>({0, 0, 0}), 0);
}

TEST(Transforms, RefuseNumbersThatCannotBeDrawn) {
  for (const double wrong : {0.0, -1.0, kNaN, 1e-60}) {
    expect_refused([=] { RandomResizedCrop(3, {.min_scale = wrong}); },
                   "RandomResizedCrop: the scale is ");
    expect_refused([=] { RandomResizedCrop(3, {.min_ratio = wrong}); },
                   "RandomResizedCrop: the ratio is ");
    expect_refused([=] { GaussianBlur(3, {.min_sigma = wrong}); }, "GaussianBlur: sigma is ");
  }
  for (const double wrong : {kNaN, kInfinity, 1e60}) {
    expect_refused([=] { RandomResizedCrop(3, {.max_scale = wrong}); },
                   "RandomResizedCrop: the scale is ");
    expect_refused([=] { RandomResizedCrop(3, {.max_ratio = wrong}); },
                   "RandomResizedCrop: the ratio is ");
    expect_refused([=] { GaussianBlur(3, {.max_sigma = wrong}); }, "GaussianBlur: sigma is ");
    expect_refused([=] { RandomRotation{wrong}; }, "RandomRotation: the angle is ");
  }
  for (const double wrong : {-0.1, 1.1, kNaN, kInfinity}) {
    expect_refused([=] { RandomHorizontalFlip{wrong}; }, "RandomHorizontalFlip: p is ");
  }
  // Numbers that can be drawn, but fit no image: the fallback is a part of the image.
  const Tensor image = ones({3, 4, 5});
  for (const RandomResizedCropOptions& options : {RandomResizedCropOptions{.max_scale = 1e37},
                                                  {.max_ratio = 1e37},
                                                  {.min_ratio = 1e36, .max_ratio = 1e37},
                                                  {.min_ratio = 1e-37, .max_ratio = 1e-36}}) {
    EXPECT_EQ(RandomResizedCrop(3, options)(image).sizes(), Shape({3, 3, 3}));
  }
}

TEST(Transforms, RefuseAnglesAndKernelsThatAreNone) {
  const Tensor image = ones({3, 4, 5});
  for (const double wrong : {kNaN, kInfinity, -kInfinity}) {
    expect_refused([&] { rotate(image, wrong); }, "rotate: the angle is ");
  }
  for (const std::int64_t wrong : {0, -1, -3, 2, 4}) {
    expect_refused([&] { gaussian_blur(image, wrong, 1); },
                   "gaussian_blur: the kernel's size is " + std::to_string(wrong));
    expect_refused([&] { GaussianBlur{wrong}; }, "GaussianBlur: the kernel's size is ");
  }
  for (const double wrong : {0.0, -1.0, kNaN, kInfinity}) {
    expect_refused([&] { gaussian_blur(image, 3, wrong); }, "gaussian_blur: sigma is ");
  }
  expect_refused([&] { gaussian_blur(image, kHuge, 1); }, "gaussian_blur: the image is 4x5");
  expect_refused([] { Normalize({static_cast<float>(kNaN)}, {1}); }, "Normalize: a mean is nan");
  expect_refused([] { Normalize({0}, {static_cast<float>(kInfinity)}); },
                 "Normalize: a standard deviation is inf");
  expect_refused([] { Compose({Resize(3), Transform()}); },
                 "Compose: transform 1 is an empty function");
}

}  // namespace
}  // namespace dl::data::transforms
