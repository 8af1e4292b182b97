// Grids of images and image files: torchvision.utils' make_grid() and save_image().
//
//     data::save_image(samples, "samples.png", {.nrow = 4, .normalize = true});
//
// Images are [N, C, height, width], [C, height, width] or [height, width], floating or uint8, on
// any device; nothing is recorded by autograd. Images of one channel become grey ones of three. All
// functions throw kInvalidArgument, kShape and kDType. Thread-safety: any thread may call; if
// several ranks save, give each a name of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl::data {

struct MakeGridOptions {
  std::int64_t nrow = 8;     // images in a row, at least 1
  std::int64_t padding = 2;  // pixels around each image
  bool normalize = false;    // map floating images to 0 ... 1 by their range
  std::optional<std::pair<double, double>> value_range{};  // default: minimum and maximum
  bool scale_each = false;  // use each image's range instead of that of all
  double pad_value = 0;     // of the pixels between images
};

// The images in rows, with padding around each: [C, height', width'], a new tensor of their dtype.
// A single image has no padding, as in torchvision.
Tensor make_grid(const Tensor& images, const MakeGridOptions& options = {});
// Images of one shape and dtype. Throws kInvalidArgument for an empty list.
Tensor make_grid(const std::vector<Tensor>& images, const MakeGridOptions& options = {});

// Writes the result of make_grid() to a PNG (.png) or JPEG file (.jpg, .jpeg; Pillow's quality of
// 75). Floating pixels are clamped to 0 ... 1 and rounded; NaN is black. uint8 pixels are 0 ...
// 255. The grid has 3 channels, or 4 for PNG (the fourth is opacity). The write is atomic: on an
// error there is no file. Also throws kNotFound and kIo with the file's name, and kNotImplemented
// in a build without the format's library.
void save_image(const Tensor& images, const std::string& path, const MakeGridOptions& options = {});
void save_image(const std::vector<Tensor>& images, const std::string& path,
                const MakeGridOptions& options = {});

}  // namespace dl::data
