// Which rank's failure was the first cause, and when the job must stop: the rule alone, without
// processes, clocks or texts.
//
// A rank that fails on its own is the cause. A rank that fails because a peer failed has said so on
// its lifeline, or seems to say so in its last words (a follower): the cause then is still to come,
// and is waited for, but not for ever.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

#include "rendezvous/net/lifeline.h"

namespace dl::launcher {

// How long a follower's failure may wait for that of the rank it followed.
inline constexpr std::chrono::milliseconds kCauseWait{500};

// The end of one rank.
struct RankEnd {
  int rank = -1;
  pid_t pid = -1;
  int status = 0;        // as waitpid() gives it
  bool stopped = false;  // dlrun had begun to end the job: the end says nothing about a cause
  std::optional<rendezvous::PeerFailure> follows = std::nullopt;
  bool lost_peer = false;  // nothing on the lifeline, but see lost_peer.h

  bool failed() const { return status != 0; }
  bool is_follower() const { return follows || lost_peer; }
  int exit_code() const;  // 128+n for signal n
};

class Verdict {
 public:
  enum class Next : std::uint8_t {
    kGoOn,          // nothing to do
    kWaitForCause,  // call cause_is_late() after kCauseWait, or kLostPeerWait where that is why
    kStop,          // the cause is known: end the job
  };
  Next rank_ended(RankEnd end);
  Next cause_is_late();
  bool waits_for_cause() const { return cause_ < 0 && follower_ >= 0; }

  // The first cause; null while there is none.
  const RankEnd* cause() const {
    return cause_ < 0 ? nullptr : &ends_[static_cast<std::size_t>(cause_)];
  }
  // All that ended, in order.
  const std::vector<RankEnd>& ends() const { return ends_; }

 private:
  std::vector<RankEnd> ends_;
  int follower_ = -1;  // the first one
  int cause_ = -1;
};

}  // namespace dl::launcher
