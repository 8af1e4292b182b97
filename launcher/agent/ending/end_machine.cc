#include "launcher/agent/ending/end_machine.h"

namespace dl::launcher {

void EndMachine::advance(Actions& out) {
  if (is_over_ || !have_ranks_ended_) return;
  if (!is_agreed_) {
    if (is_stopping_ && !is_awaiting_verdict_) {
      is_awaiting_verdict_ = true;
      out.push_back({Do::kAwaitVerdict});
    } else if (!is_stopping_ && all_well_ && !said_done_) {
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
  if (decision_ == Decision::kEnd && !has_left_) {
    if (!is_leaving_) out.push_back({Do::kLeaveOthers});
    is_leaving_ = true;
    return;
  }
  if (!is_swept_) {
    if (is_stopping_ || kills_now_) {
      sweep(out);
    } else if (!is_lingering_) {
      is_lingering_ = true;
      out.push_back({Do::kLinger});
    }
    return;
  }
  is_over_ = true;
  out.push_back({Do::kOver});
}

void EndMachine::sweep(Actions& out) {
  if (is_sweeping_) return;
  is_sweeping_ = true;
  out.push_back({Do::kWatchSwept});
  out.push_back({kills_now_ ? Do::kSweepNow : Do::kSweep});
}

EndMachine::Actions EndMachine::stop(int signal, bool is_final) {
  Actions out;
  is_final_ = is_final_ || is_final;
  if (is_final && decision_ == Decision::kAgain) decision_ = Decision::kEnd;
  if (!is_stopping_ && !is_over_) {
    is_stopping_ = true;
    // Sent even if no rank is left: a supervisor that waits for a rank's `tee` then stops waiting.
    out.push_back({Do::kSignalRanks, signal});
    if (!have_ranks_ended_) out.push_back({Do::kStartGrace});
  }
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::ranks_ended(bool all_well) {
  Actions out;
  if (!have_ranks_ended_) all_well_ = all_well;
  have_ranks_ended_ = true;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::others_agreed() {
  Actions out;
  is_agreed_ = true;
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
  is_agreed_ = true;
  has_left_ = true;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::linger_over() {
  Actions out;
  if (is_lingering_ && !is_swept_) sweep(out);
  return out;
}

EndMachine::Actions EndMachine::swept() {
  Actions out;
  is_swept_ = is_swept_ || is_sweeping_ || is_lingering_;
  advance(out);
  return out;
}

EndMachine::Actions EndMachine::kill_now() {
  if (is_over_) return {};
  if (said_left_) return {{Do::kGiveUp}};
  kills_now_ = true;
  return {{Do::kKillRanks}, {Do::kWatchKilled}};
}

EndMachine::Actions EndMachine::grace_over() {
  if (have_ranks_ended_) return {};
  return {{Do::kKillRanks}, {Do::kWatchKilled}};
}

EndMachine::Actions EndMachine::silence_over(bool some_are_left) {
  if (is_over_) return {};
  said_left_ = some_are_left;
  return {{Do::kWatchToGiveUp}};
}

EndMachine::Actions EndMachine::patience_over() {
  if (is_over_) return {};
  return {{Do::kGiveUp}};
}

}  // namespace dl::launcher
