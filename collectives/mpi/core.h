// Core: the state of one MPI group: its peers, the running and waiting operations, and the error
// that broke it.
//
// A group has one communicator. A collective begins with one small MPI_Iallgather, in which every
// rank announces what it calls; a small payload is part of it, and then nothing more is needed.
// Other data moves only after all ranks have called the same, with MPI_Ibcast or directly between
// the ranks. For a reduction the ranks exchange unreduced shares, and each rank sums a part of them
// in rank order with dlrun's own kernels. So the result has the same bits on every rank with every
// MPI; half precision is rounded once, and NaN and signed zeros behave as in the other backends. A
// rank sends 2 (p-1)/p of the buffer, as the best algorithms do.
//
// The public half may be called from any thread. Everything under "driver" runs under mutex_ and
// never blocks; a thread that waits drives, otherwise the engine's thread does. Collectives run one
// at a time in the order of their numbers, messages beside them.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <string>

#include "collectives/call/identity.h"
#include "collectives/call/matching.h"
#include "collectives/mpi/engine.h"
#include "collectives/mpi/operation.h"
#include "collectives/record/recorder.h"
#include "collectives/waiting/judge/judge.h"
#include "collectives/waiting/wait_policy.h"
#include "core/base/error.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::mpi {

// MPI's tags. Each of dlrun's messages has one of its own, from kFirstPayloadTag up.
inline constexpr int kDataTag = 0;     // data of the running collective
inline constexpr int kControlTag = 1;  // Core::Control
inline constexpr int kHeaderTag = 2;   // MessageHeader
inline constexpr int kFirstPayloadTag = 3;

// An MPI message holds at most INT_MAX bytes; a larger transfer is several messages, in order.
inline constexpr std::size_t kMostBytes = std::size_t{1} << 30;

class Core final : public RefCounted {
 public:
  using Clock = Deadline::Clock;

  struct Options {
    std::string name = "world";
    WaitPolicy policy{};
    std::shared_ptr<record::Recorder> recorder{};  // null: nothing is recorded
  };
  Core(Engine& engine, Handle comm, std::vector<Identity> ranks, int rank, Options options);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }
  const std::string& name() const noexcept { return options_.name; }
  Engine& engine() noexcept { return engine_; }
  Handle comm() const noexcept { return comm_; }

  std::exception_ptr error() const noexcept;
  void throw_if_broken() const;
  // Numbers the operation and starts it.
  void submit(const Ref<Operation>& operation);
  // Drives until the operation is over. Throws kTimeout at the limit.
  void wait(Operation& operation, std::optional<std::chrono::nanoseconds> limit);
  void abort(std::string_view reason) noexcept;
  // Says goodbye; the engine drops the core later, when no message is under way.
  void leave() noexcept;
  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }

  // For the engine's thread.
  enum class Polled : std::uint8_t { kIdle, kBusy, kMoved, kOver };
  Polled poll() noexcept;

 private:
  struct Peer {
    Identity who;
    std::uint64_t last_called = 0;  // the last sequence number that this rank has heard of
    Clock::time_point last_answer{};
    bool has_left = false;
    std::uint64_t next_number = 0;  // of the messages to it
    std::size_t credit = 0;         // for messages to it that no receive has matched yet
  };
  // A note from one rank to another, apart from operations.
  struct Control {
    enum class Kind : std::uint8_t { kFailed, kAsk, kAnswer, kBye } kind;
    std::uint16_t bytes;  // of `cause`
    std::uint64_t last_called;
    char cause[2032];  // see encode(Cause)
  };
  // dlrun's memory that MPI reads.
  struct Outgoing {
    std::vector<std::byte> memory;
    std::vector<Handle> requests;
    int peer;
    std::size_t credit = 0;  // given back when the requests have ended
  };

  // Driver, all of it.
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  bool is_poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }
  bool has_operations() const noexcept { return !queue_.empty() || !messages_.empty(); }
  bool step();
  void finish(const Ref<Operation>& operation);
  // Removes requests that have ended; true if none is left.
  bool have_ended(std::vector<Handle>& requests);
  void send_parts(std::vector<Handle>& requests, const void* from, std::size_t bytes, int to,
                  int tag, bool is_matched = false);
  void receive_parts(std::vector<Handle>& requests, void* to, std::size_t bytes, int from, int tag);

  // collective.cc
  void announce(Collective& c);
  bool advance_front();
  // Continues after the requests of the previous stage have ended. Returns false if the operation
  // is over.
  bool go_on(Collective& c);
  bool agree(Collective& c);
  void finish_inline(Collective& c);
  void compare_pairs(Collective& c);
  bool start_data(Collective& c);
  void move_parts(Collective& c);
  bool start_slice(Collective& c);
  void combine_slice(Collective& c);
  void spread_slice(Collective& c);
  std::size_t slice_offset(const Collective& c, int rank) const noexcept;

  // messages.cc
  void start_send(const Ref<Message>& message);
  void start_receive(const Ref<Message>& message);
  bool advance_messages();
  bool read_headers();
  // Asks for the data of the message that matched this receive.
  void receive(Message& message, const Envelope& envelope);
  int payload_tag(std::uint64_t number) const noexcept;
  bool advance_outgoing();

  // failure.cc
  // Breaks the group; the first cause counts. `tells`: the other ranks do not know it yet.
  void fail(Cause cause, bool tells = true) noexcept;
  void fail_mismatch(const Descriptor& operation, int rank, std::string text, bool tells = true);
  void tell(int rank, const Control& control);
  bool read_control();
  void on_control(int source);
  void look_at_clocks(Clock::time_point now);
  void look_at_clock(Operation& operation, Clock::time_point now);
  void look_at_leavers();
  Missing missing(const Operation& operation) const;
  // The other ranks, as an operation sees them.
  std::vector<PeerState> others(const Operation& operation) const;
  bool close();
  template <typename F>
  void guarded(const F& run) noexcept {
    try {
      run();
    } catch (const Error&) {
      fail(cause_of(std::current_exception()));
    } catch (const std::exception& error) {
      fail({.text = fmt::format("group '{}': {}", name(), error.what())});
    }
  }

  const ForkMark fork_mark_{};
  Engine& engine_;
  const Module& mpi_;
  const Handle comm_;
  const int rank_;
  const Options options_;
  record::GroupRecorder log_;

  std::atomic<int> waiters_{0};
  // True if the engine's thread is woken with each call: set once it had to take up an operation.
  std::atomic<bool> wakes_at_once_{false};
  std::atomic<bool> poisoned_{false};
  mutable std::mutex error_mutex_;
  std::exception_ptr error_;

  std::mutex mutex_;
  // Driver.
  std::vector<Peer> peers_;
  std::uint64_t next_collective_ = 1;
  std::uint64_t next_message_ = 1;
  std::deque<Ref<Collective>> queue_;  // the front one runs
  std::vector<Ref<Message>> messages_;
  Matching<Message> matching_;
  std::list<Outgoing> outgoing_;
  std::vector<Ref<Operation>> finished_;  // their owners are released on a caller's thread
  Control control_{};
  Handle control_request_ = 0;
  MessageHeader header_{};
  Handle header_request_ = 0;
  bool has_receives_ = false;  // MPI has receives posted for control_ and header_
  std::uint64_t rounds_ = 0;
  Clock::time_point timer_ = Clock::time_point::max();
  bool is_leaving_ = false;
  Clock::time_point leave_by_{};
};

}  // namespace dl::collectives::mpi
