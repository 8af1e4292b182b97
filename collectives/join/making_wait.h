// MakingWait: one wait for other ranks while a group is made. It logs for whom this rank waits, and
// ends the wait if the group cannot be made any more.
//
// Used by one thread; `options` outlive it.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "collectives/call/identity.h"
#include "collectives/join/group_options.h"
#include "core/base/deadline.h"
#include "rendezvous/net/patience.h"

namespace dl::collectives {

class MakingWait {
 public:
  // `what`: what the other rank has to do, for texts: "connect".
  MakingWait(const GroupOptions& options, Deadline deadline, std::string what)
      : options_(options), deadline_(deadline), what_(std::move(what)) {}

  // When to call check() next; at most half a second from now.
  Deadline until() const noexcept;
  // `missing`: one rank or more. Throws kPeerFailed if the process of one has ended, what the
  // options' check_making() throws, and kTimeout at the deadline. The error blames a rank.
  void check(std::span<const Identity* const> missing);
  void check(const Identity& missing) {
    const Identity* const only = &missing;
    check(std::span(&only, 1));
  }

 private:
  const GroupOptions& options_;
  const Deadline deadline_;
  const std::string what_;
  rendezvous::Patience patience_;
};

// Reports to dlrun for which rank this rank waits: dlrun knows whether that rank has ended, and so
// can never come. Nothing happens without a lifeline (rendezvous/net/lifeline.h).
class ToldWait {
 public:
  explicit ToldWait(const std::string& group);
  // Takes the report back.
  ~ToldWait();
  ToldWait(const ToldWait&) = delete;
  ToldWait& operator=(const ToldWait&) = delete;

  // When to call tell(); never if a report has been made.
  Deadline at() const noexcept;
  // True once the wait is long enough to report.
  bool is_due() const noexcept { return at_.has_passed(); }
  // Reports the rank, if the wait is long enough and the last report was another. `in_job`: its
  // rank in the job. -1: not known, which is not reported; the last report stands.
  void tell(int in_job);

 private:
  const std::string operation_;
  const Deadline at_;
  int told_ = -1;
};

}  // namespace dl::collectives
