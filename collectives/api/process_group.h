// ProcessGroup: a group of ranks and its collective operations.
//
// Every rank of a group makes the same calls in the same order. Each call takes one options struct,
// starts the operation and returns a Work. The struct holds pointers, counts and dtypes, so any
// tensor library can use a group; tensor_api.h takes dlrun's tensors. Zero elements and groups of
// one rank are allowed. The result of a reduction has the same bits on every rank, and on every run
// with the same shape, plan and nodes.
//
// In place: if input and output have the same shape, `input == output`. Otherwise the smaller
// buffer is this rank's part of the larger one. Any other overlap of an operation's buffers is an
// error.
//
// Errors: each operation ends by its deadline. It fails if a peer dies, a peer runs another
// operation (kMismatch, quoting both sides), the deadline passes, or a rank calls abort(). The
// Error names the operation, its sequence number, the peer and the cause. The group is then broken:
// later calls throw the first cause. The output of a failed operation is undefined.
//
// A rank that hears of a failure first finishes every collective that the finding rank had finished
// (not over MPI). So after one Work has thrown, an earlier one may still run. Its buffers must stay
// valid until it is over: wait for it, or give CallOptions::keep_alive.
//
// Thread-safety: calls from several threads run one after the other, in the order of their arrival.
// This order must be the same on all ranks, so use one thread a group, or one group a thread.
// Groups do not delay each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/api/symmetric_memory.h"
#include "collectives/call/options.h"
#include "collectives/waiting/work.h"
#include "core/base/first_error.h"
#include "core/base/lifetime/ref.h"
#include "core/base/mutex.h"

namespace dl::collectives {

// The color of a rank that joins no new group.
inline constexpr int kNoColor = -1;

struct SplitOptions {
  int color = 0;  // ranks with the same color form a group; kNoColor: this rank joins none
  int key = 0;    // order of the ranks in it; ties by their rank in this group
  // The new group's name, equal on all ranks of one color. Empty: derived from this group's name.
  std::string name{};
  std::optional<std::chrono::nanoseconds> timeout{};  // of its operations; nullopt: this group's
};

struct Call;
struct Identity;
class ProcessGroup;

// Makes a group anew with the ranks that are left (init/init.h, reform()).
class Reformer : public RefCounted {
 public:
  virtual Ref<ProcessGroup> reform(ProcessGroup& group,
                                   std::optional<std::chrono::nanoseconds> timeout) = 0;
};

class ProcessGroup : public RefCounted {
 public:
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  std::string_view name() const noexcept { return name_; }
  // "tcp", "shm", "nccl", ...
  std::string_view backend() const noexcept { return backend_; }
  // Name of the plan that picks algorithms; empty if no plan is used. A result has the same bits in
  // every run with the same plan, shapes, number of ranks and number of nodes.
  std::string_view plan() const noexcept { return plan_; }

  Ref<Work> all_reduce(const AllReduceOptions& options);
  Ref<Work> broadcast(const BroadcastOptions& options);
  Ref<Work> all_gather(const AllGatherOptions& options);
  Ref<Work> reduce_scatter(const ReduceScatterOptions& options);
  Ref<Work> barrier(const BarrierOptions& options = {});
  Ref<Work> send(const SendOptions& options);
  Ref<Work> recv(const RecvOptions& options);
  Ref<Work> reduce(const ReduceOptions& options);
  Ref<Work> gather(const GatherOptions& options);
  Ref<Work> scatter(const ScatterOptions& options);
  Ref<Work> all_to_all(const AllToAllOptions& options);
  Ref<Work> all_gatherv(const AllGathervOptions& options);
  Ref<Work> reduce_scatterv(const ReduceScattervOptions& options);
  Ref<Work> gatherv(const GathervOptions& options);
  Ref<Work> scatterv(const ScattervOptions& options);
  Ref<Work> all_to_allv(const AllToAllvOptions& options);

  // Starts both at once: neither waits for the other.
  Ref<Work> sendrecv(const SendOptions& send, const RecvOptions& recv);
  // Starts all messages at once and returns one Work for all. Messages of different peers or tags
  // may move in any order. Every message is checked before the first one is started.
  Ref<Work> batch(std::span<const PeerMessage> messages);

  // Collective, blocks: divides the ranks of this group into new groups by color. Returns null for
  // kNoColor. A new group has its own connections and sequence numbers. Events in one group do not
  // affect the other, except through the ranks that they share. Throws the errors of all_gather()
  // and those of making the group. If making a group fails on a rank, that rank aborts this group,
  // so that the others learn why. The default throws kNotImplemented.
  virtual Ref<ProcessGroup> split(const SplitOptions& options);

  // Collective, blocks: memory of `bytes`, the same number on all ranks, that the group's ranks
  // share if the backend can. Otherwise it is ordinary memory and why_not() gives the reason
  // (symmetric_memory.h). Throws the errors of all_gather(), kMismatch if `bytes` differ, and kIo
  // on every rank if one rank has too little memory. The group stays usable after these two.
  virtual Ref<SymmetricMemory> allocate_symmetric(std::size_t bytes);
  // Like allocate_symmetric(), but for existing memory, which `owner` keeps alive. It is shared
  // while the result lives. It must be whole pages of private anonymous memory, and no thread may
  // write to it during the call. If one rank's memory is not, no rank's is shared, and why_not()
  // gives the reason.
  virtual Ref<SymmetricMemory> register_symmetric(void* data, std::size_t bytes,
                                                  Ref<RefCounted> owner = {});

  // Breaks the group: every operation that this rank has not completed fails on all ranks with
  // kAborted and `reason`. Collectives that this rank has completed still complete on the other
  // ranks, as after any other failure (not over MPI). Never blocks.
  virtual void abort(std::string_view reason) noexcept = 0;
  // The first cause if the group is broken, else null.
  virtual std::exception_ptr error() const noexcept = 0;
  // For a group whose streams continue after an abort (NCCL): an object that stores the group's
  // first error before they continue, and that outlives the group. Null for other groups: their
  // Work::wait() throws the error.
  virtual Ref<FirstError> background_error() const noexcept { return nullptr; }
  // For groups that are built on this one (hybrid, NCCL, staged). ---------------------------------
  // Starts a call that is already checked (call/checks.h). Uses `call` only until it returns.
  virtual Ref<Work> start(const Call& call) = 0;
  // Starts the calls of a batch or list, and returns one Work for all of them. The default starts
  // receives first, so that arriving messages find their buffers.
  virtual Ref<Work> start_all(std::span<const Call> calls);
  // This rank's number in the job, which may differ from its number in this group.
  virtual int rank_in_job() const noexcept { return rank(); }
  // A rank of this group, as errors name it.
  virtual Identity identity(int rank) const;
  // abort() with a known cause: an error as error() returns it. Collectives with a sequence number
  // up to `completes_until` still complete, because the rank that found the cause has completed
  // them. Nullopt: up to the last one that this rank has completed. If the group is already broken,
  // a second call can lower the number, but not raise it. Backends that end all collectives at a
  // failure ignore the number.
  virtual void fail(const std::exception_ptr& cause,
                    std::optional<std::uint64_t> completes_until) noexcept;
  // The error about a rank whose process has ended without leaving the group; null if none is
  // known. Such an end is noticed even while the group is idle.
  virtual std::exception_ptr gone_rank() const { return nullptr; }
  // Lives as long as the group, so that its end tells other ranks that this one has left. Null: the
  // group cannot be re-formed, or it was.
  void set_reformer(Ref<Reformer> reformer);
  Ref<Reformer> reformer() const;

 protected:
  ProcessGroup(int rank, int size, std::string name, std::string_view backend,
               std::string plan = {})
      : rank_(rank),
        size_(size),
        name_(std::move(name)),
        backend_(backend),
        plan_(std::move(plan)) {}

 private:
  const int rank_;
  const int size_;
  const std::string name_;
  const std::string_view backend_;  // of static memory
  const std::string plan_;
  mutable Mutex reformer_mutex_;
  Ref<Reformer> reformer_ DL_GUARDED_BY(reformer_mutex_);
};

}  // namespace dl::collectives
