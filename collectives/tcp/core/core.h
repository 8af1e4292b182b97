// Core: the state of one TCP group: its peers, the running and waiting operations, and the error
// that broke it.
//
// The public half may be called from any thread. Everything under "driver" runs only in the thread
// that drives the engine (engine.h), and never blocks. Collectives run one at a time in the order
// of their sequence numbers. Point-to-point messages have a link of their own, so that a message
// never waits behind the data of a collective that this rank has not called yet.
//
// States of a peer besides "here":
//   left   said goodbye: an error only for an operation that it has not called
//   gone   its links ended without a goodbye: an error for every operation that still needs it
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/call/matching.h"
#include "collectives/record/recorder.h"
#include "collectives/tcp/core/engine.h"
#include "collectives/tcp/core/operation.h"
#include "collectives/tcp/wire/link.h"
#include "collectives/tcp/wire/mesh.h"
#include "collectives/waiting/judge/judge.h"
#include "collectives/waiting/pending/conversation.h"
#include "collectives/waiting/wait_policy.h"
#include "core/base/error.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::tcp {

// Bytes of small messages that one rank may send to another before the receiver asks for them.
inline constexpr std::size_t kCreditBytes = 1024 * 1024;

// After a link has ended, wait this long for a better explanation (the peer's last words, a
// mismatch on another rank, the end of its process) before the link itself is blamed.
inline constexpr std::chrono::milliseconds kGoneGrace{300};

struct Peer {
  Identity who;
  // The lanes for the data of collectives: frame i of a collective takes lane i modulo their
  // number. `data` and `side` are empty for this rank itself.
  std::vector<std::unique_ptr<Link>> data;
  std::unique_ptr<Link> side;  // messages and control frames
  // A pidfd, readable when the process has ended; empty if this rank cannot see the process.
  UniqueFd process;
  bool has_exited = false;

  // Bytes of an element that is only partly read.
  std::array<std::byte, sizeof(std::uint64_t)> carry{};
  std::size_t carried = 0;
  bool admitted = false;  // the current data frame was checked
  // Data frames being sent, oldest first, at most one a lane.
  struct Leaving {
    Link* lane;
    std::size_t bytes;
  };
  std::deque<Leaving> leaving;

  struct OutFrame {
    FrameHeader header;
    std::vector<std::byte> payload;
  };
  std::deque<OutFrame> out;
  std::vector<std::byte> out_payload;  // of the frame that is being sent
  std::size_t bulk_leaving = 0;        // bytes of messages->cleared() that are being sent

  // For messages: what this rank may send without being asked, and what it has to give back.
  std::size_t credit = kCreditBytes;
  std::size_t owed_credit = 0;
  std::optional<Conversation<Message>> messages;
  std::byte* incoming_to = nullptr;  // the payload of the side link's current frame
  bool side_begun = false;

  using State = PeerState::Presence;
  State state = State::kHere;
  Engine::Clock::time_point ended{};  // when the first of its links ended
  bool has_ended = false;
  bool outlives_link = false;     // its process still runs although a link has ended
  bool is_late = false;           // nothing was received for kGoneGrace after its link ended
  std::uint64_t last_called = 0;  // the last sequence number that this rank has heard of
  Engine::Clock::time_point last_answer{};
  Engine::Clock::time_point last_heard{};  // last time that any bytes came
};

class Core final : public RefCounted {
 public:
  // `recorder`: null if nothing is recorded.
  Core(Mesh mesh, std::string name, std::uint64_t generation, WaitPolicy policy,
       const std::shared_ptr<record::Recorder>& recorder, bool reports_failures = true);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }
  const std::string& name() const noexcept { return name_; }
  const WaitPolicy& wait_policy() const noexcept { return policy_; }
  const Identity& identity(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)].who;
  }

  std::exception_ptr error() const noexcept;
  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  std::exception_ptr gone_rank() const;
  // After a mismatch: the operation that this rank has called under that sequence number.
  std::string own_call() const;
  void throw_if_broken() const;
  // throw_if_broken() before a call; a broken group still accepts the calls that it spares. After a
  // mismatch it reports the refused call.
  void throw_if_refused(const Descriptor& called);
  // The last collective that is complete on this rank, and the last one that the broken group still
  // completes ("spares", ProcessGroup::fail).
  std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  std::uint64_t spared() const noexcept { return spared_until_.load(); }
  // Numbers the operation and hands it to the engine.
  void submit(Engine& engine, const Ref<Operation>& operation, bool drive);
  // Releases operations that are over, on the caller's thread, because owners may run users' code.
  void release_finished();
  // Returns false if the peers have not taken everything by the deadline.
  bool wait_until_retired(Deadline deadline);
  // news() counts the peers' answers and the break of the group. wait_for_news() sleeps until the
  // count differs from `known`, and returns false if the deadline passes first.
  std::uint64_t news() const;
  bool wait_for_news(std::uint64_t known, Deadline deadline);

  record::GroupRecorder& recorder() noexcept { return recorder_; }

  // Driver. ---------------------------------------------------------------------------------------
  void bind(Engine& engine) noexcept { engine_ = &engine; }
  void attach();
  void start(Ref<Operation> operation);
  void abort(const std::string& reason);
  // Breaks the group with a known cause.
  void break_with(Cause cause, std::optional<std::uint64_t> spared) {
    fail(std::move(cause), -1, spared);
  }
  void retire();
  // retire() for the end of the process: first lets operations under way finish as long as they
  // make progress. Sends no goodbye if some are still unfinished then.
  void leave_at_exit();
  bool is_idle() const noexcept {
    return queue_.empty() && messages_.empty() && heard_.empty() && !is_retiring_;
  }
  bool close_if_retired();
  // Moves a few slices at most, without blocking; true if any moved.
  bool advance(Engine::Clock::time_point now);
  Engine::Clock::time_point next_timer() const noexcept { return timer_; }
  // `asked`: when the probes were sent; a rank that has not answered since may have called the
  // operation meanwhile.
  Missing missing(const Operation& operation, Engine::Clock::time_point asked = {}) const;
  // Sends a probe to every peer that is here.
  void ask_peers();
  // True while a rank that is here has given no sign of life since `asked`: it is silent, or its
  // link is slow. False if the group is broken.
  bool awaits_signs(Engine::Clock::time_point asked) const;
  // Peers that have received the probe and have given no sign of life since `asked`. Empty if the
  // group is broken.
  std::vector<Identity> silent_peers(Engine::Clock::time_point asked) const;
  // True if all peers that are here have told their last called operation since `asked`.
  bool have_answered(Engine::Clock::time_point asked) const;
  // When this group's links last received anything from this rank's process.
  Signs signs_of(const Identity& who) const noexcept;

 private:
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  bool is_poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }
  // Driver: true if the group is broken and every spared collective is over.
  bool is_closed() const noexcept {
    return is_poisoned() && completed_ >= spared_until_.load(std::memory_order_relaxed);
  }
  // False for all peers once this rank has closed its links to them.
  bool is_other(const Peer& p) const noexcept { return p.who.rank != rank_ && p.side; }
  void tell_news() noexcept;

  // collective.cc
  // The lane on which this peer's next data frame arrives.
  Link& incoming_lane(const Peer& p) const noexcept;
  bool advance_data(Peer& p, Engine::Clock::time_point now);
  void load_lanes(Peer& p);
  bool transmit_data(Peer& p);
  bool receive_data(Peer& p);
  // Returns false if the frame must wait. Breaks the group if the frame belongs to another
  // operation.
  bool admit(Peer& p, const FrameHeader& header);
  bool apply(Peer& p, Link& lane, const FrameHeader& header);
  void finish_front();
  void record_start(Operation& operation);
  const Descriptor* find_past(std::uint64_t sequence) const noexcept;

  // messages.cc
  bool advance_side(Peer& p, Engine::Clock::time_point now);
  bool transmit_side(Peer& p);
  bool receive_side(Peer& p);
  void start_message(Ref<Message> message);
  void advance_sends(Peer& p);
  void settle(Peer& p, const Conversation<Message>::Outcome& outcome);
  void begin_side_frame(Peer& p, const FrameHeader& header);
  void end_side_frame(Peer& p, const FrameHeader& header);
  void return_credit(Peer& p, std::size_t bytes);
  void end_message(const Ref<Message>& message);
  void go_on_leaving(Engine::Clock::time_point now, bool moved);
  void push(Peer& p, FrameHeader header, std::vector<std::byte> payload = {});

  // failure.cc
  // Breaks the group and tells the peers. If another rank is to blame, the agent is told as well,
  // so that it looks for the first cause there. `told_by` is the rank of this group that found the
  // cause and told it to all; -1 means this rank. A cause found by another rank is passed on: that
  // rank may have exited before all had heard it, and then this rank's own exit would be taken for
  // the cause.
  void fail(Cause cause, int told_by = -1, std::optional<std::uint64_t> spared = {});
  // Breaks the group with the cause that peers have reported (heard_).
  void take_news();
  // In a broken group: spares collectives up to this number only.
  void spare_only(std::uint64_t until);
  void tell_abort(const Cause& cause, int told_by);
  // The operation that this rank has called under the sequence number of the cause.
  std::string call_of(const Cause& cause) const;
  void end_all(const std::exception_ptr& error);
  void look_at_clocks(Engine::Clock::time_point now);
  void look_at_clock(Operation& operation, Engine::Clock::time_point now);
  void on_control(Peer& p, const FrameHeader& header);
  // The other ranks, as an operation sees them.
  std::vector<PeerState> others(const Operation& operation, Engine::Clock::time_point asked) const;

  // presence.cc
  bool are_all_gone() const noexcept;
  void look_for_silence(Engine::Clock::time_point now);
  void look_at_processes(Engine::Clock::time_point now);
  void look_at_ended_peers(Engine::Clock::time_point now);
  static bool have_links_ended(const Peer& p) noexcept;
  bool is_surely_gone(Peer& p) noexcept;
  bool is_cut(const Peer& p) const;
  void fail_gone(const Peer& p, const Operation& operation);
  std::string text_of_gone(const Peer& p) const;
  Blame blame_of_gone(const Peer& p) const;
  const Link& ended_link(const Peer& p) const;
  Contact contact_with(const Peer& p, Engine::Clock::time_point asked) const;
  Contact contact_with(const Peer& p, const ProbeSchedule& probes) const;

  // Runs a step of the driver; an exception breaks the group instead of leaving the driver.
  template <typename F>
  void guarded(const F& step) noexcept;

  const int rank_;
  const std::string name_;
  const std::uint64_t salt_;
  const WaitPolicy policy_;
  const bool reports_failures_;
  const ForkMark fork_mark_{};
  ParentOnlyFds parent_only_;
  record::GroupRecorder recorder_;
  std::vector<Peer> peers_;
  Engine* engine_ = nullptr;

  std::mutex submit_mutex_;
  std::uint64_t next_collective_ = 1;
  std::uint64_t next_message_ = 1;

  mutable std::mutex error_mutex_;
  std::exception_ptr error_;
  std::exception_ptr gone_rank_;
  std::string own_call_;
  std::atomic<bool> poisoned_{false};
  std::atomic<std::uint64_t> spared_until_{0};  // written before poisoned_

  std::mutex finished_mutex_;
  std::vector<Ref<Operation>> finished_;

  // Driver.
  std::vector<std::pair<const char*, std::uint8_t>> algorithms_;  // their numbers in the recorder
  std::deque<Ref<Collective>> queue_;                             // the front one runs
  std::vector<Ref<Message>> messages_;
  std::deque<Descriptor> past_;  // the last completed collectives, quoted in mismatch errors
  std::uint64_t last_called_ = 0;
  std::atomic<std::uint64_t> completed_{0};  // the last collective that succeeded
  // A failure that peers have reported. It breaks the group after everything that came before it is
  // read: an operation whose data has all arrived can still complete.
  struct News {
    Cause cause;
    int told_by;
    std::uint64_t spared;
  };
  std::vector<News> heard_;
  Engine::Clock::time_point heard_at_{};
  Matching<Message> matching_;
  Engine::Clock::time_point timer_ = Engine::Clock::time_point::max();
  Engine::Clock::time_point next_silence_look_{};
  Engine::Clock::time_point next_process_look_{};
  Engine::Clock::time_point next_end_look_ = Engine::Clock::time_point::max();
  std::vector<pollfd> process_entries_;  // by rank
  bool is_leaving_ = false;
  Engine::Clock::time_point leave_begin_{};
  Engine::Clock::time_point last_move_{};
  bool is_retiring_ = false;
  Engine::Clock::time_point retire_by_{};

  mutable std::mutex news_mutex_;
  std::condition_variable news_changed_;
  std::uint64_t news_ = 0;
  bool retired_ = false;
};

template <typename F>
void Core::guarded(const F& step) noexcept {
  try {
    step();
  } catch (const Error&) {
    fail(cause_of(std::current_exception()));
  } catch (const std::exception& error) {
    fail({.text = fmt::format("group '{}': {}", name_, error.what())});
  }
}

}  // namespace dl::collectives::tcp
