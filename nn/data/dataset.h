// Dataset: samples that can be asked for by number.
//
// A sample is a fixed list of fields (an image and its label, say), each with one dtype and shape
// for all samples of the set. A dataset writes a sample straight into the place that it has in a
// batch, so that nothing is copied to collate it; samples that vary in size pad to their field.
//
// Thread-safety: the loader's threads call read() at the same time, on different indices. read()
// uses no tensor operation and opens no parallel region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"
#include "nn/data/readers/images.h"
#include "nn/data/transforms.h"

namespace dl::data {

struct Field {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape{};  // of one sample; empty for a number

  std::size_t bytes() const noexcept;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const noexcept = 0;
  virtual const std::vector<Field>& fields() const noexcept = 0;
  // Writes sample `index` of [0, size()): field i's elements, row-major, to out[i], which has
  // fields()[i].bytes() bytes and is aligned for its dtype. May throw anything: see data_loader.h.
  virtual void read(std::int64_t index, std::span<const std::span<std::byte>> out) const = 0;
};

struct ImageOptions {
  std::optional<ImageSize> size{};  // resize to this; nullopt: as they are
  // Per channel, in units of 0 ... 1; empty means 0 and 1, one value stands for all channels.
  std::vector<float> mean{};
  std::vector<float> std{};
};

// Images as network inputs: "input" f32 [channels, height, width], scaled to 0 ... 1, resized, then
// normalised; "target" i64 [].
class ImageDataset final : public Dataset {
 public:
  // Throws kInvalidArgument where the pixels and labels are not those of so many images, mean or
  // std do not fit the channels, or a std is not positive.
  explicit ImageDataset(LabelledImages images, ImageOptions options = {});

  std::int64_t size() const noexcept override { return images_.count; }
  const std::vector<Field>& fields() const noexcept override { return fields_; }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

 private:
  LabelledImages images_;
  std::vector<float> mean_;
  std::vector<float> std_;
  std::optional<BilinearResize> resize_;
  std::vector<Field> fields_;
};

}  // namespace dl::data
