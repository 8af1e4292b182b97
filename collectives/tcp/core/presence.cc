// Core's functions that tell whether the peers are there: by their links, processes and answers.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "collectives/tcp/core/core.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = Engine::Clock;

// How often the peer's process is checked during kGoneGrace.
constexpr auto kEndLook = 2ms;
// A process that still runs this long after its links ended did not end them by exiting, even if it
// exits soon after: it has lost the same connection.
constexpr auto kOutlived = 150ms;
constexpr auto kSilenceLook = 1s;
constexpr auto kProcessLook = 200ms;
// A host that has acknowledged something within this time counts as reachable.
constexpr auto kReachable = 2s;

bool is_same(const Identity& a, const Identity& b) noexcept {
  return a.in_job() == b.in_job() && a.pid == b.pid && a.host == b.host;
}

}  // namespace

bool Core::are_all_gone() const noexcept {
  return std::none_of(peers_.begin(), peers_.end(), [this](const Peer& p) {
    return is_other(p) && p.state == Peer::State::kHere;
  });
}

void Core::look_for_silence(Clock::time_point now) {
  if (now < next_silence_look_) return;
  next_silence_look_ = now + kSilenceLook;
  for (Peer& p : peers_) {
    if (!is_other(p)) continue;
    p.side->look_for_silence(now);
    for (const auto& lane : p.data) lane->look_for_silence(now);
  }
}

// Needed in addition to the links: a rank's links stay open while a child that it has forked lives.
void Core::look_at_processes(Clock::time_point now) {
  if (now < next_process_look_) return;
  next_process_look_ = now + kProcessLook;
  process_entries_.clear();
  for (const Peer& p : peers_) {
    process_entries_.push_back({p.has_exited ? -1 : p.process.get(), POLLIN, 0});
  }
  if (::poll(process_entries_.data(), process_entries_.size(), 0) <= 0) return;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (process_entries_[i].revents != 0) peers_[i].has_exited = true;
  }
}

bool Core::have_links_ended(const Peer& p) noexcept {
  return p.side->has_ended() &&
         std::ranges::all_of(p.data, [](const auto& lane) { return lane->has_ended(); });
}

// The links of a process that exits close one after another, but a middlebox may also close them.
// If the process can be seen, its pidfd decides.
bool Core::is_surely_gone(Peer& p) noexcept {
  if (p.has_exited || !have_links_ended(p)) return p.has_exited;
  if (!p.process) return true;
  pollfd entry{p.process.get(), POLLIN, 0};
  p.has_exited = ::poll(&entry, 1, 0) > 0;
  return p.has_exited;
}

void Core::look_at_ended_peers(Clock::time_point now) {
  next_end_look_ = Clock::time_point::max();
  for (Peer& p : peers_) {
    if (!is_other(p) || is_closed()) continue;
    // Once the next frame's lane has ended, nothing more comes; the other lanes may still hold
    // data.
    const bool data_ended = incoming_lane(p).health() != Link::Health::kOpen;
    const bool side_ended = p.side->health() != Link::Health::kOpen;
    const bool refuses =
        std::ranges::any_of(p.data, [](const auto& lane) { return lane->refuses(); });
    if (!data_ended && !side_ended && !refuses && !p.has_exited) continue;
    if (!p.has_ended) {
      p.has_ended = true;
      p.ended = now;
    }
    if (side_ended && p.state == Peer::State::kHere) p.state = Peer::State::kGone;
    // The peer's last words, if any, come on the side link: wait for its end, but not for ever.
    // Data that it sent before may take long to arrive.
    const Clock::time_point late = std::max(p.ended, p.last_heard) + kGoneGrace;
    p.is_late = now >= late;
    if (p.has_exited && p.is_late && p.state == Peer::State::kHere) p.state = Peer::State::kGone;
    const bool is_gone = is_surely_gone(p);
    if (p.process && !p.has_exited && now >= p.ended + kOutlived) p.outlives_link = true;
    if (!p.is_late) next_end_look_ = std::min({next_end_look_, late, now + kEndLook});
    if (p.is_late && p.state == Peer::State::kGone) {
      const std::lock_guard lock(error_mutex_);
      if (!gone_rank_) {
        gone_rank_ = std::make_exception_ptr(GroupError({.kind = ErrorKind::kPeerFailed,
                                                         .blame = blame_of_gone(p),
                                                         .rank = p.who.in_job(),
                                                         .found_by = identity(rank_).in_job(),
                                                         .text = text_of_gone(p)}));
      }
    }
    const bool has_left = p.state == Peer::State::kLeft;
    for (const Ref<Message>& message : messages_) {
      const bool is_awaited =
          message->peer == p.who.rank ||
          (message->peer == kAnySource && (p.state == Peer::State::kGone || are_all_gone()));
      if (!is_awaited) continue;
      if (side_ended ? has_left || is_gone || p.is_late : p.has_exited && p.is_late) {
        return fail_gone(p, *message);
      }
    }
    if (queue_.empty()) continue;
    const Collective& running = *queue_.front();
    const bool is_needed = running.execution.needs(p.who.rank);
    if (has_left) {
      const bool had_called = p.last_called >= running.descriptor.sequence;
      if (!had_called || (is_needed && data_ended)) return fail_gone(p, running);
      continue;
    }
    // An operation that needs nothing more from this rank continues. A rank that still needs data
    // has its own links to the peer, fails, and tells all others.
    const bool is_over = data_ended || refuses || p.has_exited;
    if (is_needed && ((data_ended && is_gone) || (is_over && p.is_late))) {
      return fail_gone(p, running);
    }
  }
}

void Core::fail_gone(const Peer& p, const Operation& operation) {
  if (p.state == Peer::State::kLeft) {
    const Descriptor& d = operation.descriptor;
    const bool had_called = !row_of(d.op).is_message && p.last_called >= d.sequence;
    fail(cause_in(d, ErrorKind::kPeerFailed,
                  text_of_left(p.who.text(), name_, p.last_called, had_called), Blame::kLeft,
                  p.who.in_job()));
    return;
  }
  fail(cause_in(operation.descriptor, ErrorKind::kPeerFailed, text_of_gone(p), blame_of_gone(p),
                p.who.in_job()));
}

const Link& Core::ended_link(const Peer& p) const {
  const Link* ended = p.side->health() != Link::Health::kOpen ? p.side.get() : &incoming_lane(p);
  for (const auto& lane : p.data) {
    if (ended->health() == Link::Health::kOpen && lane->refuses()) ended = lane.get();
  }
  return *ended;
}

// True if something other than the end of the peer's process has ended a link.
bool Core::is_cut(const Peer& p) const {
  const Link& ended = ended_link(p);
  const bool is_over = ended.is_reset() || ended.health() == Link::Health::kClosed;
  return is_over && (p.outlives_link || (p.is_late && !p.process && !have_links_ended(p)));
}

Blame Core::blame_of_gone(const Peer& p) const {
  switch (ended_link(p).health()) {
    case Link::Health::kSilent:
      return Blame::kUnreachable;
    case Link::Health::kGarbage:
      return Blame::kBroke;
    default:
      return is_cut(p) ? Blame::kLink : Blame::kGone;
  }
}

// The blamed rank reports this text too, once it has heard it.
std::string Core::text_of_gone(const Peer& p) const {
  const Link& ended = ended_link(p);
  const std::string who = p.who.text();
  if (ended.health() == Link::Health::kSilent) {
    return fmt::format("{} cannot be reached: its host has acknowledged nothing for 10 s", who);
  }
  if (ended.health() == Link::Health::kGarbage) {
    return fmt::format("{} sent bytes that are not a dlrun frame", who);
  }
  if (is_cut(p)) {
    return fmt::format(
        "a connection between {} and {} was {}, {}; does something between them end connections (a "
        "firewall, a proxy, `ss -K`)?",
        identity(rank_).text(), who, ended.is_reset() ? "reset" : "closed",
        p.outlives_link ? "though both ran" : "while others between them are open");
  }
  if (ended.is_reset() && !p.has_exited && !p.process) {
    return fmt::format(
        "{} cannot be reached any more: its connections to {} were reset; either it has ended, and "
        "its own output may say why, or something between them has reset them",
        who, identity(rank_).text());
  }
  const bool is_held = p.has_exited && ended.health() == Link::Health::kOpen && !ended.refuses();
  return gone_text(who, is_held ? "open, but its process has ended" : ended.health_text());
}

void Core::ask_peers() {
  for (Peer& p : peers_) {
    if (!is_other(p)) continue;
    push(p, {.type = FrameType::kProbe});
    transmit_side(p);
  }
}

Signs Core::signs_of(const Identity& who) const noexcept {
  Signs signs;
  const auto look = [&](const Link& link) {
    const Link::Way way = link.way();
    signs.is_reachable |= way.is_open && way.since_acknowledged < kReachable;
  };
  for (const Peer& p : peers_) {
    if (!p.side || !is_same(p.who, who)) continue;
    signs.heard = std::max(signs.heard, p.last_answer);
    // A broken group reads data that has waited for long, which is no sign of life.
    if (!is_poisoned()) signs.heard = std::max(signs.heard, p.last_heard);
    look(*p.side);
    for (const auto& lane : p.data) look(*lane);
  }
  return signs;
}

Contact Core::contact_with(const Peer& p, Clock::time_point asked) const {
  const Signs signs = engine_->signs_of(p.who);
  if (signs.heard >= asked || !p.side) return Contact::kAnswers;
  return p.side->way().is_busy && signs.is_reachable ? Contact::kSlow : Contact::kSilent;
}

Contact Core::contact_with(const Peer& p, const ProbeSchedule& probes) const {
  return probes.are_unanswered(p.last_answer) ? contact_with(p, probes.asked_at())
                                              : Contact::kAnswers;
}

bool Core::have_answered(Clock::time_point asked) const {
  return std::ranges::all_of(peers_, [&](const Peer& p) {
    return !is_other(p) || p.state != Peer::State::kHere || p.last_answer >= asked;
  });
}

bool Core::awaits_signs(Clock::time_point asked) const {
  return !is_poisoned() && std::ranges::any_of(peers_, [&](const Peer& p) {
    return is_other(p) && p.state == Peer::State::kHere &&
           contact_with(p, asked) != Contact::kAnswers;
  });
}

std::vector<Identity> Core::silent_peers(Clock::time_point asked) const {
  std::vector<Identity> silent;
  for (const Peer& p : peers_) {
    if (is_poisoned() || !is_other(p) || p.state != Peer::State::kHere) continue;
    if (contact_with(p, asked) == Contact::kSilent) silent.push_back(p.who);
  }
  return silent;
}

}  // namespace dl::collectives::tcp
