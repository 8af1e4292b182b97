#include "nn/data/datasets/tensor_dataset.h"

#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/device/stream.h"

namespace dl::data {

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  DL_CHECK(!tensors_.empty(), kInvalidArgument, "TensorDataset: there is no tensor");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& t = tensors_[i];
    DL_CHECK(t.defined() && t.dim() >= 1, kInvalidArgument,
             "TensorDataset: tensor {} is {}; its first dimension must count the samples", i,
             t.defined() ? "a single number" : "undefined");
    DL_CHECK(t.device().type == DeviceType::kCPU, kInvalidArgument,
             "TensorDataset: tensor {} is on {}, wanted cpu; move batches to the device", i,
             t.device().str());
    DL_CHECK(!t.requires_grad(), kInvalidArgument,
             "TensorDataset: tensor {} requires gradients, which batches do not keep; give its "
             "detach()",
             i);
    DL_CHECK(t.size(0) == tensors_.front().size(0), kInvalidArgument,
             "TensorDataset: tensor {} has {} samples, tensor 0 has {}", i, t.size(0),
             tensors_.front().size(0));
    t = t.contiguous();
    Field field{.name = std::to_string(i), .dtype = t.dtype()};
    for (std::int64_t d = 1; d < t.dim(); ++d) field.shape.push_back(t.size(d));
    fields_.push_back(std::move(field));
  }
  size_ = tensors_.front().size(0);
}

void TensorDataset::read(std::int64_t index, std::span<const std::span<std::byte>> out) const {
  DL_CHECK(index >= 0 && index < size_, kIndex, "TensorDataset: there is no sample {} among {}",
           index, size_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::size_t bytes = out[i].size();
    if (bytes == 0) continue;
    const auto* const samples = static_cast<const std::byte*>(tensors_[i].data_ptr());
    std::memcpy(out[i].data(), samples + static_cast<std::size_t>(index) * bytes, bytes);
  }
}

}  // namespace dl::data
