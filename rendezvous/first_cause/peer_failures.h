// PeerFailures: what one rank has reported on its lifeline when its groups broke. It decides which
// report explains the rank's end. The rule alone, without sockets.
//
// A program may catch a failure and go on without the group, so a report counts until the rank has
// got over it: until a later call with other ranks has ended well. That call may have been made by
// a thread that did not know of the failure. So a report that the rank's last message quotes counts
// in any case, and before all others. The exception is a first report that the rank itself has
// broken a group, by abort() for example: what it sees of the other ranks afterwards follows from
// that.
//
// One thread at a time.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "rendezvous/net/lifeline.h"

namespace dl::rendezvous {

class PeerFailures {
 public:
  void add(PeerFailure failure);
  // The rank has got over the failures so far.
  void recovered();
  // The rank has made its group anew: the failures so far never count.
  void renewed() { all_.clear(); }

  // The failure that explains the end of `rank`, which has reported them: the first one that it has
  // not got over, if that is its own; else the first one that its last message quotes; else the
  // first one that it has not got over. If the rank has not got over a mismatch either, the result
  // has its call: the other ranks' ends may be due to it. `last_message`: of its stderr and its
  // error file.
  std::optional<PeerFailure> explanation(int rank, std::string_view last_message) const;

 private:
  struct Report {
    PeerFailure failure;
    bool is_over = false;  // the rank has got over it
  };
  void make_room();

  std::vector<Report> all_;  // at most kMost
};

}  // namespace dl::rendezvous
