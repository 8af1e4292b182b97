// SyncBatchNorm: BatchNorm with the mean and variance of the samples of all ranks.
//
//     nn::parallel::convert_sync_batchnorm(model, group);  // then DistributedDataParallel
//
// In training, each forward pass gathers counts, means and variances, and each backward pass sums
// two numbers per channel, also within no_sync(). After eval() there is no communication. Ranks may
// have batches of different sizes. Results, gradients and running statistics are those of one
// process with the whole batch, to rounding; running statistics have the same bits on all ranks.
// Every rank must run its forward and backward passes in the same order.
//
// On GPUs the host waits for nothing if each rank has two values a channel or more, so that such a
// step can be captured.
//
// Ownership: layers share the group. Thread-safety: one thread at a time, as for BatchNorm.
#pragma once

#include "collectives/api/process_group.h"
#include "nn/layers/norm.h"

namespace dl::nn::parallel {

// forward() takes and returns [N, C] or [N, C, d...] with C = features.
class SyncBatchNorm : public BatchNorm {
 public:
  // Throws kInvalidArgument for a null group.
  SyncBatchNorm(std::int64_t features, const Ref<collectives::ProcessGroup>& group,
                BatchNormOptions given = {});

 protected:
  void check_input(const Tensor& input) const override;
};

// Turns every BatchNorm in the module into a SyncBatchNorm, as which it then prints. Unlike
// PyTorch's function, it changes the layers in place, so that references to them stay valid. Throws
// kInvalidArgument for a null group.
void convert_sync_batchnorm(Module& module, const Ref<collectives::ProcessGroup>& group);

}  // namespace dl::nn::parallel
