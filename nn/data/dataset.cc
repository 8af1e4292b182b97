#include "nn/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/factories.h"

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

Sample Dataset::get(std::int64_t index) const {
  DL_CHECK(!fields().empty(), kInvalidArgument,
           "Dataset: neither get() nor fields() and read() are overridden");
  Sample sample;
  std::vector<std::span<std::byte>> places;
  for (const Field& field : fields()) {
    Shape shape(field.shape.size(), 0);
    std::ranges::copy(field.shape, shape.begin());
    sample.fields.push_back(empty(shape, {.dtype = field.dtype}));
    places.emplace_back(static_cast<std::byte*>(sample.fields.back().data_ptr()), field.bytes());
  }
  read(index, places);
  return sample;
}

const std::vector<Field>& Dataset::fields() const noexcept {
  static const std::vector<Field> none;
  return none;
}

void Dataset::read(std::int64_t /*index*/, std::span<const std::span<std::byte>> /*out*/) const {
  throw_error(ErrorKind::kInvalidArgument, "Dataset: read() of a dataset that has no fields()");
}

ImageDataset::ImageDataset(LabelledImages images, ImageOptions options)
    : images_(checked(std::move(images))),
      mean_(per_channel(options.mean, images_.channels, 0.0F, "mean")),
      std_(per_channel(options.std, images_.channels, 1.0F, "std")) {
  if (options.transform) {
    DL_CHECK(!options.size && options.mean.empty() && options.std.empty(), kInvalidArgument,
             "ImageDataset: size, mean or std beside a transform, which does their work");
    transform_ = std::move(options.transform);
    return;
  }
  for (const float std : std_) {
    DL_CHECK(std > 0.0F, kInvalidArgument, "ImageDataset: got std = {}, wanted more than 0", std);
  }
  const ImageSize stored{images_.height, images_.width};
  const ImageSize size = options.size.value_or(stored);
  if (size != stored) resize_.emplace(stored, size);
  fields_ = {{"input", DType::kF32, {images_.channels, size.height, size.width}},
             {"target", DType::kI64, {}}};
}

std::span<const std::byte> ImageDataset::pixels_of(std::int64_t index) const {
  DL_CHECK(index >= 0 && index < images_.count, kIndex,
           "ImageDataset: there is no sample {} among {}", index, images_.count);
  return std::span(images_.pixels)
      .subspan(static_cast<std::size_t>(index) * images_.image_bytes(), images_.image_bytes());
}

Sample ImageDataset::get(std::int64_t index) const {
  if (!transform_) return Dataset::get(index);
  const std::span<const std::byte> pixels = pixels_of(index);
  const Tensor image =
      empty({images_.channels, images_.height, images_.width}, {.dtype = DType::kU8});
  std::ranges::copy(pixels, static_cast<std::byte*>(image.data_ptr()));
  const std::int64_t target = images_.labels[static_cast<std::size_t>(index)];
  return {transform_(image), tensor(target)};
}

void ImageDataset::read(std::int64_t index, std::span<const std::span<std::byte>> out) const {
  const std::span<const std::byte> image = pixels_of(index);
  DL_CHECK(
      fields_.size() == 2 && out.size() == 2 && out[0].size() == fields_[0].bytes() &&
          out[1].size() == fields_[1].bytes(),
      kInvalidArgument,
      "ImageDataset: read() needs a place for each of its 2 fields, as large as Field::bytes()");
  const auto plane_in = static_cast<std::size_t>(images_.height * images_.width);
  const std::size_t plane_out =
      out[0].size() / sizeof(float) / static_cast<std::size_t>(images_.channels);
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
