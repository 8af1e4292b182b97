// TensorDataset: tensors whose first dimension counts samples. torch.utils.data.TensorDataset.
//
//     TensorDataset dataset({x, y});  // x [N, ...], y [N]
//     DataLoader loader(dataset, {.batch_size = 8, .shuffle = true});
//     for (const auto& [input, target] : loader) step(input, target);
#pragma once

#include <vector>

#include "core/tensor/tensor.h"
#include "nn/data/dataset.h"

namespace dl::data {

class TensorDataset final : public Dataset {
 public:
  // Field i is called "i". The tensors' memory is shared if they are row-major, else copied. Throws
  // kInvalidArgument if there is none, one is undefined, has no dimension, is not on the CPU or
  // requires gradients, or sizes of the first dimension differ.
  explicit TensorDataset(std::vector<Tensor> tensors);

  std::int64_t size() const noexcept override { return size_; }
  const std::vector<Field>& fields() const noexcept override { return fields_; }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
  std::vector<Field> fields_;
  std::int64_t size_ = 0;
};

}  // namespace dl::data
