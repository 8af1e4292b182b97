// Reductions beyond ReduceOp. They are built from a group's own operations, so every backend has
// them.
//
//   premultiplied  each rank's input times a factor of its own, then the group's sum or average
//   user-defined   any associative function of elements of any size
//
// A user's function runs in the thread that waits (finishing_work.h), never in the progress thread.
// All ranks receive the unreduced shares of all ranks and fold them from rank 0 upwards. So the
// result has the same bits on every rank if the function is deterministic. This takes `size` times
// the bytes of a sum, in memory and on the wire. Thread-safety: process_group.h.
#pragma once

#include <cstddef>
#include <functional>

#include "collectives/api/process_group.h"

namespace dl::collectives {

// For floating dtypes. The product is rounded to the dtype before it is summed, as in NCCL. Throw
// kDType for other dtypes, and what the group throws. May be in place, as the group's operation.
Ref<Work> premul_all_reduce(ProcessGroup& group, const AllReduceOptions& options, double factor);
Ref<Work> premul_reduce(ProcessGroup& group, const ReduceOptions& options, double factor);
Ref<Work> premul_reduce_scatter(ProcessGroup& group, const ReduceScatterOptions& options,
                                double factor);

// inout[i] = inout[i] op in[i] for `count` elements; `in` is the higher rank's operand.
using ReduceFunction = std::function<void(const void* in, void* inout, std::size_t count)>;

struct UserReduceOptions {
  const void* input = nullptr;  // [count]; reduce_scatter: [size, count]
  void* output = nullptr;       // [count]; may be input; reduce: on the root only
  std::size_t count = 0;        // reduce_scatter: elements a rank
  std::size_t element_bytes = 0;
  ReduceFunction function{};
  CallOptions call{};
};
// Throw kInvalidArgument for elements of zero bytes or a missing function, kNotImplemented for GPU
// memory. wait() throws what the function throws; the group stays usable.
Ref<Work> user_all_reduce(ProcessGroup& group, const UserReduceOptions& options);
Ref<Work> user_reduce(ProcessGroup& group, const UserReduceOptions& options, int root);
Ref<Work> user_reduce_scatter(ProcessGroup& group, const UserReduceOptions& options);

}  // namespace dl::collectives
