// Collectives: the running and waiting collectives of a group, and their data links.
//
// A part of the Driver, which alone may call it. They run one at a time, in the order of their
// sequence numbers. Data of an operation that this rank has not called yet stays in the links.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "collectives/tcp/state/operation.h"
#include "collectives/tcp/traffic/peers.h"
#include "collectives/waiting/pending/group_status.h"
#include "collectives/waiting/pending/ledger.h"

namespace dl::collectives::tcp {

class Collectives {
 public:
  // `staging`: room for a slice and an element, for received bytes that are still to be reduced.
  Collectives(const Membership& group, GroupStatus& status, Ledger& ledger, std::byte* staging)
      : group_(group),
        status_(status),
        ledger_(ledger),
        staging_(staging),
        flows_(group.ranks.size()) {}

  void start(Ref<Collective> collective);
  // Oldest first; the front one runs.
  const std::deque<Ref<Collective>>& queue() const noexcept { return queue_; }
  std::uint64_t last_called() const noexcept { return last_called_; }

  // The lane on which this peer's next data frame arrives.
  const Link& incoming_lane(const Peer& p) const noexcept { return *p.data[incoming(p)]; }
  // Moves a few slices at most, without blocking; true if any moved. Throws GroupError if the peer
  // has called another operation.
  bool advance(Peer& p, Peer::Time now);
  // Reduces shares that have arrived, and ends the front one if it is over.
  bool advance_front();
  // Removes and returns the collectives after number `last`, oldest first.
  std::vector<Ref<Operation>> drop_after(std::uint64_t last);
  // This rank's call under the sequence number of a mismatch; empty for other causes.
  std::string call_of(const Cause& cause) const;

 private:
  // The data links of one peer.
  struct Flow {
    // Bytes of an element that is only partly read.
    std::array<std::byte, sizeof(std::uint64_t)> carry{};
    std::size_t carried = 0;
    bool is_admitted = false;  // the current frame was checked
    // Frames being sent, oldest first, at most one a lane.
    struct Leaving {
      Link* lane;
      std::size_t bytes;
    };
    std::deque<Leaving> leaving{};
  };

  Flow& flow(const Peer& p) noexcept { return flows_[static_cast<std::size_t>(p.who.rank)]; }
  std::size_t incoming(const Peer& p) const noexcept {
    const std::size_t slice =
        queue_.empty() ? 0 : queue_.front()->execution.slices_received(p.who.rank);
    return slice % p.data.size();
  }
  void load_lanes(const Peer& p);
  bool transmit(const Peer& p);
  bool receive(Peer& p);
  // Returns false if the frame must wait.
  bool admit(Peer& p, const FrameHeader& header);
  // Returns false if no bytes had arrived.
  bool apply(const Peer& p, Link& lane);
  [[noreturn]] void throw_other_call(const Peer& p, const Descriptor& theirs) const;
  const Descriptor* find_past(std::uint64_t sequence) const noexcept;

  const Membership& group_;
  GroupStatus& status_;
  Ledger& ledger_;
  std::byte* const staging_;
  std::vector<Flow> flows_;  // by rank
  std::deque<Ref<Collective>> queue_;
  std::deque<Descriptor> past_;  // the last completed ones, quoted in mismatch errors
  std::uint64_t last_called_ = 0;
};

}  // namespace dl::collectives::tcp
