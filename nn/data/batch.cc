#include "nn/data/batch.h"

#include <algorithm>
#include <cstring>

#include "core/tensor/factories.h"

namespace dl::data {
namespace {

constexpr const char* kAdvice = "give the loader a collate_fn for samples that differ";

// Throws unless field `f` of sample `s` has the dtype and shape of sample 0's, and is on the CPU.
void check_field(const std::vector<Sample>& samples, std::size_t s, std::size_t f) {
  const Tensor& tensor = samples[s].fields[f];
  DL_CHECK(tensor.defined() && tensor.device().type == DeviceType::kCPU, kInvalidArgument,
           "default_collate: field {} of sample {} of the batch is {}, wanted a tensor on cpu", f,
           s, tensor.defined() ? "on " + tensor.device().str() : "undefined");
  DL_CHECK(!tensor.requires_grad(), kInvalidArgument,
           "default_collate: field {} of sample {} of the batch requires gradients, which a batch "
           "does not keep; return its detach(), or give the loader a collate_fn",
           f, s);
  const Tensor& first = samples.front().fields[f];
  DL_CHECK(tensor.dtype() == first.dtype(), kDType,
           "default_collate: field {} is {} in sample {} of the batch, but {} in sample 0; {}", f,
           name_of(tensor.dtype()), s, name_of(first.dtype()), kAdvice);
  DL_CHECK(tensor.sizes() == first.sizes(), kShape,
           "default_collate: field {} is {} in sample {} of the batch, but {} in sample 0; {}", f,
           tensor.sizes().str(), s, first.sizes().str(), kAdvice);
}

}  // namespace

Shape batch_shape(std::int64_t samples, std::span<const std::int64_t> shape) {
  Shape result(1 + shape.size(), samples);
  std::ranges::copy(shape, result.begin() + 1);
  return result;
}

Batch default_collate(const std::vector<Sample>& samples, CollateOptions options) {
  DL_CHECK(!samples.empty() && !samples.front().fields.empty(), kInvalidArgument,
           "default_collate: got {} samples, wanted at least 1 of at least 1 field",
           samples.size());
  const std::size_t count = samples.front().fields.size();
  for (std::size_t s = 0; s < samples.size(); ++s) {
    DL_CHECK(samples[s].fields.size() == count, kShape,
             "default_collate: sample {} of the batch has {} fields, but sample 0 has {}", s,
             samples[s].fields.size(), count);
    for (std::size_t f = 0; f < count; ++f) check_field(samples, s, f);
  }
  Batch batch;
  for (std::size_t f = 0; f < count; ++f) {
    const Tensor& first = samples.front().fields[f];
    const Tensor stacked = empty(batch_shape(std::ssize(samples), first.sizes()),
                                 {.dtype = first.dtype(), .pin_memory = options.pin_memory});
    const std::size_t bytes = first.nbytes();
    auto* out = static_cast<std::byte*>(stacked.data_ptr());
    for (std::size_t s = 0; bytes > 0 && s < samples.size(); ++s, out += bytes) {
      std::memcpy(out, samples[s].fields[f].contiguous().data_ptr(), bytes);
    }
    batch.fields.push_back(stacked);
  }
  return batch;
}

}  // namespace dl::data
