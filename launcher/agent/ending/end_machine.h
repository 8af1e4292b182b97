// EndMachine: how a generation ends on one node. The job ends with it unless it restarts. A pure
// state machine, without clocks, processes or connections: it takes events and returns actions, and
// Agent executes them.
//
//   running ──stop()──> stopping ──ranks_ended()──> the nodes agree ──> decided: end or again
//      └────────────ranks_ended()─────────────────────────┘                 │
//                over <── swept <── lingering <── other nodes left (end only) ┘
//                                   (if no stop())
//
// An event that comes late or twice, or that was not expected, does nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace dl::launcher {

class EndMachine {
 public:
  enum class Do : std::uint8_t {
    kSignalRanks,    // send `signal`, and SIGCONT: a stopped process takes no other signal
    kStartGrace,     // call grace_over() when the user's grace time has passed
    kKillRanks,      // SIGKILL
    kWatchKilled,    // call silence_over() some time after SIGKILL
    kWatchSwept,     // the same after a sweep, with a longer time
    kWatchToGiveUp,  // call patience_over() after a still longer time
    kSayDone,        // all ranks of this node have ended well
    kAwaitVerdict,   // call others_agreed() after some time, even without an answer
    kDecide,         // decide between end and restart, then call decided()
    kLeaveOthers,    // no generation follows: leave the other nodes, then call others_left()
    kLinger,         // wait for the processes that the ranks have left behind: call swept() when
                     // none is left, and linger_over() when the user's time has passed
    kSweep,          // end them with SIGTERM, then SIGKILL, and call swept()
    kSweepNow,       // the same, with SIGKILL at once
    kGiveUp,         // end although processes are left
    kOver,           // the generation is over
  };
  struct Action {
    Do what;
    int signal = 0;
    bool operator==(const Action&) const = default;
  };
  using Actions = std::vector<Action>;

  // `has_others`: the job has other nodes, which agree on one verdict.
  explicit EndMachine(bool has_others) : is_agreed_(!has_others), has_left_(!has_others) {}

  // Ends the generation by `signal`. `is_final`: no generation follows, whatever was decided.
  Actions stop(int signal, bool is_final);
  // No rank of this node runs or is being started.
  Actions ranks_ended(bool all_well);
  // All nodes know the verdict, or this node need not wait for it any more.
  Actions others_agreed();
  Actions decided(bool again);
  Actions others_left();
  Actions linger_over();
  Actions swept();
  // The user asks a second time for the end.
  Actions kill_now();
  Actions grace_over();
  Actions silence_over(bool some_are_left);
  Actions patience_over();

  bool is_stopping() const { return is_stopping_; }
  bool is_agreed() const { return is_agreed_; }
  bool begins_again() const { return decision_ == Decision::kAgain; }

 private:
  enum class Decision : std::uint8_t { kNone, kAsked, kEnd, kAgain };

  void advance(Actions& out);
  void sweep(Actions& out);

  bool is_agreed_;
  bool has_left_;  // the other nodes have this node's last message
  bool is_stopping_ = false;
  bool is_final_ = false;  // the job was told to end: no generation follows
  bool have_ranks_ended_ = false;
  bool all_well_ = false;
  bool said_done_ = false;
  bool is_awaiting_verdict_ = false;
  Decision decision_ = Decision::kNone;
  bool is_leaving_ = false;
  bool is_lingering_ = false;
  bool is_sweeping_ = false;
  bool is_swept_ = false;
  bool kills_now_ = false;
  bool said_left_ = false;
  bool is_over_ = false;
};

}  // namespace dl::launcher
