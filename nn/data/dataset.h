// Dataset: samples that are read by index. IterableDataset: a stream of samples.
//
// A dataset overrides get(), which returns a sample's tensors. If all its samples have the same
// dtypes and shapes, it may override fields() and read() instead: it then writes a sample directly
// into a batch's memory, so that collating copies nothing.
//
// Thread-safety: a loader's threads call get() and read() concurrently, for different indices.
// Tensor operations inside them run on the calling thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"
#include "nn/data/batch.h"
#include "nn/data/readers/images.h"
#include "nn/data/transforms/plane.h"
#include "nn/data/transforms/transforms.h"

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
  // Returns the tensors of sample `index` in [0, size()), on the CPU. May throw anything
  // (data_loader.h says how it is reported). The default returns tensors that read() fills.
  virtual Sample get(std::int64_t index) const;
  // The name, dtype and shape of each tensor of a sample; empty if read() is not overridden.
  virtual const std::vector<Field>& fields() const noexcept;
  // Writes sample `index` in [0, size()): field i's elements, row-major, to out[i], which has
  // fields()[i].bytes() bytes and is aligned for its dtype. May throw anything, as get() may.
  // Called only if fields() is not empty.
  virtual void read(std::int64_t index, std::span<const std::span<std::byte>> out) const;
};

// Returns the next sample of one pass at each call; nullopt after the last.
using SampleStream = std::function<std::optional<Sample>()>;

// A dataset without indices: lines of a file, messages, an endless generator.
// torch.utils.data.IterableDataset.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  // Begins a pass. A loader calls this once per epoch and worker, on the worker's thread. There,
  // worker_info() (worker.h) tells which part of the samples this worker has to return. The stream
  // may borrow from the dataset.
  virtual SampleStream iterate() const = 0;
};

struct ImageOptions {
  std::optional<ImageSize> size{};  // resize to this; nullopt: keep the images' size
  // One value per channel, or one for all, in units of 0 to 1. Empty: mean 0 and std 1.
  std::vector<float> mean{};
  std::vector<float> std{};
  // Replaces the options above: makes the input from the image, uint8 [channels, height, width].
  Transform transform{};
};

// Images as network inputs: "input" float32 [channels, height, width], scaled to 0 ... 1, resized,
// then normalised, or what the transform makes; "target" int64 [].
class ImageDataset final : public Dataset {
 public:
  // Throws kInvalidArgument if the numbers of pixels or labels do not fit the number of images, if
  // mean or std do not fit the channels, if a std is not positive, or if a transform is given
  // together with size, mean or std.
  explicit ImageDataset(LabelledImages images, ImageOptions options = {});

  std::int64_t size() const noexcept override { return images_.count; }
  Sample get(std::int64_t index) const override;
  const std::vector<Field>& fields() const noexcept override { return fields_; }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

 private:
  std::span<const std::byte> pixels_of(std::int64_t index) const;

  LabelledImages images_;
  std::vector<float> mean_;
  std::vector<float> std_;
  std::optional<BilinearResize> resize_;
  Transform transform_;
  std::vector<Field> fields_;  // empty with a transform
};

}  // namespace dl::data
