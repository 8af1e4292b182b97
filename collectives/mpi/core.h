// Core: the state of one MPI group: its peers, what runs, what waits, and why it is broken.
//
// A group has one communicator. A collective begins with one small MPI_Iallgather, in which every
// rank says what it calls; small payloads travel along and that is all. Only when all have called
// the same do data move: with MPI_Ibcast, or directly between the ranks. Reductions exchange raw
// shares, and each rank sums a part of them in rank order with dlrun's own kernels; so the result
// has the same bits on every rank, with every MPI and every setting of it, half precision is
// rounded once, and NaN and signed zeros are what they are everywhere else. The bytes on the wire
// are those of the best algorithms: 2 (p-1)/p of the buffer a rank.
//
// The public half may be called from any thread. Everything under "driver" runs under mutex_ and
// never blocks; whoever waits drives, else the engine's thread does. Collectives run one at a time
// in the order of their numbers, messages beside them.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <string>

#include "collectives/identity.h"
#include "collectives/matching.h"
#include "collectives/mpi/engine.h"
#include "collectives/mpi/operation.h"
#include "collectives/record/recorder.h"
#include "collectives/wait_policy.h"
#include "core/base/error.h"
#include "core/base/fork.h"

namespace dl::collectives::mpi {

// Tags of MPI's messages; those of ours have one each, from kFirstPayloadTag up.
inline constexpr int kDataTag = 0;     // of the collective under way
inline constexpr int kControlTag = 1;  // Core::Control
inline constexpr int kHeaderTag = 2;   // MessageHeader
inline constexpr int kFirstPayloadTag = 3;

// A message of MPI holds at most INT_MAX bytes; larger transfers go in several, in order.
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
  // Says goodbye; the engine does the rest and drops the core when no message is under way.
  void leave() noexcept;
  // This process is a forked child of the rank: it has no part in the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }

  // The engine's thread.
  enum class Polled : std::uint8_t { kIdle, kBusy, kMoved, kOver };
  Polled poll() noexcept;

 private:
  struct Peer {
    Identity who;
    std::uint64_t last_called = 0;  // as far as this rank knows
    Clock::time_point last_answer{};
    bool has_left = false;
    std::uint64_t next_number = 0;  // of the messages to it
    std::size_t credit = 0;         // for messages to it that nobody has asked for
  };
  // What one rank tells another beside the operations.
  struct Control {
    enum class Kind : std::uint8_t { kFailed, kAsk, kAnswer, kBye } kind;
    ErrorKind error;
    std::uint16_t bytes;  // of the text
    std::uint64_t last_called;
    char text[1008];
  };
  // Memory of ours that MPI reads.
  struct Outgoing {
    std::vector<std::byte> memory;
    std::vector<Handle> requests;
    int peer;
    std::size_t credit = 0;  // given back at the end
  };

  // Driver, all of it.
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  bool is_poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }
  bool has_operations() const noexcept { return !queue_.empty() || !messages_.empty(); }
  bool step();
  void finish(const Ref<Operation>& operation);
  // Tests what MPI has; true where nothing is left.
  bool have_ended(std::vector<Handle>& requests);
  void send_parts(std::vector<Handle>& requests, const void* from, std::size_t bytes, int to,
                  int tag, bool is_matched = false);
  void receive_parts(std::vector<Handle>& requests, void* to, std::size_t bytes, int from, int tag);

  // collective.cc
  void announce(Collective& c);
  bool advance_front();
  // After what it had started has ended: goes on. False: it is over.
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
  // The message with this envelope is the receive's: asks for its bytes.
  void receive(Message& message, const Envelope& envelope);
  int payload_tag(std::uint64_t number) const noexcept;
  bool advance_outgoing();

  // failure.cc
  void fail(ErrorKind kind, const std::string& text, bool tell) noexcept;
  void tell(int rank, const Control& control);
  bool read_control();
  void on_control(int source);
  void look_at_clocks(Clock::time_point now);
  void look_at_clock(Operation& operation, Clock::time_point now);
  void look_at_leavers();
  std::string missing_text(const Operation& operation) const;
  int missing_rank(const Operation& operation) const;
  bool close();
  template <typename F>
  void guarded(const F& run) noexcept {
    try {
      run();
    } catch (const Error& error) {
      fail(error.kind(), error.what(), true);
    } catch (const std::exception& error) {
      fail(ErrorKind::kInternal, fmt::format("group '{}': {}", name(), error.what()), true);
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
  // Whether the engine's thread is woken with the call: true once it had to take up an operation.
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
  std::vector<Ref<Operation>> finished_;  // whose owners are let go on a caller's thread
  Control control_{};
  Handle control_request_ = 0;
  MessageHeader header_{};
  Handle header_request_ = 0;
  bool has_receives_ = false;  // the two above are MPI's
  std::uint64_t rounds_ = 0;
  Clock::time_point timer_ = Clock::time_point::max();
  bool is_leaving_ = false;
  Clock::time_point leave_by_{};
};

}  // namespace dl::collectives::mpi
