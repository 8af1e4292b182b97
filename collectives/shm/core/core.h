// Core: the state of one shared-memory group: its peers, the running and waiting operations, and
// the error that broke it.
//
// The public half may be called from any thread. Everything under "driver" runs only in the thread
// that holds the driver's role, a flag that threads try and never wait for. Usually the driver is a
// caller that waits for an operation; otherwise it is the progress thread (progress.cc), which
// gives the role back as soon as a caller wants it. Operations run one at a time, in the order of
// their sequence numbers. The driver advances the front one (protocol.h) without blocking, so a
// caller that times out can leave it to another thread. Messages (messages.cc) run beside
// operations, all at once.
//
// The first cause that any rank finds breaks the group. The rank writes the cause into its own
// Block, which the others read, and ends its operations. After that no rank writes into a caller's
// buffer.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/call/identity.h"
#include "collectives/call/matching.h"
#include "collectives/process/at_exit.h"
#include "collectives/record/recorder.h"
#include "collectives/shm/core/message.h"
#include "collectives/shm/core/operation.h"
#include "collectives/shm/layout/layout.h"
#include "collectives/shm/peers/failure.h"
#include "collectives/shm/peers/peers.h"
#include "collectives/shm/protocol/protocol.h"
#include "collectives/shm/segment/links.h"
#include "collectives/shm/segment/memories.h"
#include "collectives/waiting/judge/judge.h"
#include "collectives/waiting/wait_policy.h"
#include "core/base/error.h"
#include "core/base/system/process/fork.h"

namespace dl::collectives::shm {

class Core final : public RefCounted {
 public:
  using Clock = Deadline::Clock;

  struct Options {
    std::string name = "world";
    std::uint64_t generation = 0;
    WaitPolicy policy{};
    bool reports_failures = true;                  // to the agent
    std::shared_ptr<record::Recorder> recorder{};  // null: nothing is recorded
  };
  // Starts the progress thread. stop() must be called before the last Ref is dropped.
  Core(Links links, Options options);
  void stop() noexcept;

  int rank() const noexcept { return peers_.rank(); }
  int size() const noexcept { return peers_.size(); }
  const std::string& name() const noexcept { return options_.name; }
  const Identity& identity(int rank) const noexcept { return peers_[rank].who; }
  const Ref<Memories>& memories() const noexcept { return memories_; }

  // The first cause.
  std::exception_ptr error() const noexcept;
  // True in a forked child of the rank: it is not a member of the group, and every call throws.
  bool is_in_child() const noexcept { return fork_mark_.is_in_child(); }
  std::exception_ptr gone_rank() const;
  void throw_if_broken() const;
  // Converts a tick of the recorder's clock.
  Clock::time_point time_of(std::uint64_t tick) const noexcept { return clock_.time_of(tick); }
  // Numbers the operation and starts it.
  void submit(const Ref<Operation>& operation);
  void submit(const Ref<Message>& message);
  // Drives, or watches others drive, until the operation is over. Throws kTimeout at the limit.
  void wait(Pending& operation, std::optional<std::chrono::nanoseconds> limit);
  void abort(std::string_view reason) noexcept;
  // Breaks the group; the first cause counts. If another rank is to blame, the agent is told, so
  // that it looks for the first cause there. `spared`: see ProcessGroup::fail.
  void fail(Cause cause, std::optional<std::uint64_t> spared = {}) noexcept;
  // How many collectives this rank has called.
  std::uint64_t calls() const noexcept { return peers_.own().called.load(); }
  // Advances what can be advanced without waiting, and makes sure that operations go on even if no
  // thread waits for them.
  void poll() noexcept;
  // Releases owners of operations that are over, on the caller's thread, because owners may run
  // users' code.
  void release_finished();

  // Sends this rank's part of a symmetric memory to all peers. Throws kConnection.
  void pass_memory(std::uint32_t number, int fd);
  PassedMemories& passed_memories() noexcept { return peers_.passed_memories(); }

 private:
  ~Core() override;

  bool has_messages() const noexcept { return messages_waiting_.load() > 0; }
  bool has_operations() const noexcept { return waiting_.load() > 0 || has_messages(); }

  // The driver's role.
  bool take_role() noexcept { return !driving_.exchange(true); }
  void give_role_back();

  // Driver: core.cc. ------------------------------------------------------------------------------
  // Drives until `wanted` is over, or until the deadline; returns true if it is over. Null
  // `wanted`: drives until nothing is left or a caller wants the role.
  bool drive(const Pending* wanted, Deadline until);
  void note_taken_up() noexcept;
  bool step();
  // Runs a step of the driver. An exception breaks the group instead of leaving the driver; then
  // returns true.
  template <typename F>
  bool guarded(const F& work) noexcept;
  bool has_front();  // makes the next operation the front one if there is none
  void begin(Ref<Operation> op) noexcept;  // under submit_mutex_: makes it the front one
  std::uint8_t recorded_path(const Operation& op) const noexcept;
  void finish_front();
  void end(Ref<Operation> op, const std::exception_ptr& error) noexcept;
  // Ends an operation that is no longer counted; its owner is released on a caller's thread.
  void finish(Ref<Pending> over, std::exception_ptr error) noexcept;

  bool sleep(std::chrono::nanoseconds most);
  bool advance(Operation& op);
  void fail_mismatch(const Operation& op);
  void claim(Operation& op);  // any thread, before the operation is queued

  // Driver: true if the front operation waits for a rank that cannot run before this one yields the
  // core. True also without a front operation: it is unknown on which CPU the peer of a message
  // runs.
  bool waits_for_own_cpu() const noexcept;

  // Driver: messages.cc.
  bool advance_messages();
  void take_submitted();
  void start(Ref<Message> message);
  bool send_to(Peer& p);
  bool begin_next_frame(Peer& p);
  void end_frame_to(Peer& p);
  Line& line(const Peer& p) noexcept { return lines_[static_cast<std::size_t>(p.who.rank)]; }
  const Line& line(const Peer& p) const noexcept {
    return lines_[static_cast<std::size_t>(p.who.rank)];
  }
  bool open_ring_to(Peer& p);
  bool receive_from(Peer& p);
  void begin_frame(Peer& p);
  void end_frame(Peer& p);
  bool wants_frames(const Peer& p) const noexcept {
    return matching_.has_posted(p.who.rank) || line(p).wants_frames();
  }
  void settle(Peer& p, const Conversation<Message>::Outcome& outcome);
  void give_back(Peer& p, std::size_t bytes) noexcept;
  void end_message(const Ref<Message>& message);
  void end_messages(const std::exception_ptr& cause) noexcept;
  void look_at_messages(Clock::time_point now);
  // Refuses a call that comes after this rank has said goodbye at its exit.
  [[noreturn]] void throw_left(const Descriptor& called) const;

  // failure.cc
  void end_all() noexcept;  // driver: all that is not spared
  void take_what_has_come() noexcept;
  void hear_of_failures();  // progress thread
  // Driver: the checks of a wait that gets long.
  void look(Clock::time_point now);
  void look_at_peers(Operation& front);
  void look_at_clock(Pending& op, Clock::time_point now);
  Missing missing(const Pending& pending) const;
  // progress.cc
  void run();
  void arm_timer() noexcept;
  // For a process that ends without stop(): lets operations under way finish as long as they make
  // progress, and says goodbye if none is left.
  void leave_at_exit();
  void warn_of_unfinished();  // driver
  // Breaks the group if reading from a peer has found why.
  void fail_if(std::optional<Cause> found) noexcept;
  void wake_thread() noexcept;

  const Options options_;
  const std::uint64_t salt_;
  Peers peers_;
  record::GroupRecorder log_;
  Failure failure_;
  const record::TickTime clock_{};
  // The recorder's numbers for algorithms, by Path.
  std::array<std::uint8_t, kPathCount> path_numbers_{};
  const Ref<Memories> memories_ = make_ref<Memories>();

  std::mutex submit_mutex_;
  std::uint64_t next_sequence_ = 1;
  std::deque<Ref<Operation>> queue_;  // behind the front operation
  std::atomic<int> waiting_{0};       // operations that are not over
  std::uint64_t next_message_ = 1;
  std::vector<Ref<Message>> submitted_;  // messages that the driver has not taken yet
  std::atomic<bool> has_submitted_{false};
  std::atomic<int> messages_waiting_{0};  // messages that are not over
  bool has_left_ = false;                 // said goodbye at exit; under submit_mutex_

  std::atomic<bool> driving_{false};
  std::atomic<int> helpers_{0};   // callers that wait, except one that got the role at once
  std::atomic<int> visitors_{0};  // callers that want to read the driver's fields
  std::atomic<bool> thread_drives_{false};
  // Driver.
  Ref<Operation> front_;
  Protocol protocol_;
  Clock::time_point next_look_{};
  std::vector<Ref<Message>> taken_;      // messages from submitted_ that are being started
  std::vector<Ref<Message>> under_way_;  // messages
  Matching<Message> matching_;
  std::vector<Line> lines_;  // by rank

  std::mutex finished_mutex_;
  std::vector<Ref<Pending>> finished_;  // their owners are released on a caller's thread
  std::atomic<bool> has_finished_{false};

  const ForkMark fork_mark_{};
  UniqueFd event_;  // wakes the progress thread
  UniqueFd timer_;  // wakes the progress thread a little later
  std::atomic<bool> timer_is_armed_{false};
  // True if the progress thread is woken with each call: set when it had to take up an operation
  // late, cleared when a caller came before it.
  std::atomic<bool> wakes_at_once_{false};
  std::atomic<bool> thread_has_moved_{false};
  std::atomic<bool> stopping_{false};
  ParentOnlyFds parent_only_;
  std::thread thread_;
  const AtExit at_exit_{[this] { leave_at_exit(); }};
};

template <typename F>
bool Core::guarded(const F& work) noexcept {
  try {
    return work();
  } catch (const Error&) {
    fail(cause_of(std::current_exception()));
  } catch (const std::exception& error) {
    fail({.text = fmt::format("group '{}': {}", name(), error.what())});
  }
  return true;
}

}  // namespace dl::collectives::shm
