#include "collectives/tcp/traffic/peers.h"

#include <algorithm>
#include <utility>

#include "collectives/process/peer_process.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;

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

bool have_links_ended(const Peer& p) noexcept {
  return p.side->has_ended() &&
         std::ranges::all_of(p.data, [](const auto& lane) { return lane->has_ended(); });
}

const Link& ended_link(const Peer& p, const Link& next_lane) noexcept {
  const Link* ended = p.side->health() != Link::Health::kOpen ? p.side.get() : &next_lane;
  for (const auto& lane : p.data) {
    if (ended->health() == Link::Health::kOpen && lane->refuses()) ended = lane.get();
  }
  return *ended;
}

}  // namespace

Peers::Peers(const Membership& group, const GroupStatus& status, Links& links, Mesh mesh)
    : group_(group), status_(status), links_(links) {
  peers_.reserve(mesh.peers.size());
  for (int r = 0; r < group_.size(); ++r) {
    Peer& p = peers_.emplace_back(Peer{.who = group_.who(r)});
    if (r == group_.rank) continue;
    Mesh::Peer& from = mesh.peers[static_cast<std::size_t>(r)];
    p.process = watch_process(p.who);
    for (UniqueFd& lane : from.data) p.data.push_back(std::make_unique<Link>(std::move(lane)));
    p.side = std::make_unique<Link>(std::move(from.side));
    p.for_each_link([this](const Link& link) { parent_only_.add(link.fd()); });
  }
}

void Peers::open() {
  links_.add(*this);
  for (const Peer& p : peers_) {
    p.for_each_link([this](Link& link) { links_.watch(link); });
  }
}

void Peers::close() noexcept {
  links_.remove(*this);
  parent_only_.clear();
  for (Peer& p : peers_) {
    p.for_each_link([this](Link& link) { links_.unwatch(link); });
    p.data.clear();
    p.side.reset();
  }
}

bool Peers::are_all_gone() const noexcept {
  return std::ranges::none_of(peers_, [](const Peer& p) { return p.is_here(); });
}

bool Peers::have_answered(Time asked) const noexcept {
  return std::ranges::all_of(peers_,
                             [&](const Peer& p) { return !p.is_here() || p.last_answer >= asked; });
}

bool Peers::awaits_signs(Time asked) const noexcept {
  return !status_.is_broken() && std::ranges::any_of(peers_, [&](const Peer& p) {
    return p.is_here() && contact_with(p, asked) != Contact::kAnswers;
  });
}

std::vector<Identity> Peers::silent(Time asked) const {
  std::vector<Identity> silent;
  if (status_.is_broken()) return silent;
  for (const Peer& p : peers_) {
    if (p.is_here() && contact_with(p, asked) == Contact::kSilent) silent.push_back(p.who);
  }
  return silent;
}

Contact Peers::contact_with(const Peer& p, Time asked) const noexcept {
  const Signs signs = links_.signs_of(p.who);
  if (signs.heard >= asked || !p.is_linked()) return Contact::kAnswers;
  return p.side->way().is_busy && signs.is_reachable ? Contact::kSlow : Contact::kSilent;
}

Signs Peers::signs_of(const Identity& who) const noexcept {
  Signs signs;
  for (const Peer& p : peers_) {
    if (!p.is_linked() || !is_same(p.who, who)) continue;
    signs.heard = std::max(signs.heard, p.last_answer);
    // A broken group reads data that has waited for long, which is no sign of life.
    if (!status_.is_broken()) signs.heard = std::max(signs.heard, p.last_heard);
    p.for_each_link([&](const Link& link) {
      const Link::Way way = link.way();
      signs.is_reachable |= way.is_open && way.since_acknowledged < kReachable;
    });
  }
  return signs;
}

void Peers::look_around(Time now) {
  if (now >= next_silence_look_) {
    next_silence_look_ = now + kSilenceLook;
    for (const Peer& p : peers_) {
      p.for_each_link([&](Link& link) { link.look_for_silence(now); });
    }
  }
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

// The links of a process that exits close one after another, but a middlebox may also close them.
// If the process can be seen, its pidfd decides.
bool Peers::is_surely_gone(Peer& p) noexcept {
  if (p.has_exited || !have_links_ended(p)) return p.has_exited;
  if (!p.process) return true;
  pollfd entry{p.process.get(), POLLIN, 0};
  p.has_exited = ::poll(&entry, 1, 0) > 0;
  return p.has_exited;
}

std::optional<Peers::End> Peers::look_at_end(Peer& p, const Link& lane, Time now) {
  End end{.data = lane.health() != Link::Health::kOpen,
          .side = p.side->health() != Link::Health::kOpen,
          .refuses = std::ranges::any_of(p.data, [](const auto& l) { return l->refuses(); }),
          .is_gone = false,
          .next_look = Time::max()};
  if (!end.data && !end.side && !end.refuses && !p.has_exited) return std::nullopt;
  if (!p.has_ended) {
    p.has_ended = true;
    p.ended = now;
  }
  if (end.side && p.state == Peer::State::kHere) p.state = Peer::State::kGone;
  // The peer's last words, if any, come on the side link: wait for its end, but not for ever. Data
  // that it sent before may take long to arrive.
  const Time late = std::max(p.ended, p.last_heard) + kGoneGrace;
  p.is_late = now >= late;
  if (p.has_exited && p.is_late && p.state == Peer::State::kHere) p.state = Peer::State::kGone;
  end.is_gone = is_surely_gone(p);
  if (p.process && !p.has_exited && now >= p.ended + kOutlived) p.outlives_link = true;
  if (!p.is_late) end.next_look = std::min(late, now + kEndLook);
  return end;
}

Cause Peers::end_of(const Peer& p, const Link& lane) const {
  const Link& ended = ended_link(p, lane);
  Blame blame = is_cut(p, ended) ? Blame::kLink : Blame::kGone;
  if (ended.health() == Link::Health::kSilent) blame = Blame::kUnreachable;
  if (ended.health() == Link::Health::kGarbage) blame = Blame::kBroke;
  return {.kind = ErrorKind::kPeerFailed,
          .blame = blame,
          .rank = p.who.in_job(),
          .found_by = group_.self().in_job(),
          .text = text_of_end(p, ended)};
}

Cause Peers::end_in(const Descriptor& operation, const Peer& p, const Link& lane) const {
  if (p.state == Peer::State::kLeft) {
    const bool had_called = !row_of(operation.op).is_message && p.last_called >= operation.sequence;
    return cause_in(operation, ErrorKind::kPeerFailed,
                    text_of_left(p.who.text(), group_.name, p.last_called, had_called),
                    Blame::kLeft, p.who.in_job());
  }
  const Cause end = end_of(p, lane);
  return cause_in(operation, end.kind, end.text, end.blame, end.rank);
}

// True if something other than the end of the peer's process has ended a link.
bool Peers::is_cut(const Peer& p, const Link& ended) noexcept {
  const bool is_over = ended.is_reset() || ended.health() == Link::Health::kClosed;
  return is_over && (p.outlives_link || (p.is_late && !p.process && !have_links_ended(p)));
}

// The blamed rank reports this text too, once it has heard it.
std::string Peers::text_of_end(const Peer& p, const Link& ended) const {
  const std::string who = p.who.text();
  if (ended.health() == Link::Health::kSilent) {
    return fmt::format("{} cannot be reached: its host has acknowledged nothing for 10 s", who);
  }
  if (ended.health() == Link::Health::kGarbage) {
    return fmt::format("{} sent bytes that are not a dlrun frame", who);
  }
  if (is_cut(p, ended)) {
    return fmt::format(
        "a connection between {} and {} was {}, {}; does something between them end connections (a "
        "firewall, a proxy, `ss -K`)?",
        group_.self().text(), who, ended.is_reset() ? "reset" : "closed",
        p.outlives_link ? "though both ran" : "while others between them are open");
  }
  if (ended.is_reset() && !p.has_exited && !p.process) {
    return fmt::format(
        "{} cannot be reached any more: its connections to {} were reset; either it has ended, and "
        "its own output may say why, or something between them has reset them",
        who, group_.self().text());
  }
  const bool is_held = p.has_exited && ended.health() == Link::Health::kOpen && !ended.refuses();
  return gone_text(who, is_held ? "open, but its process has ended" : ended.health_text());
}

}  // namespace dl::collectives::tcp
