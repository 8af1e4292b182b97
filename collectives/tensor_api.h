// Collectives of Tensors: process_group.h with shapes checked and buffers held.
//
// A tensor's storage is kept until its operation is over, so that a tensor may be dropped as soon
// as the call has returned. Tensors must be contiguous: a copy made here would hide where the
// result goes. What is written into counts as changed in place (autograd notices); gradients do not
// flow through. Thread-safety: process_group.h.
#pragma once

#include "collectives/process_group.h"
#include "core/tensor/tensor.h"

namespace dl::collectives {

struct TensorReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  CallOptions call{};
};
struct TensorRootOptions {
  int root = 0;
  CallOptions call{};
};
struct TensorMessageOptions {
  int peer = 0;
  std::uint32_t tag = 0;
  CallOptions call{};
};

// All throw kInvalidArgument where a tensor is not contiguous, kShape and kDType where two do not
// fit each other, and what the group throws.

// In place.
Ref<Work> all_reduce(ProcessGroup& group, const Tensor& tensor,
                     const TensorReduceOptions& options = {});
Ref<Work> broadcast(ProcessGroup& group, const Tensor& tensor,
                    const TensorRootOptions& options = {});
// output has size times the elements of input, in rank order.
Ref<Work> all_gather(ProcessGroup& group, const Tensor& output, const Tensor& input,
                     const CallOptions& call = {});
// input has size times the elements of output.
Ref<Work> reduce_scatter(ProcessGroup& group, const Tensor& output, const Tensor& input,
                         const TensorReduceOptions& options = {});
Ref<Work> send(ProcessGroup& group, const Tensor& tensor, const TensorMessageOptions& options);
Ref<Work> recv(ProcessGroup& group, const Tensor& tensor, const TensorMessageOptions& options);

}  // namespace dl::collectives
