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
// the first cause. A rank that hears of a failure still completes the collectives that are complete
// on the rank that found it. The output of an operation that failed is undefined.
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
#include <variant>
#include <vector>

#include "collectives/symmetric_memory.h"
#include "collectives/work.h"
#include "core/base/first_error.h"
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
  const void* input = nullptr;  // [count]; in place on the root where it is output + rank * count
  void* output = nullptr;       // [size, count], on `root` only
  std::size_t count = 0;        // elements a rank
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct ScatterOptions {
  const void* input = nullptr;  // [size, count], on `root` only
  void* output = nullptr;       // [count]; in place on the root where it is input + rank * count
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

// The v-variants: every rank's part has a count of its own, and the parts stand one behind the
// other in rank order. Spans are read during the call only. Where two ranks give different counts
// for one part, both get kMismatch with both numbers.

struct AllGathervOptions {
  const void* input = nullptr;            // [counts[rank]]; in place at its place in output
  void* output = nullptr;                 // [sum of counts]
  std::span<const std::size_t> counts{};  // [size], the same on all ranks
  DType dtype = DType::kF32;
  CallOptions call{};
};

struct ReduceScattervOptions {
  const void* input = nullptr;            // [sum of counts]
  void* output = nullptr;                 // [counts[rank]]; in place at its place in input
  std::span<const std::size_t> counts{};  // [size], the same on all ranks
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  CallOptions call{};
};

struct GathervOptions {
  const void* input = nullptr;            // [count]; in place on the root at its place in output
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
  void* output = nullptr;                 // [count]; in place on the root at its place in input
  std::size_t count = 0;                  // this rank's elements
  DType dtype = DType::kF32;
  int root = 0;
  CallOptions call{};
};

struct AllToAllvOptions {
  const void* input = nullptr;                    // [sum of send_counts]
  std::span<const std::size_t> send_counts{};     // [size]: elements to each rank
  void* output = nullptr;                         // [sum of receive_counts]; may be input where
                                                  // both counts are equal
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

// A receive takes the oldest message with its tag from whatever rank; Work::source() says which.
inline constexpr int kAnySource = -1;

struct RecvOptions {
  void* buffer = nullptr;  // [count]
  std::size_t count = 0;
  DType dtype = DType::kF32;
  int peer = 0;  // or kAnySource
  std::uint32_t tag = 0;
  CallOptions call{};
};

// One of a batch.
using PeerMessage = std::variant<SendOptions, RecvOptions>;

// The color of a rank that joins none of the new groups.
inline constexpr int kNoColor = -1;

struct SplitOptions {
  int color = 0;       // ranks with one color make a group; kNoColor: this rank joins none
  int key = 0;         // order of the ranks in it; ties by their rank here
  std::string name{};  // of the new group, the same for one color; empty: made from this group's
  std::optional<std::chrono::nanoseconds> timeout{};  // of its operations; nullopt: as here
};

class ProcessGroup : public RefCounted {
 public:
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string_view name() const noexcept = 0;
  // "tcp", "shm", "nccl", ...
  virtual std::string_view backend() const noexcept = 0;
  // Name of the plan that picks algorithms; empty where there is nothing to pick. With the same
  // plan, shapes and ranks a result has the same bits.
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

  // Both at once: the send does not wait for the receive, nor the receive for the send.
  Ref<Work> sendrecv(const SendOptions& send, const RecvOptions& recv);
  // All at once, in any order among different peers and tags; one Work for all. Every message is
  // checked before the first is started.
  virtual Ref<Work> batch(std::span<const PeerMessage> messages);
  // Several reductions as one operation where the backend can, one by one where it cannot; one Work
  // for all. `call` is the one operation's; the parts' own are not used.
  virtual Ref<Work> all_reduce_list(std::span<const AllReduceOptions> parts,
                                    const CallOptions& call);

  // Collective, blocks: the ranks of this group part into new ones by color. Null for kNoColor. A
  // new group has connections and numbers of its own: what happens to one group does not touch the
  // other, but for the ranks they share. Throws what all_gather and making a group throw; a rank on
  // which the making fails ends this group, so that the others learn why.
  virtual Ref<ProcessGroup> split(const SplitOptions& options);

  // Collective, blocks: memory of `bytes`, the same number on all ranks, that the group's ranks
  // share where the backend can; where it cannot, ordinary memory that says why
  // (symmetric_memory.h). Throws what all_gather throws, kMismatch where the numbers differ, kIo on
  // every rank where one has no memory; after those two the group stays good.
  virtual Ref<SymmetricMemory> allocate_symmetric(std::size_t bytes);
  // The same of memory that exists and is `owner`'s: shared while the result lives. It must be
  // whole pages of private anonymous memory, to which nobody writes during the call; where that
  // does not hold on some rank, all go on as with any pointer, and why_not() says why.
  virtual Ref<SymmetricMemory> register_symmetric(void* data, std::size_t bytes,
                                                  Ref<RefCounted> owner = {});

  // Ends with kAborted and this reason, on every rank, every operation that is not over on this
  // one, and poisons the group. Collectives that this rank has completed go on elsewhere, as after
  // every other failure. Never blocks.
  virtual void abort(std::string_view reason) noexcept = 0;
  // The first cause of a poisoned group, else null.
  virtual std::exception_ptr error() const noexcept = 0;
  // Where streams go on behind an operation that was ended under way (NCCL's): has the group's
  // error before they do, and still has it when the group is gone. Null where waits throw.
  virtual Ref<FirstError> background_error() const noexcept { return nullptr; }
  // For groups that stand on this one. -----------------------------------------------------------
  // This rank's number in the job, whatever this group numbers it.
  virtual int rank_in_job() const noexcept { return rank(); }
  // Like abort(), with a cause that is known already: an error as error() gives it.
  // `spared`: collectives up to this number go on, as they are complete on the rank that found the
  // cause and need nothing more from it; null: those that this rank has completed. In a group that
  // is broken already it may only lower the number. Backends that cannot spare any ignore it.
  virtual void fail(const std::exception_ptr& cause, std::optional<std::uint64_t> spared) noexcept;
  // A rank whose process has ended without leaving the group, as the error that it is; null where
  // none is known. It is noticed though this group has nothing under way.
  virtual std::exception_ptr gone_rank() const { return nullptr; }

 protected:
  // A batch whose messages have been checked, message by message.
  Ref<Work> start_each(std::span<const PeerMessage> messages);
};

}  // namespace dl::collectives
