// ProcessGroup: a group of ranks and its collective operations.
//
// Every rank of a group makes the same calls in the same order. Each call takes one options struct,
// starts the operation and returns a Work. It takes pointers, counts and dtypes only, so it works
// with any tensor library; tensor_api.h takes dlrun's tensors. `input == output` means in place;
// partly overlapping buffers are refused. Zero elements and one rank are ordinary cases. The result
// of a reduction has the same bits on every rank, and on every run with the same shape and plan.
//
// Errors: each operation ends by its deadline. A dead peer, a peer that runs another operation
// (kMismatch, quoting both sides), a passed deadline or abort() end it with an Error that names
// operation, sequence number, peer and cause. The group is then poisoned: every later call throws
// the first cause. A rank that hears of a failure still completes the collectives that are complete
// on the rank that found it. The output of a failed operation is undefined.
//
// Thread-safety: calls from several threads are serialised in the order of their arrival. This
// order must be the same on all ranks, so use one thread a group, or one group a thread. Groups do
// not delay each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collectives/api/symmetric_memory.h"
#include "collectives/waiting/work.h"
#include "core/base/first_error.h"
#include "core/base/lifetime/ref.h"
#include "core/device/stream.h"
#include "core/tensor/dtype.h"

namespace dl::collectives {

enum class ReduceOp : std::uint8_t { kSum, kAvg, kMin, kMax, kProd, kBand, kBor, kBxor };

// The order of additions in a reduction: the plan's own (the fastest), or one fixed tree for every
// number of ranks.
enum class Order : std::uint8_t { kPlan, kTree };

// Options of every call.
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

// The v-variants: every rank's part has its own count, and the parts are in rank order, one behind
// the other. Spans are read during the call only. If two ranks give different counts for one part,
// both get kMismatch with both numbers.

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

// A receive takes the oldest message with its tag from any rank; Work::source() tells which.
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

// The color of a rank that joins none of the new groups.
inline constexpr int kNoColor = -1;

struct SplitOptions {
  int color = 0;  // ranks with the same color form a group; kNoColor: this rank joins none
  int key = 0;    // order of the ranks in it; ties by their rank in this group
  // The new group's name, the same for one color; empty: derived from this group's.
  std::string name{};
  std::optional<std::chrono::nanoseconds> timeout{};  // of its operations; nullopt: this group's
};

class ProcessGroup : public RefCounted {
 public:
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string_view name() const noexcept = 0;
  // "tcp", "shm", "nccl", ...
  virtual std::string_view backend() const noexcept = 0;
  // Name of the plan that picks algorithms; empty if there is nothing to pick. With the same plan,
  // shapes and ranks a result has the same bits.
  virtual std::string_view plan() const noexcept { return {}; }

  virtual Ref<Work> all_reduce(const AllReduceOptions& options) = 0;
  virtual Ref<Work> broadcast(const BroadcastOptions& options) = 0;
  virtual Ref<Work> all_gather(const AllGatherOptions& options) = 0;
  virtual Ref<Work> reduce_scatter(const ReduceScatterOptions& options) = 0;
  virtual Ref<Work> barrier(const BarrierOptions& options = {}) = 0;
  virtual Ref<Work> send(const SendOptions& options) = 0;
  virtual Ref<Work> recv(const RecvOptions& options) = 0;

  // A backend that lacks one of these throws kNotImplemented with its name.
  virtual Ref<Work> reduce(const ReduceOptions& options);
  virtual Ref<Work> gather(const GatherOptions& options);
  virtual Ref<Work> scatter(const ScatterOptions& options);
  virtual Ref<Work> all_to_all(const AllToAllOptions& options);
  virtual Ref<Work> all_gatherv(const AllGathervOptions& options);
  virtual Ref<Work> reduce_scatterv(const ReduceScattervOptions& options);
  virtual Ref<Work> gatherv(const GathervOptions& options);
  virtual Ref<Work> scatterv(const ScattervOptions& options);
  virtual Ref<Work> all_to_allv(const AllToAllvOptions& options);

  // Starts both at once: neither waits for the other.
  Ref<Work> sendrecv(const SendOptions& send, const RecvOptions& recv);
  // Starts all at once, in any order among different peers and tags; returns one Work for all.
  // Every message is checked before the first is started.
  virtual Ref<Work> batch(std::span<const PeerMessage> messages);
  // Several reductions as one operation if the backend supports it, else one by one; returns one
  // Work for all. `call` is for the one operation; the parts' own CallOptions are not used.
  virtual Ref<Work> all_reduce_list(std::span<const AllReduceOptions> parts,
                                    const CallOptions& call);

  // Collective, blocks: divides the ranks of this group into new groups by color; returns null for
  // kNoColor. A new group has its own connections and numbers: events in one group do not affect
  // the other, except through the ranks they share. Throws what all_gather and making a group
  // throw. If making a group fails on a rank, it aborts this group, so that the others learn why.
  virtual Ref<ProcessGroup> split(const SplitOptions& options);

  // Collective, blocks: memory of `bytes`, the same number on all ranks, that the group's ranks
  // share if the backend can. If not, it is ordinary memory and why_not() says why
  // (symmetric_memory.h). Throws what all_gather throws, kMismatch if `bytes` differ, and kIo on
  // every rank if one has no memory; after the latter two the group stays usable.
  virtual Ref<SymmetricMemory> allocate_symmetric(std::size_t bytes);
  // allocate_symmetric() for existing memory of `owner`, shared while the result lives. It must be
  // whole pages of private anonymous memory, to which no thread writes during the call. If some
  // rank's is not, all ranks treat it like any other memory and why_not() says why.
  virtual Ref<SymmetricMemory> register_symmetric(void* data, std::size_t bytes,
                                                  Ref<RefCounted> owner = {});

  // Ends every operation that is not over on this rank with kAborted and this reason, on every
  // rank, and poisons the group. Collectives that this rank has completed still complete on the
  // other ranks, as after any other failure. Never blocks.
  virtual void abort(std::string_view reason) noexcept = 0;
  // The first cause of a poisoned group, else null.
  virtual std::exception_ptr error() const noexcept = 0;
  // For groups (NCCL) that release streams after an operation is aborted: it gets the group's error
  // before the streams continue, and keeps it after the group is destroyed. Null if waits throw the
  // error.
  virtual Ref<FirstError> background_error() const noexcept { return nullptr; }
  // For groups that contain this one. -------------------------------------------------------------
  // This rank's number in the job, which may differ from its number in this group.
  virtual int rank_in_job() const noexcept { return rank(); }
  // abort() with a known cause: an error as error() returns it. `spared`: collectives up to this
  // number go on, because they are complete on the rank that found the cause and need nothing more
  // from it; null: those that this rank has completed. In a broken group it can only lower the
  // number. Backends that cannot spare any ignore it.
  virtual void fail(const std::exception_ptr& cause, std::optional<std::uint64_t> spared) noexcept;
  // A rank whose process has ended without leaving the group, as an error; null if none is known.
  // It is noticed even while the group is idle.
  virtual std::exception_ptr gone_rank() const { return nullptr; }

 protected:
  // A batch of checked messages, started one by one.
  Ref<Work> start_each(std::span<const PeerMessage> messages);
};

}  // namespace dl::collectives
