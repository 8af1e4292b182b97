// Collectives of Tensors: process_group.h with checks of shapes, and with the buffers kept alive.
//
// A tensor's storage is kept until its operation is over, so a tensor may be dropped as soon as the
// call has returned. Tensors must be contiguous: otherwise a hidden copy would receive the result.
// Outputs count as changed in place, which autograd notices. Gradients do not flow through.
// Thread-safety: process_group.h.
#pragma once

#include <span>
#include <variant>

#include "collectives/api/process_group.h"
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
struct TensorRootedReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  CallOptions call{};
};
struct TensorMessageOptions {
  int peer = 0;  // for a receive also kAnySource
  std::uint32_t tag = 0;
  CallOptions call{};
};

// All throw kInvalidArgument if a tensor is not contiguous, and kShape or kDType if two tensors do
// not match. They throw kAborted if a tensor lies in symmetric memory that a failed operation has
// used, and whatever the group throws.

// In place.
Ref<Work> all_reduce(ProcessGroup& group, const Tensor& tensor,
                     const TensorReduceOptions& options = {});
Ref<Work> broadcast(ProcessGroup& group, const Tensor& tensor,
                    const TensorRootOptions& options = {});
// output has `size` times the elements of input, in rank order (`size`: the group's).
Ref<Work> all_gather(ProcessGroup& group, const Tensor& output, const Tensor& input,
                     const CallOptions& call = {});
// input has size times the elements of output.
Ref<Work> reduce_scatter(ProcessGroup& group, const Tensor& output, const Tensor& input,
                         const TensorReduceOptions& options = {});
// The root's tensor holds the result; the others' stay as they are.
Ref<Work> reduce(ProcessGroup& group, const Tensor& tensor,
                 const TensorRootedReduceOptions& options = {});
// output has `size` times the elements of input, in rank order. It may be undefined on ranks other
// than the root.
Ref<Work> gather(ProcessGroup& group, const Tensor& output, const Tensor& input,
                 const TensorRootOptions& options = {});
// input has `size` times the elements of output. It may be undefined on ranks other than the root.
Ref<Work> scatter(ProcessGroup& group, const Tensor& output, const Tensor& input,
                  const TensorRootOptions& options = {});
// Both have the same number of elements, a multiple of `size`. Part i of input goes to rank i, part
// i of output comes from rank i. They may be the same tensor.
Ref<Work> all_to_all(ProcessGroup& group, const Tensor& output, const Tensor& input,
                     const CallOptions& call = {});

// The v-variants: parts of different sizes. Counts are rows (of dimension 0); the other dimensions
// must be the same. Throw kShape if the counts and the tensors do not match.
using Rows = std::span<const std::size_t>;
// output has the sum of `rows`, input has rows[rank].
Ref<Work> all_gatherv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                      const CallOptions& call = {});
// input has the sum of `rows`, output has rows[rank].
Ref<Work> reduce_scatterv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                          const TensorReduceOptions& options = {});
// Only the root gives output and rows.
Ref<Work> gatherv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                  const TensorRootOptions& options = {});
// Only the root gives input and rows.
Ref<Work> scatterv(ProcessGroup& group, const Tensor& output, const Tensor& input, Rows rows,
                   const TensorRootOptions& options = {});
// input has the sum of `send_rows`, output the sum of `receive_rows`.
Ref<Work> all_to_allv(ProcessGroup& group, const Tensor& output, Rows receive_rows,
                      const Tensor& input, Rows send_rows, const CallOptions& call = {});

// A list of tensors as one operation (coalesced.h); all have one dtype. In place.
Ref<Work> all_reduce_coalesced(ProcessGroup& group, std::span<const Tensor> tensors,
                               const TensorReduceOptions& options = {});
// outputs[i] is the all_gather() of inputs[i].
Ref<Work> all_gather_coalesced(ProcessGroup& group, std::span<const Tensor> outputs,
                               std::span<const Tensor> inputs, const CallOptions& call = {});
// outputs[i] is the reduce_scatter() of inputs[i].
Ref<Work> reduce_scatter_coalesced(ProcessGroup& group, std::span<const Tensor> outputs,
                                   std::span<const Tensor> inputs,
                                   const TensorReduceOptions& options = {});

Ref<Work> send(ProcessGroup& group, const Tensor& tensor, const TensorMessageOptions& options);
Ref<Work> recv(ProcessGroup& group, const Tensor& tensor, const TensorMessageOptions& options);
// Starts both at once; neither waits for the other.
Ref<Work> sendrecv(ProcessGroup& group, const Tensor& sent, const TensorMessageOptions& to,
                   const Tensor& received, const TensorMessageOptions& from);

// Starts all messages at once and returns one Work for all. Messages of different peers or tags may
// move in any order. Every message is checked before the first one is started.
struct TensorSend {
  Tensor tensor;
  TensorMessageOptions to{};
};
struct TensorRecv {
  Tensor tensor;
  TensorMessageOptions from{};
};
using TensorMessage = std::variant<TensorSend, TensorRecv>;
Ref<Work> batch(ProcessGroup& group, std::span<const TensorMessage> messages);

}  // namespace dl::collectives

namespace dl {

// Collective: every rank calls it with the same shape and dtype. Returns an uninitialised tensor in
// memory that the group's ranks share if the backend can (collectives/api/symmetric_memory.h);
// all_reduce is fastest on such tensors. With other backends it is an ordinary tensor. Throws what
// ProcessGroup::allocate_symmetric throws.
Tensor symmetric_empty(const Shape& shape, DType dtype, collectives::ProcessGroup& group);
// Collective: shares an existing tensor's memory (ProcessGroup::register_symmetric) while the
// result lives. All ranks' tensors must fill whole pages, as tensors from from_blob may. Otherwise
// the memory is not shared: is_shared() is false, and why_not() gives the reason. The tensor is
// usable either way.
Ref<collectives::SymmetricMemory> register_buffer(const Tensor& tensor,
                                                  collectives::ProcessGroup& group);

}  // namespace dl
