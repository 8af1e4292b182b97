#include "nn/data/dataset.h"

#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace dl::data {
namespace {

std::vector<float> per_channel(std::vector<float> values, std::int64_t channels, float otherwise,
                               const char* what) {
  const auto count = static_cast<std::size_t>(channels);
  if (values.empty()) values.assign(1, otherwise);
  if (values.size() == 1) values.assign(count, float{values.front()});
  DL_CHECK(values.size() == count, kInvalidArgument,
           "ImageDataset: got {} values of {} for images of {} channels", values.size(), what,
           channels);
  return values;
}

LabelledImages checked(LabelledImages images) {
  const auto count = static_cast<std::size_t>(images.count);
  DL_CHECK(images.count >= 0 && images.channels > 0 && images.height > 0 && images.width > 0 &&
               images.labels.size() == count &&
               images.pixels.size() / images.image_bytes() == count &&
               images.pixels.size() % images.image_bytes() == 0,
           kInvalidArgument,
           "ImageDataset: got {} bytes of pixels and {} labels for {} images of {}x{}x{}",
           images.pixels.size(), images.labels.size(), images.count, images.channels, images.height,
           images.width);
  return images;
}

}  // namespace

std::size_t Field::bytes() const noexcept {
  std::size_t product = size_of(dtype);
  for (const std::int64_t size : shape) product *= static_cast<std::size_t>(size);
  return product;
}

ImageDataset::ImageDataset(LabelledImages images, ImageOptions options)
    : images_(checked(std::move(images))),
      mean_(per_channel(std::move(options.mean), images_.channels, 0.0F, "mean")),
      std_(per_channel(std::move(options.std), images_.channels, 1.0F, "std")) {
  for (const float std : std_) {
    DL_CHECK(std > 0.0F, kInvalidArgument, "ImageDataset: got std = {}, wanted more than 0", std);
  }
  const ImageSize stored{images_.height, images_.width};
  const ImageSize size = options.size.value_or(stored);
  if (size != stored) resize_.emplace(stored, size);
  fields_ = {{"input", DType::kF32, {images_.channels, size.height, size.width}},
             {"target", DType::kI64, {}}};
}

void ImageDataset::read(std::int64_t index, std::span<const std::span<std::byte>> out) const {
  DL_CHECK(index >= 0 && index < images_.count, kIndex,
           "ImageDataset: there is no sample {} among {}", index, images_.count);
  DL_CHECK(
      out.size() == 2 && out[0].size() == fields_[0].bytes() && out[1].size() == fields_[1].bytes(),
      kInvalidArgument,
      "ImageDataset: read() needs a place for each of its 2 fields, as large as Field::bytes()");
  const auto plane_in = static_cast<std::size_t>(images_.height * images_.width);
  const std::size_t plane_out =
      out[0].size() / sizeof(float) / static_cast<std::size_t>(images_.channels);
  const auto image =
      std::span(images_.pixels)
          .subspan(static_cast<std::size_t>(index) * images_.image_bytes(), images_.image_bytes());
  auto* const values = reinterpret_cast<float*>(out[0].data());
  std::vector<float> scratch(resize_ ? plane_in : 0);
  for (std::size_t c = 0; c < mean_.size(); ++c) {
    const std::span<float> plane(values + c * plane_out, plane_out);
    const auto pixels = image.subspan(c * plane_in, plane_in);
    if (resize_) {
      to_unit(pixels, scratch);
      (*resize_)(scratch, plane);
    } else {
      to_unit(pixels, plane);
    }
    normalise(plane, mean_[c], std_[c]);
  }
  const std::int64_t target = images_.labels[static_cast<std::size_t>(index)];
  std::memcpy(out[1].data(), &target, sizeof(target));
}

}  // namespace dl::data
