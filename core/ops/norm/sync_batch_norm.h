// sync_batch_norm: batch normalisation of a batch that is divided among ranks.
#pragma once

#include "core/base/lifetime/ref.h"
#include "core/ops/norm/norm.h"
#include "core/tensor/tensor.h"

namespace dl {

// Communication between the ranks that share a batch. core/ has no process groups, so nn/parallel
// implements it with one. Both functions are collective: each rank calls them in the same order,
// and they throw what the process group throws.
class BatchRanks : public RefCounted {
 public:
  // Returns the float64 tensors `mine` [n] of all ranks as [ranks, n], in the order of ranks, on
  // the device of `mine`.
  virtual Tensor gather(const Tensor& mine) = 0;
  // Sums a float64 tensor over the ranks, in place.
  virtual void add_up(const Tensor& tensor) = 0;
};

// batch_norm() in training, with the mean and variance of the samples of all ranks:
//   input [N, C, ...], on one kind of device on all ranks; N may differ between ranks, and may be 0
//   weight, bias, running_mean, running_var [C], or undefined
// Returns a tensor of input's shape and dtype. The input's gradient is that of the sum of all
// ranks' losses. The gradients of weight and bias are this rank's part; DistributedDataParallel
// averages them. All ranks update the running statistics in the same way. Collective: every rank
// calls it, and runs its backward pass, in the same order.
// Throws what batch_norm() and `ranks` throw, and kInvalidArgument unless options.training is set.
// On a GPU the host waits for nothing if this rank has two values a channel or more.
Tensor sync_batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias, const Ref<BatchRanks>& ranks,
                       const BatchNormOptions& options);

}  // namespace dl
