// Core: the state of one TCP group: its peers, what runs, what waits, and why it is broken.
//
// The public half may be called from any thread. Everything under "driver" runs only in whoever
// drives the engine (engine.h) and never blocks. Collectives run one at a time in the order of
// their sequence numbers; point-to-point messages run beside them, on a link of their own, so that
// a message is never stuck behind the data of a collective that this rank has not called yet.
//
// How peers are told apart:
//   left   said goodbye: an error only for an operation that it has not called
//   gone   its links ended without that: an error for every operation that still needs it
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/group_error.h"
#include "collectives/identity.h"
#include "collectives/matching.h"
#include "collectives/record/recorder.h"
#include "collectives/tcp/engine.h"
#include "collectives/tcp/link.h"
#include "collectives/tcp/mesh.h"
#include "collectives/tcp/operation.h"
#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/stopped.h"

namespace dl::collectives::tcp {

// Each side may have this much of small messages on the way to a rank that has not asked for them.
inline constexpr std::size_t kCreditBytes = 1024 * 1024;

struct Peer {
  Identity who;
  // The lanes of collectives' data; a collective's frame number i takes lane i modulo their number.
  // Both are empty for this rank itself.
  std::vector<std::unique_ptr<Link>> data;
  std::unique_ptr<Link> side;  // messages, and all that must get through
  UniqueFd process;            // readable when it has ended; none where it cannot be seen
  bool has_exited = false;

  // Bytes of an element that a read has cut in two.
  std::array<std::byte, sizeof(std::uint64_t)> carry{};
  std::size_t carried = 0;
  bool admitted = false;  // the present data frame was checked
  // Data frames under way, the oldest first, at most one a lane.
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
  std::vector<std::byte> out_payload;  // of the frame that is leaving
  std::size_t bulk_leaving = 0;        // bytes of bulk.front() that are leaving

  // Messages to this peer.
  std::size_t credit = kCreditBytes;
  std::deque<Ref<Message>> unsent;                            // wait for credit, in order
  std::unordered_map<std::uint64_t, Ref<Message>> requested;  // wait for kClear
  std::deque<std::pair<std::uint64_t, Ref<Message>>> bulk;    // cleared
  // Messages from this peer.
  std::unordered_map<std::uint64_t, Ref<Message>> receiving;  // cleared by us
  std::size_t owed_credit = 0;
  Ref<Message> incoming;                    // receiver of the side link's present frame
  std::vector<std::byte> incoming_payload;  // where nobody has asked for it yet
  std::byte* incoming_to = nullptr;
  bool side_begun = false;

  enum class State : std::uint8_t { kHere, kLeft, kGone } state = State::kHere;
  Engine::Clock::time_point ended{};  // when the first of its links ended
  bool has_ended = false;
  bool outlives_link = false;     // its process runs on without one that has ended
  bool is_late = false;           // nothing came since, for long enough
  std::uint64_t last_called = 0;  // as far as this rank knows
  Engine::Clock::time_point last_answer{};
  Engine::Clock::time_point last_heard{};  // bytes of any kind
};

// What is known of a peer that was asked for a sign of life.
enum class Contact : std::uint8_t {
  kAnswers,
  kSlow,    // the question is still on its way, to a host that can be reached
  kSilent,  // it leaves the question unanswered, or its host does
};

class Core final : public RefCounted {
 public:
  // `recorder`: null: nothing is recorded.
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
  // This process is a forked child of the rank: it has no part in the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  std::exception_ptr gone_rank() const;
  // After a mismatch, what this rank has called in that place.
  std::string own_call() const;
  void throw_if_broken() const;
  // throw_if_broken() before a call of `op`. A broken group still takes calls that it spares.
  void throw_if_refused(OpKind op);
  // The last collective that is complete here, and the last one that the broken group spares
  // (ProcessGroup::fail).
  std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  std::uint64_t spared() const noexcept { return spared_until_.load(); }
  // Numbers the operation and hands it to the engine.
  void submit(Engine& engine, const Ref<Operation>& operation, bool drive);
  // Lets go of operations that are over; on the caller's thread, as owners may run users' code.
  void release_finished();
  // False where the peers have not taken everything by the deadline.
  bool wait_until_retired(Deadline deadline);
  // How often a peer has answered, or the group broke; and sleeps until that is another number.
  // False: the deadline passed.
  std::uint64_t news() const;
  bool wait_for_news(std::uint64_t known, Deadline deadline);

  record::GroupRecorder& recorder() noexcept { return recorder_; }

  // Driver. ---------------------------------------------------------------------------------------
  void bind(Engine& engine) noexcept { engine_ = &engine; }
  void attach();
  void start(Ref<Operation> operation);
  void abort(const std::string& reason);
  // Breaks the group with a cause that is known already.
  void break_with(Cause cause, std::optional<std::uint64_t> spared) {
    fail(std::move(cause), -1, spared);
  }
  void retire();
  // As retire(), when the process ends: first lets what is under way come to its end as long as it
  // moves; says nothing if something is left then.
  void leave_at_exit();
  bool is_idle() const noexcept {
    return queue_.empty() && messages_.empty() && heard_.empty() && !is_retiring_;
  }
  bool close_if_retired();
  // Moves what can be moved, a few slices at most; true where something moved.
  bool advance(Engine::Clock::time_point now);
  Engine::Clock::time_point next_timer() const noexcept { return timer_; }
  // For whom an operation waits: "waiting for rank 2 (node1, pid 4711), which has not called it
  // ..."
  // `asked`: ranks that have not answered since then may have called it meanwhile.
  std::string missing_text(const Operation& operation, Engine::Clock::time_point asked = {}) const;
  // Asks all that are here for a sign of life.
  void ask_peers();
  // Whether a rank that is here has given no sign of life since then: it is silent, or the line to
  // it is slow. False if the group is broken.
  bool awaits_signs(Engine::Clock::time_point asked) const;
  // Who has given none since then, though the question has arrived. Empty where the group is
  // broken.
  std::vector<Identity> silent_peers(Engine::Clock::time_point asked) const;
  // All that are here have said since then what they have called last.
  bool have_answered(Engine::Clock::time_point asked) const;
  // When this group's links have last brought something of this rank's process.
  Signs signs_of(const Identity& who) const noexcept;
  // The rank that an operation waits for first; -1: not known.
  int missing_rank(const Operation& operation) const;

 private:
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  bool is_poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }
  // Driver: broken, and every spared collective is over.
  bool is_closed() const noexcept {
    return is_poisoned() && completed_ >= spared_until_.load(std::memory_order_relaxed);
  }
  bool is_other(const Peer& p) const noexcept { return p.who.rank != rank_; }
  void tell_news() noexcept;

  // collective.cc
  // The lane that brings this peer's next data frame.
  Link& incoming_lane(const Peer& p) const noexcept;
  bool advance_data(Peer& p, Engine::Clock::time_point now);
  void load_lanes(Peer& p);
  bool transmit_data(Peer& p);
  bool receive_data(Peer& p);
  // False: not this round. Breaks the group where the frame belongs to another operation.
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
  // Gives a receive what came without its being there.
  void receive(const Ref<Message>& message, const Unexpected& got);
  void begin_side_frame(Peer& p, const FrameHeader& header);
  void end_side_frame(Peer& p, const FrameHeader& header);
  void return_credit(Peer& p, std::size_t bytes);
  void end_message(const Ref<Message>& message);
  void go_on_leaving(Engine::Clock::time_point now, bool moved);
  void push(Peer& p, FrameHeader header, std::vector<std::byte> payload = {});

  // failure.cc
  // Breaks the group and tells the peers; where another rank is to blame the agent hears of it, so
  // that it looks for the first cause there. `told_by`: the rank of this group that found the cause
  // and has told all others; -1: this one. What another found is passed on, as it may have gone
  // before everybody had heard it, and what comes from this rank's end would count instead.
  void fail(Cause cause, int told_by = -1, std::optional<std::uint64_t> spared = {});
  // Breaks the group with what peers have said (heard_).
  void take_news();
  // In a group that is broken already: spares collectives up to this number only.
  void spare_only(std::uint64_t until);
  void tell_abort(const Cause& cause, int told_by);
  // What this rank has called under the number of the operation in which the cause was found.
  std::string call_of(const Cause& cause) const;
  void end_all(const std::exception_ptr& error);
  void leave_out_stops(Engine::Clock::time_point now);
  void look_at_clocks(Engine::Clock::time_point now);
  void look_at_clock(Operation& operation, Engine::Clock::time_point now);
  void on_control(Peer& p, const FrameHeader& header);
  // Another collective goes first.
  bool is_behind(const Operation& operation) const noexcept;
  // Ranks that have left or are gone.
  std::vector<Identity> departed() const;

  // presence.cc
  bool nobody_is_here() const noexcept;
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
  Contact contact_with(const Peer& p, const Questions& questions) const;

  // Throws what broke out of a driver's step into the group instead.
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
  std::vector<std::pair<const char*, std::uint8_t>> algorithms_;  // the recorder's numbers for them
  std::deque<Ref<Collective>> queue_;                             // the front one runs
  std::vector<Ref<Message>> messages_;
  std::deque<Descriptor> past_;  // the last collectives that are over, to quote from
  std::uint64_t last_called_ = 0;
  std::atomic<std::uint64_t> completed_{0};  // the last collective that went well
  // What peers have said of a failure. It breaks the group when all that came before it is taken:
  // what has arrived whole needs nobody any more.
  struct News {
    Cause cause;
    int told_by;
    std::uint64_t spared;
  };
  std::vector<News> heard_;
  Engine::Clock::time_point heard_at_{};
  std::uint64_t next_request_ = 1;
  Matching<Message> matching_;
  Engine::Clock::time_point timer_ = Engine::Clock::time_point::max();
  Engine::Clock::time_point next_silence_look_{};
  Engine::Clock::time_point next_process_look_{};
  Engine::Clock::time_point next_end_look_ = Engine::Clock::time_point::max();
  std::vector<pollfd> process_entries_;                                    // by rank
  std::chrono::nanoseconds stopped_ = stopped_time(Engine::Clock::now());  // as of the last look
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
