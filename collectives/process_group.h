// ProcessGroup: the ranks that talk to each other, and what they can do together.
//
// Every rank of a group makes the same calls in the same order. Each call takes one options struct,
// starts the operation and returns a Work. Pointers, counts and dtypes only: whoever has tensors of
// their own can use this; tensor_api.h takes ours. `input == output` means in place; partly
// overlapping buffers are refused. Zero elements and one rank are ordinary cases. The result of a
// reduction is bitwise the same on every rank, and on every run of the same shape and plan.
//
// Errors: each operation ends by its deadline. A dead peer, a peer that runs another operation
// (kMismatch, both sides are quoted), a passed deadline or abort() end it with an Error that names
// operation, sequence number, peer and cause; the group is then poisoned: every later call throws
// the first cause. The output of an operation that failed is undefined.
//
// Thread-safety: calls from several threads are serialised in the order in which they arrive; since
// that order must be the same on all ranks, use one thread a group, or one group a thread. Groups
// do not delay each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/work.h"
#include "core/base/ref.h"
#include "core/device/stream.h"
#include "core/tensor/dtype.h"

namespace dl::collectives {

enum class ReduceOp : std::uint8_t { kSum, kAvg, kMin, kMax, kProd, kBand, kBor, kBxor };

// Which order of additions a reduction has: the plan's own (the fastest), or one fixed tree for
// every number of ranks.
enum class Order : std::uint8_t { kPlan, kTree };

// What every call may carry.
struct CallOptions {
  Stream stream{};  // buffers are ready on it, results appear on it
  std::optional<std::chrono::nanoseconds> timeout{};  // nullopt: the group's
  Order order = Order::kPlan;
  Ref<RefCounted> holds{};  // owner of the buffers, kept until the operation is over
};

struct AllReduceOptions {
  const void* input = nullptr;  // [count]
  void* output = nullptr;       // [count]
  std::size_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  CallOptions call{};
};

struct BroadcastOptions {
  void* buffer = nullptr;  // [count], read on `root`, written elsewhere
  std::size_t count = 0;
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct AllGatherOptions {
  const void* input = nullptr;  // [count]; in place where it is output + rank * count
  void* output = nullptr;       // [size, count]
  std::size_t count = 0;        // elements a rank
  DType dtype = DType::kF32;
  CallOptions call{};
};

struct ReduceScatterOptions {
  const void* input = nullptr;  // [size, count]
  void* output = nullptr;       // [count]; in place where it is input + rank * count
  std::size_t count = 0;        // elements a rank
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  CallOptions call{};
};

struct BarrierOptions {
  CallOptions call{};
};

struct SendOptions {
  const void* buffer = nullptr;  // [count]
  std::size_t count = 0;
  DType dtype = DType::kF32;
  int peer = 0;
  std::uint32_t tag = 0;
  CallOptions call{};
};

struct RecvOptions {
  void* buffer = nullptr;  // [count]
  std::size_t count = 0;
  DType dtype = DType::kF32;
  int peer = 0;
  std::uint32_t tag = 0;
  CallOptions call{};
};

class ProcessGroup : public RefCounted {
 public:
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string_view name() const noexcept = 0;
  // "tcp", "shm", "nccl", ...
  virtual std::string_view backend() const noexcept = 0;

  virtual Ref<Work> all_reduce(const AllReduceOptions& options) = 0;
  virtual Ref<Work> broadcast(const BroadcastOptions& options) = 0;
  virtual Ref<Work> all_gather(const AllGatherOptions& options) = 0;
  virtual Ref<Work> reduce_scatter(const ReduceScatterOptions& options) = 0;
  virtual Ref<Work> barrier(const BarrierOptions& options = {}) = 0;
  virtual Ref<Work> send(const SendOptions& options) = 0;
  virtual Ref<Work> recv(const RecvOptions& options) = 0;

  // Ends every operation under way on every rank with kAborted and this reason, and poisons the
  // group. Never blocks.
  virtual void abort(std::string_view reason) noexcept = 0;
  // The first cause of a poisoned group, else null.
  virtual std::exception_ptr error() const noexcept = 0;
};

}  // namespace dl::collectives
