// BatchNormPlan: the checks and the memory layout that batch_norm and sync_batch_norm share.
#pragma once

#include "core/args/norm_args.h"
#include "core/ops/layout.h"
#include "core/ops/norm/norm.h"

namespace dl {

// The dtype of the statistics that backward needs.
inline DType stats_dtype(const Tensor& x) {
  return x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
}

struct BatchNormPlan {
  BatchNormArgs args;
  MemoryFormat format = MemoryFormat::kContiguous;    // of the input, the result and the gradients
  MemoryFormat in_torch = MemoryFormat::kContiguous;  // of PyTorch's result

  // Allocates the result or the gradient of an input; `format` is its memory format.
  Tensor empty_result(const Tensor& x) const {
    return empty(x.sizes(), format, {.dtype = x.dtype(), .device = x.device()});
  }
  // Wraps that memory, once filled, as a result with PyTorch's strides.
  Tensor result_over(const Tensor& memory) const {
    return format == MemoryFormat::kChannelsLast ? with_visible_format(memory, in_torch) : memory;
  }
};

// Checks the arguments, and throws what batch_norm() throws (norm.h).
BatchNormPlan plan_batch_norm(const Tensor& input, const Tensor& running_mean,
                              const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                              const BatchNormOptions& options);
// What a kernel of batches that are on one rank gets beside weight and bias.
struct BatchNormInputs {
  BatchNormInputs(const BatchNormPlan& plan, const Tensor& input, const Tensor& mean,
                  const Tensor& variance, const BatchNormOptions& options);
  // Call it once the kernel is started.
  void bump() const;

  Tensor x;
  Tensor stats;
  // Undefined if the kernel needs none: an empty batch leaves them unchanged.
  Tensor running_mean, running_var;
  bool moves = false;  // the running statistics
};

// Throws kShape for a batch of one value per channel, which has no unbiased variance.
void check_enough_to_train(std::int64_t values_a_channel, const Tensor& input);

}  // namespace dl
