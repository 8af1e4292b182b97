#include "launcher/verdict.h"

#include <sys/wait.h>

namespace dl::launcher {

int RankEnd::exit_code() const {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Verdict::Next Verdict::rank_ended(RankEnd end) {
  ends_.push_back(std::move(end));
  const RankEnd& last = ends_.back();
  const int index = static_cast<int>(ends_.size()) - 1;
  if (cause_ >= 0 || !last.failed() || last.stopped) return Next::kGoOn;
  if (!last.is_follower()) {
    cause_ = index;
    return Next::kStop;
  }
  if (follower_ >= 0) return Next::kGoOn;
  follower_ = index;
  return Next::kWaitForCause;
}

Verdict::Next Verdict::cause_is_late() {
  if (cause_ >= 0 || follower_ < 0) return Next::kGoOn;
  cause_ = follower_;
  return Next::kStop;
}

}  // namespace dl::launcher
