#include "launcher/agent/ending/end_machine.h"

namespace dl::launcher {

void EndMachine::advance(Actions& out) {
  if (over_ || !ended_) return;
  if (!agreed_) {
    if (stopping_ && !awaits_) {
      awaits_ = true;
      out.push_back({Do::kAwaitVerdict});
    } else if (!stopping_ && all_well_ && !said_done_) {
      said_done_ = true;
      out.push_back({Do::kSayDone});
    }
    return;
  }
  if (decision_ == Decision::kNone) {
    decision_ = Decision::kAsked;
    out.push_back({Do::kDecide});
  }
  if (decision_ == Decision::kAsked) return;
  if (decision_ == Decision::kEnd && !left_) {
    if (!leaves_) out.push_back({Do::kLeaveOthers});
    leaves_ = true;
    return;
  }
  if (!swept_) {
    if (stopping_ || hurries_) {
      sweep(out);
    } else if (!lingers_) {
      lingers_ = true;
      out.push_back({Do::kLinger});
    }
    return;
  }
  over_ = true;
  out.push_back({Do::kOver});
}

void EndMachine::sweep(Actions& out) {
  if (sweeps_) return;
  sweeps_ = true;
  out.push_back({Do::kWatchSwept});
  out.push_back({hurries_ ? Do::kSweepNow : Do::kSweep});
}

EndMachine::Actions EndMachine::stop(int signal, bool is_final) {
  Actions out;
  is_final_ = is_final_ || is_final;
  if (is_final && decision_ == Decision::kAgain) decision_ = Decision::kEnd;
  if (!stopping_ && !over_) {
    stopping_ = true;
    // Sent even if no rank is left: a supervisor that waits for a rank's `tee` then hurries.
    out.push_back({Do::kSignalRanks, signal});
    if (!ended_) out.push_back({Do::kStartGrace});
  }
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::ranks_ended(bool all_well) {
  Actions out;
  if (!ended_) all_well_ = all_well;
  ended_ = true;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::others_agreed() {
  Actions out;
  agreed_ = true;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::decided(bool again) {
  Actions out;
  if (decision_ == Decision::kAsked)
    decision_ = again && !is_final_ ? Decision::kAgain : Decision::kEnd;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::others_left() {
  Actions out;
  agreed_ = true;
  left_ = true;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::linger_over() {
  Actions out;
  if (lingers_ && !swept_) sweep(out);
  return out;
}

EndMachine::Actions EndMachine::swept() {
  Actions out;
  swept_ = swept_ || sweeps_ || lingers_;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::hurry() {
  if (over_) return {};
  if (said_left_) return {{Do::kGiveUp}};
  hurries_ = true;
  return {{Do::kKillRanks}, {Do::kWatchKilled}};
}

EndMachine::Actions EndMachine::grace_over() {
  if (ended_) return {};
  return {{Do::kKillRanks}, {Do::kWatchKilled}};
}

EndMachine::Actions EndMachine::silence_over(bool some_are_left) {
  if (over_) return {};
  said_left_ = some_are_left;
  return {{Do::kWatchToGiveUp}};
}

EndMachine::Actions EndMachine::patience_over() {
  if (over_) return {};
  return {{Do::kGiveUp}};
}

}  // namespace dl::launcher
