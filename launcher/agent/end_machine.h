// How a generation ends on one node, and the job with it unless it begins again: events in, actions
// out. A pure state machine, without clocks, processes or connections; Agent does what it says.
//
//   running ──stop()──> stopping ──ranks_ended()──> the nodes agree ──> decided: end or again
//      └────────────ranks_ended()─────────────────────────┘                 │
//                            over <── swept <── other nodes left (end only) ┘
//
// An event that comes late, twice or for nothing does nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace dl::launcher {

class EndMachine {
 public:
  enum class Do : std::uint8_t {
    kSignalRanks,     // send `signal`, and SIGCONT: a stopped process takes no other signal
    kStartGrace,      // grace_over() when the user's grace time has passed
    kKillRanks,       // SIGKILL
    kWatchKilled,     // silence_over() if something is there some time after SIGKILL
    kWatchSwept,      // the same after a sweep, which may take longer
    kWatchToGiveUp,   // patience_over() after a longer time
    kSayDone,         // all ranks of this node have ended well
    kAwaitVerdict,    // others_agreed() in a while, also without their word
    kDecide,          // end or begin again? decided()
    kLeaveOthers,     // no generation follows: take leave of the other nodes, then others_left()
    kSweepPatiently,  // end what the ranks have left behind, then swept(); it has time to end
    kSweep,           // the same, with SIGTERM first
    kSweepNow,        // the same, with SIGKILL
    kGiveUp,          // end although processes are left
    kOver,            // the generation is over
  };
  struct Action {
    Do what;
    int signal = 0;
    bool operator==(const Action&) const = default;
  };
  using Actions = std::vector<Action>;

  // `has_others`: the job has other nodes, which agree on one verdict.
  explicit EndMachine(bool has_others) : agreed_(!has_others), left_(!has_others) {}

  // The generation is to end, by `signal`. `is_final`: no other one begins, whatever was decided.
  Actions stop(int signal, bool is_final);
  // No rank runs on this node or is being started.
  Actions ranks_ended(bool all_well);
  // All nodes know the verdict, or this one need not wait for it any more.
  Actions others_agreed();
  Actions decided(bool again);
  Actions others_left();
  Actions swept();
  // A person asks once more for the end.
  Actions hurry();
  Actions grace_over();
  Actions silence_over(bool some_are_left);
  Actions patience_over();

  bool is_stopping() const { return stopping_; }
  bool is_agreed() const { return agreed_; }
  bool begins_again() const { return decision_ == Decision::kAgain; }

 private:
  enum class Decision : std::uint8_t { kNone, kAsked, kEnd, kAgain };

  void advance(Actions& out);

  bool agreed_;
  bool left_;  // the other nodes have heard this node's last word
  bool stopping_ = false;
  bool is_final_ = false;  // the job was told to end: no generation follows
  bool ended_ = false;     // the ranks
  bool all_well_ = false;
  bool said_done_ = false;
  bool awaits_ = false;
  Decision decision_ = Decision::kNone;
  bool leaves_ = false;
  bool sweeps_ = false;
  bool swept_ = false;
  bool hurries_ = false;
  bool said_left_ = false;
  bool over_ = false;
};

}  // namespace dl::launcher
