// make_grid() and save_image(), against torchvision 0.29.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/logic/logic.h"
#include "core/tensor/factories.h"
#include "nn/data/readers/picture.h"
#include "nn/data/writers/image_grid.h"
#include "tests/core/support.h"

namespace dl::data {
namespace {

using Ints = std::vector<int>;

// Three grey images of 2 x 2 pixels: -4 ... 7.
Tensor three() {
  return (arange(12).to(DType::kF32) - 4).view({3, 1, 2, 2});
}

// A file's name that is gone when the test ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& ending) {
    std::string folder = (std::filesystem::temp_directory_path() / "dlrun_grid.XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path = folder + "/image" + ending;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove_all(folder_); }
  std::string path;

 private:
  std::filesystem::path folder_;
};

// The red plane of a file.
Ints reds(const std::string& path) {
  const Picture picture = read_picture(path);
  Ints result;
  for (std::int64_t i = 0; i < picture.height * picture.width; ++i) {
    result.push_back(std::to_integer<int>(picture.pixels[static_cast<std::size_t>(i)]));
  }
  return result;
}

TEST(MakeGrid, SetsImagesInRowsWithPadding) {
  const Tensor grid = make_grid(three(), {.nrow = 2, .padding = 1, .pad_value = 9});
  EXPECT_EQ(grid.sizes(), (Shape{3, 7, 7}));
  const Ints wanted{9, 9, 9, 9, 9, 9, 9, 9, -4, -3, 9, 0, 1, 9, 9, -2, -1, 9, 2, 3, 9, 9, 9, 9, 9,
                    9, 9, 9, 9, 4, 5, 9, 9, 9,  9,  9, 6, 7, 9, 9, 9,  9,  9, 9, 9, 9, 9, 9, 9};
  for (int channel = 0; channel < 3; ++channel) EXPECT_EQ(values<int>(grid[channel]), wanted);
  std::vector<Tensor> list;
  for (int i = 0; i < 3; ++i) list.push_back(three()[i]);
  EXPECT_TRUE(equal(make_grid(list, {.nrow = 2, .padding = 1, .pad_value = 9}), grid));
  EXPECT_EQ(make_grid(zeros({9, 4, 2, 3})).sizes(), (Shape{4, 10, 42}));
}

TEST(MakeGrid, LeavesOneImageAlone) {
  EXPECT_EQ(make_grid(three()[0]).sizes(), (Shape{3, 2, 2}));
  EXPECT_EQ(make_grid(three()[0][0]).sizes(), (Shape{3, 2, 2}));
  EXPECT_EQ(make_grid(zeros({1, 2, 5, 6})).sizes(), (Shape{2, 5, 6}));
  const Tensor image = zeros({3, 2, 2});
  make_grid(image).fill_(1);
  EXPECT_TRUE(equal(image, zeros({3, 2, 2})));
}

TEST(MakeGrid, NormalizesByARangeOfAllOrEach) {
  const Tensor all = make_grid(three(), {.padding = 0, .normalize = true})[1];
  const Tensor each = make_grid(three(), {.padding = 0, .normalize = true, .scale_each = true})[2];
  const Tensor cut =
      make_grid(three(), {.padding = 0, .normalize = true, .value_range = {{-1, 3}}})[0];
  expect_near(all * 11, {0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}, 1e-6);
  expect_near(each * 3, {0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3}, 1e-6);
  expect_near(cut * 4, {0, 0, 1, 2, 4, 4, 0, 0, 3, 4, 4, 4}, 1e-6);
  expect_near(make_grid(full({2, 2}, 5.0), {.normalize = true}), std::vector<double>(12, 0), 0);
  EXPECT_FALSE(make_grid(three().requires_grad_(), {.normalize = true}).requires_grad());
}

TEST(MakeGrid, RefusesWhatIsNoImage) {
  EXPECT_ERROR(make_grid(Tensor()), kInvalidArgument, "make_grid: the images are undefined");
  EXPECT_ERROR(make_grid(std::vector<Tensor>()), kInvalidArgument,
               "make_grid: the list of images is empty");
  EXPECT_ERROR(make_grid(zeros({4})), kShape,
               "make_grid: the images have shape [4], wanted [N, C, height, width], [C, height, "
               "width] or [height, width], and a pixel at least");
  EXPECT_THROW(make_grid(zeros({0, 3, 4, 4})), Error);
  EXPECT_ERROR(make_grid(zeros({2, 2}, {.dtype = DType::kI64})), kDType,
               "make_grid: the images are int64, wanted a floating dtype or uint8");
  EXPECT_ERROR(make_grid(zeros({2, 2}, {.dtype = DType::kU8}), {.normalize = true}), kDType,
               "make_grid: images of uint8 were to be normalized, wanted a floating dtype; use "
               "to()");
  EXPECT_ERROR(make_grid(three(), {.nrow = 0}), kInvalidArgument,
               "make_grid: nrow is 0, wanted at least 1");
  EXPECT_ERROR(make_grid(three(), {.padding = -1}), kInvalidArgument,
               "make_grid: the padding is -1, wanted 0 to 1048576");
  EXPECT_ERROR(make_grid(three(), {.normalize = true, .value_range = {{1, 0}}}), kInvalidArgument,
               "make_grid: value_range is 1 to 0, wanted two numbers, the lower one first");
}

TEST(SaveImage, WritesTorchvisionsPixels) {
  const TemporaryFile file(".png");
  if (!can_read_png()) {
    EXPECT_THROW(save_image(three(), file.path), Error);
    return;
  }
  const float nan = std::nanf("");
  save_image(tensor({{-0.5f, 0.0f, 0.25f, 0.5f}, {1.0f / 510, 0.998f, 7.0f, nan}}), file.path);
  EXPECT_EQ(reds(file.path), (Ints{0, 0, 64, 128, 1, 254, 255, 0}));
  const Tensor bytes = arange(256).to(DType::kU8).view({1, 16, 16});
  save_image(bytes, file.path);  // over the file that is there
  EXPECT_EQ(reds(file.path), values<int>(bytes));
  save_image({three()[0], three()[1]}, file.path, {.padding = 1, .normalize = true});
  EXPECT_EQ(reds(file.path), (Ints{0, 0,  0,   0, 0,   0,   0, 0, 0, 36, 0, 146, 182, 0,
                                   0, 73, 109, 0, 219, 255, 0, 0, 0, 0,  0, 0,   0,   0}));
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    save_image(full({2, 2}, 0.5, {.dtype = dtype}), file.path);
    EXPECT_EQ(reds(file.path), Ints(4, 128));
  }
  save_image(ones({4, 1, 2}), file.path);  // with opacity, which the reader drops
  EXPECT_EQ(reds(file.path), Ints(2, 255));
}

TEST(SaveImage, WritesJpegFilesByTheirName) {
  for (const char* const ending : {".jpg", ".JPEG"}) {
    const TemporaryFile file(ending);
    if (!can_read_jpeg()) {
      EXPECT_THROW(save_image(three(), file.path), Error);
      continue;
    }
    save_image(full({3, 16, 24}, 0.75), file.path);
    const Picture picture = read_picture(file.path);
    EXPECT_EQ(picture.height, 16);
    EXPECT_EQ(picture.width, 24);
    for (const int red : reds(file.path)) EXPECT_NEAR(red, 191, 2);
    EXPECT_THROW(save_image(ones({4, 2, 2}), file.path), Error);
  }
}

TEST(SaveImage, NamesTheFileThatItCannotWrite) {
  EXPECT_ERROR(save_image(zeros({2, 2}), "grid.bmp"), kInvalidArgument,
               "save_image: \"grid.bmp\": wanted a name that ends in .png, .jpg or .jpeg");
  EXPECT_ERROR(save_image(zeros({2, 2}), "a.png/grid"), kInvalidArgument,
               "save_image: \"a.png/grid\": wanted a name that ends in .png, .jpg or .jpeg");
  if (!can_read_png()) return;
  EXPECT_ERROR(save_image(zeros({2, 2, 2}), "grid.png"), kShape,
               "save_image: \"grid.png\": the images have 2 channels, wanted 1 or 3, or 4 with "
               "opacity");
  EXPECT_THROW(save_image(zeros({2, 2}), "/no/such/folder/grid.png"), Error);
}

}  // namespace
}  // namespace dl::data
