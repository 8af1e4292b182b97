// Options of the collective operations: one struct an operation. Values; the pointers and spans in
// them belong to the caller. process_group.h says what the operations do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "core/base/lifetime/ref.h"
#include "core/device/stream.h"
#include "core/tensor/dtype.h"

namespace dl::collectives {

enum class ReduceOp : std::uint8_t { kSum, kAvg, kMin, kMax, kProd, kBand, kBor, kBxor };

// The order of additions in a reduction. kPlan: the order of the plan's algorithm, which is the
// fastest. kTree: one fixed tree for every number of ranks (reduce.h).
enum class Order : std::uint8_t { kPlan, kTree };

// Options of every call.
struct CallOptions {
  // The operation starts after the work that is queued on this stream. Another stream sees the
  // results after Work::wait(stream).
  Stream stream{};
  std::optional<std::chrono::nanoseconds> timeout{};  // nullopt: the group's
  Order order = Order::kPlan;
  Ref<RefCounted> keep_alive{};  // owner of the buffers, kept until the operation is over
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
  void* buffer = nullptr;  // [count], read on `root`, written on the other ranks
  std::size_t count = 0;
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct AllGatherOptions {
  const void* input = nullptr;  // [count]; in place if it is output + rank * count
  void* output = nullptr;       // [size, count]
  std::size_t count = 0;        // elements a rank
  DType dtype = DType::kF32;
  CallOptions call{};
};

struct ReduceScatterOptions {
  const void* input = nullptr;  // [size, count]
  void* output = nullptr;       // [count]; in place if it is input + rank * count
  std::size_t count = 0;        // elements a rank
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  CallOptions call{};
};

struct ReduceOptions {
  const void* input = nullptr;  // [count]
  void* output = nullptr;       // [count], on `root` only
  std::size_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  CallOptions call{};
};

struct GatherOptions {
  const void* input = nullptr;  // [count]; in place on the root if it is output + rank * count
  void* output = nullptr;       // [size, count], on `root` only
  std::size_t count = 0;        // elements a rank
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct ScatterOptions {
  const void* input = nullptr;  // [size, count], on `root` only
  void* output = nullptr;       // [count]; in place on the root if it is input + rank * count
  std::size_t count = 0;        // elements a rank
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct AllToAllOptions {
  const void* input = nullptr;  // [size, count]: part i goes to rank i
  void* output = nullptr;       // [size, count]: part i comes from rank i; may be input
  std::size_t count = 0;        // elements a pair of ranks
  DType dtype = DType::kF32;
  CallOptions call{};
};

// The v-variants: every rank's part has its own count, and the parts follow each other in rank
// order. The spans of counts are read during the call only. If two ranks give different counts for
// one part, the group breaks with a kMismatch that quotes both numbers. A rank whose own parts have
// already moved gets this error at its next call.

struct AllGathervOptions {
  const void* input = nullptr;            // [counts[rank]]; in place: at its part of output
  void* output = nullptr;                 // [sum of counts]
  std::span<const std::size_t> counts{};  // [size], the same on all ranks
  DType dtype = DType::kF32;
  CallOptions call{};
};

struct ReduceScattervOptions {
  const void* input = nullptr;            // [sum of counts]
  void* output = nullptr;                 // [counts[rank]]; in place: at its part of input
  std::span<const std::size_t> counts{};  // [size], the same on all ranks
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  CallOptions call{};
};

struct GathervOptions {
  const void* input = nullptr;            // [count]; in place on the root: at its part of output
  std::size_t count = 0;                  // this rank's elements
  void* output = nullptr;                 // [sum of counts], on `root` only
  std::span<const std::size_t> counts{};  // [size], on `root` only
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct ScattervOptions {
  const void* input = nullptr;            // [sum of counts], on `root` only
  std::span<const std::size_t> counts{};  // [size], on `root` only
  void* output = nullptr;                 // [count]; in place on the root: at its part of input
  std::size_t count = 0;                  // this rank's elements
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct AllToAllvOptions {
  const void* input = nullptr;                 // [sum of send_counts]
  std::span<const std::size_t> send_counts{};  // [size]: elements to each rank
  void* output = nullptr;  // [sum of receive_counts]; may be input if both counts are equal
  std::span<const std::size_t> receive_counts{};  // [size]: elements from each rank
  DType dtype = DType::kF32;
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

// As `peer` of a receive: it takes the oldest message with its tag from any rank, and
// Work::source() returns that rank.
inline constexpr int kAnySource = -1;

struct RecvOptions {
  void* buffer = nullptr;  // [count]
  std::size_t count = 0;
  DType dtype = DType::kF32;
  int peer = 0;  // or kAnySource
  std::uint32_t tag = 0;
  CallOptions call{};
};

// A message of a batch.
using PeerMessage = std::variant<SendOptions, RecvOptions>;

}  // namespace dl::collectives
