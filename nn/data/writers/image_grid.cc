#include "nn/data/writers/image_grid.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>
#include <tuple>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/base/system/atomic_file.h"
#include "core/base/text/printable.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/data/writers/encoders.h"

namespace dl::data {
namespace {

void check_grid_options(const MakeGridOptions& options, std::string_view name) {
  constexpr std::int64_t kMostPadding = 1 << 20;
  DL_CHECK(options.nrow > 0, kInvalidArgument, "{}: nrow is {}, wanted at least 1", name,
           options.nrow);
  DL_CHECK(options.padding >= 0 && options.padding <= kMostPadding, kInvalidArgument,
           "{}: the padding is {}, wanted 0 to {}", name, options.padding, kMostPadding);
  if (!options.value_range) return;
  const auto [low, high] = *options.value_range;
  DL_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, kInvalidArgument,
           "{}: value_range is {} to {}, wanted two numbers, the lower one first", name, low, high);
}

// [N, C, height, width] with at least one image and one pixel.
Tensor batch_of(const Tensor& images, std::string_view name) {
  DL_CHECK(images.defined(), kInvalidArgument, "{}: the images are undefined", name);
  const bool known = is_floating(images.dtype()) || images.dtype() == DType::kU8;
  DL_CHECK(known, kDType, "{}: the images are {}, wanted a floating dtype or uint8", name,
           name_of(images.dtype()));
  DL_CHECK(images.dim() >= 2 && images.dim() <= 4 && images.numel() > 0, kShape,
           "{}: the images have shape {}, wanted [N, C, height, width], [C, height, width] or "
           "[height, width], and a pixel at least",
           name, images.sizes().str());
  Tensor batch = images;
  while (batch.dim() < 4) batch = batch.unsqueeze(0);
  if (batch.size(1) == 1) batch = batch.expand(-1, 3, -1, -1);
  return batch;
}

// Moved to 0 ... 1.
Tensor normalized(const Tensor& images, const MakeGridOptions& options) {
  double low = 0;
  double high = 0;
  if (options.value_range) {
    std::tie(low, high) = *options.value_range;
  } else {
    low = images.min().item<double>();
    high = images.max().item<double>();
  }
  const auto number = [&](double value) {
    return full({}, value, {.dtype = images.dtype(), .device = images.device()});
  };
  const Tensor cut = minimum(maximum(images, number(low)), number(high));
  return (cut - low) / std::max(high - low, 1e-5);
}

Tensor grid_of(const Tensor& images, const MakeGridOptions& options, std::string_view name) {
  check_grid_options(options, name);
  const NoGradGuard no_grad;
  Tensor batch = batch_of(images, name);
  const std::int64_t count = batch.size(0);
  if (options.normalize) {
    DL_CHECK(is_floating(batch.dtype()), kDType,
             "{}: images of {} were to be normalized, wanted a floating dtype; use to()", name,
             name_of(batch.dtype()));
    std::vector<Tensor> parts;
    for (std::int64_t i = 0; options.scale_each && i < count; ++i) {
      parts.push_back(normalized(batch[i], options));
    }
    batch = options.scale_each ? stack(parts) : normalized(batch, options);
  }
  if (count == 1) return batch[0].clone(MemoryFormat::kContiguous);
  const std::int64_t columns = std::min(options.nrow, count);
  const std::int64_t rows = (count + columns - 1) / columns;
  const std::int64_t height = batch.size(2) + options.padding;
  const std::int64_t width = batch.size(3) + options.padding;
  const Tensor grid =
      full({batch.size(1), rows * height + options.padding, columns * width + options.padding},
           options.pad_value, {.dtype = batch.dtype(), .device = batch.device()});
  for (std::int64_t i = 0; i < count; ++i) {
    grid.narrow(1, i / columns * height + options.padding, batch.size(2))
        .narrow(2, i % columns * width + options.padding, batch.size(3))
        .copy_(batch[i]);
  }
  return grid;
}

Tensor stacked(const std::vector<Tensor>& images, std::string_view name) {
  DL_CHECK(!images.empty(), kInvalidArgument, "{}: the list of images is empty", name);
  const NoGradGuard no_grad;
  return stack(images);
}

// Encodes pixels [height, width, channels].
std::vector<std::byte> encoded(const std::string& path, const Tensor& pixels) {
  const std::size_t dot = path.find_last_of("./");
  std::string ending = dot == path.npos || path[dot] == '/' ? "" : path.substr(dot);
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_png = ending == ".png";
  DL_CHECK(is_png || ending == ".jpg" || ending == ".jpeg", kInvalidArgument,
           "save_image: {}: wanted a name that ends in .png, .jpg or .jpeg", quoted_name(path));
  const std::int64_t channels = pixels.size(2);
  DL_CHECK(channels == 3 || (is_png && channels == 4), kShape,
           "save_image: {}: the images have {} channels, wanted 1 or 3{}", quoted_name(path),
           channels, is_png ? ", or 4 with opacity" : "");
  const Rows rows{.pixels = pixels.data<std::uint8_t>(),
                  .height = pixels.size(0),
                  .width = pixels.size(1),
                  .channels = channels};
  return is_png ? encode_png(rows, path) : encode_jpeg(rows, path);
}

void save_grid(const Tensor& images, const std::string& path, const MakeGridOptions& options) {
  Tensor grid = grid_of(images, options, "save_image").cpu();
  const NoGradGuard no_grad;
  if (is_floating(grid.dtype())) {
    if (grid.dtype() != DType::kF64) grid = grid.to(DType::kF32);
    grid = (grid * 255 + 0.5).clamp(0, 255).to(DType::kU8);
  }
  const std::vector<std::byte> bytes = encoded(path, grid.permute({1, 2, 0}).contiguous());
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace

Tensor make_grid(const Tensor& images, const MakeGridOptions& options) {
  return grid_of(images, options, "make_grid");
}

Tensor make_grid(const std::vector<Tensor>& images, const MakeGridOptions& options) {
  return grid_of(stacked(images, "make_grid"), options, "make_grid");
}

void save_image(const Tensor& images, const std::string& path, const MakeGridOptions& options) {
  save_grid(images, path, options);
}

void save_image(const std::vector<Tensor>& images, const std::string& path,
                const MakeGridOptions& options) {
  save_grid(stacked(images, "save_image"), path, options);
}

}  // namespace dl::data
