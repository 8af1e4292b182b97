// Peers: the other ranks of a group: their links, and whether they are there, by links, processes
// and answers.
//
// A part of the Driver, which alone may call it. It only finds out that a peer has ended; the
// Driver decides which operation fails by that.
//
// States of a peer besides "here":
//   left   said goodbye: an error only for an operation that it has not called
//   gone   its links ended without a goodbye: an error for every operation that still needs it
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/tcp/state/membership.h"
#include "collectives/tcp/traffic/links.h"
#include "collectives/tcp/wire/link.h"
#include "collectives/tcp/wire/mesh.h"
#include "collectives/waiting/judge/judge.h"
#include "collectives/waiting/pending/group_status.h"
#include "core/base/deadline.h"
#include "core/base/system/process/fork.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::tcp {

// Time between the end of a link and an error that blames the link. A better explanation may come
// in it: the peer's last words, a mismatch on another rank, or the end of its process.
inline constexpr std::chrono::milliseconds kGoneGrace{300};

struct Peer {
  using State = PeerState::Presence;
  using Time = Deadline::Clock::time_point;

  const Identity& who;
  // The lanes for the data of collectives: frame i of a collective takes lane i modulo their
  // number. `data` and `side` are empty for this rank itself, and once this rank has closed them.
  std::vector<std::unique_ptr<Link>> data{};
  std::unique_ptr<Link> side{};  // messages and control frames
  // A pidfd, readable when the process has ended; empty if this rank cannot see the process.
  UniqueFd process{};
  bool has_exited = false;

  State state = State::kHere;
  Time ended{};  // when the first of its links ended
  bool has_ended = false;
  bool outlives_link = false;     // its process still runs although a link has ended
  bool is_late = false;           // nothing was received for kGoneGrace after its link ended
  std::uint64_t last_called = 0;  // the last sequence number that this rank has heard of
  Time last_answer{};
  Time last_heard{};  // last time that any bytes came

  bool is_linked() const noexcept { return side != nullptr; }
  bool is_here() const noexcept { return is_linked() && state == State::kHere; }
  template <typename F>
  void for_each_link(const F& visit) const {
    if (side) visit(*side);
    for (const auto& lane : data) visit(*lane);
  }
};

class Peers {
 public:
  using Time = Peer::Time;

  Peers(const Membership& group, const GroupStatus& status, Links& links, Mesh mesh);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  Peer& operator[](int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  // By rank, with this rank itself.
  auto begin() noexcept { return peers_.begin(); }
  auto end() noexcept { return peers_.end(); }
  auto begin() const noexcept { return peers_.begin(); }
  auto end() const noexcept { return peers_.end(); }

  // Has the links watched.
  void open();
  void close() noexcept;

  // True if no peer is here.
  bool are_all_gone() const noexcept;
  // True if all peers that are here have told their last called operation since `asked`.
  bool have_answered(Time asked) const noexcept;
  // True while a rank that is here has given no sign of life since `asked`: it is silent, or its
  // link is slow. False if the group is broken.
  bool awaits_signs(Time asked) const noexcept;
  // Peers that have received the probe and have given no sign of life since `asked`. Empty if the
  // group is broken.
  std::vector<Identity> silent(Time asked) const;
  // What is known of a peer that was asked at this time, from the links of all groups.
  Contact contact_with(const Peer& p, Time asked) const noexcept;
  // When these links last received anything from this rank's process.
  Signs signs_of(const Identity& who) const noexcept;

  // Looks now and then for silent links and for processes that have ended: a rank's links stay open
  // while a child that it has forked lives.
  void look_around(Time now);
  // What has ended of a peer.
  struct End {
    bool data;  // the lane of the next frame; the other lanes may still hold data
    bool side;
    bool refuses;  // writing to some lane has failed
    bool is_gone;  // for certain
    Time next_look;
  };
  // nullopt: nothing has ended. `lane`: the one on which the peer's next data arrives.
  std::optional<End> look_at_end(Peer& p, const Link& lane, Time now);
  // How the peer has ended, or why it can no longer be reached.
  Cause end_of(const Peer& p, const Link& lane) const;
  // end_of() for an operation that fails because of it. A peer that has left is blamed for leaving.
  Cause end_in(const Descriptor& operation, const Peer& p, const Link& lane) const;

 private:
  static bool is_surely_gone(Peer& p) noexcept;
  static bool is_cut(const Peer& p, const Link& ended) noexcept;
  std::string text_of_end(const Peer& p, const Link& ended) const;

  const Membership& group_;
  const GroupStatus& status_;
  Links& links_;
  std::vector<Peer> peers_;
  ParentOnlyFds parent_only_;
  Time next_silence_look_{};
  Time next_process_look_{};
  std::vector<pollfd> process_entries_;  // by rank
};

}  // namespace dl::collectives::tcp
