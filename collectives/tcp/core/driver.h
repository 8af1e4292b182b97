// Driver: moves a group's data, checks clocks and peers, and breaks the group if a deadline passes
// or a peer that it needs is gone. One thread at a time.
//
// Core owns it and gives it to the holder of the engine's role (engine.h). It never blocks and runs
// no user code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/tcp/state/news.h"
#include "collectives/tcp/traffic/collectives.h"
#include "collectives/tcp/traffic/messages.h"
#include "collectives/tcp/traffic/peers.h"

namespace dl::collectives::tcp {

class Driver {
 public:
  using Time = Peer::Time;

  Driver(const Membership& group, GroupStatus& status, Ledger& ledger, News& news, Links& links,
         Mesh mesh);

  // From now on the group moves data.
  void begin();
  void start(Ref<Operation> operation);
  // Breaks the group and tells the peers. If the cause blames a rank, the agent is told as well,
  // and looks for the first cause there. `told_by`: the rank of this group that found the cause and
  // told it to all; -1: this rank. A cause that another rank found is passed on, because that rank
  // may exit before all have heard it. They would then take this rank's exit for the cause.
  void fail(Cause cause, std::optional<std::uint64_t> completes_until = {}, int told_by = -1);
  void retire();
  // retire() for the end of the process: first lets operations under way finish as long as they
  // make progress. Sends no goodbye if some are still unfinished then.
  void leave_at_exit();
  bool close_if_retired();

  bool is_idle() const noexcept {
    return collectives_.queue().empty() && messages_.under_way().empty() && heard_.empty() &&
           !is_retiring_;
  }
  // Moves a few slices at most, without blocking; true if any moved.
  bool advance(Time now);
  Time next_timer() const noexcept { return timer_; }

  // `asked`: when the probes were sent; a rank that has not answered since may have called the
  // operation meanwhile.
  Missing missing(const Operation& operation, Time asked = {}) const;
  // Sends a probe to every peer that is here.
  void ask_peers();
  const Peers& peers() const noexcept { return peers_; }

 private:
  bool advance_side(Peer& p, Time now);
  void on_control(Peer& p, const FrameHeader& header);
  // Breaks the group with the cause that peers have reported.
  void take_heard();
  // In a broken group: lowers `completes_until`, and ends the collectives behind it.
  void complete_only(std::uint64_t until);
  void tell(const Cause& cause, int told_by);
  void end_refused(const std::exception_ptr& error);
  void look_at_ends(Time now);
  void look_at_clocks(Time now);
  // True if the peers are to be probed.
  bool look_at_clock(Operation& operation, Time now);
  void go_on_leaving(Time now, bool moved);
  // The other ranks, as an operation sees them.
  std::vector<PeerState> others(const Operation& operation, Time asked) const;
  // Runs a step; an exception breaks the group instead of leaving the driver. False if it has.
  template <typename F>
  bool guarded(const F& step) noexcept;

  const Membership& group_;
  GroupStatus& status_;
  Ledger& ledger_;
  News& news_;
  Peers peers_;
  Collectives collectives_;
  Messages messages_;

  // A failure that peers have reported. It breaks the group after everything that came before it is
  // read: an operation whose data has all arrived can still complete.
  struct Heard {
    Cause cause;
    std::uint64_t completes_until;
    int told_by;
  };
  std::vector<Heard> heard_;
  Time heard_at_{};
  Time timer_ = Time::max();
  Time next_end_look_ = Time::max();
  bool is_leaving_ = false;
  Time leave_begin_{};
  Time last_move_{};
  bool is_retiring_ = false;
  Time retire_by_{};
};

}  // namespace dl::collectives::tcp
