#include "collectives/shm/peers/failure.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dl::collectives::shm {

void Failure::fail(Cause cause, std::optional<std::uint64_t> given) noexcept {
  const std::uint64_t until = given.value_or(completed());
  std::string call = call_of(cause);
  const bool is_first = break_with(std::move(cause), until, std::move(call), [&](const Cause& why) {
    const std::string said = encode(as_told(why, peers_.self().in_job()), kMostCauseBytes);
    Block& block = peers_.own();
    block.cause_bytes = static_cast<std::uint32_t>(said.size());
    std::memcpy(block.cause, said.data(), said.size());
    block.completes_until.store(until, std::memory_order_relaxed);
    block.presence.store(Presence::kFailed, std::memory_order_release);
  });
  // An operation that should still complete, but fails, ends with the first cause.
  if (!is_first) return lower_to(until);
  has_to_end_.store(true);
  wake_peers();
}

std::string Failure::call_of(const Cause& cause) const noexcept try {
  if (cause.blame != Blame::kMismatch || cause.sequence == 0) return {};
  const Cell& cell = peers_.own().cells[cause.sequence % 2];
  if (!is_of(cell.flag.load(std::memory_order_acquire), cause.sequence)) return {};
  Descriptor called;
  copy_bytes(&called, cell.descriptor, sizeof called);
  return call_text(called);
} catch (...) {
  return {};
}

void Failure::lower_to(std::uint64_t until) noexcept {
  const bool is_less = complete_only(until, [this] {
    peers_.own().completes_until.store(completes_until(), std::memory_order_release);
  });
  if (!is_less) return;
  has_to_end_.store(true);
  wake_peers();
}

void Failure::wake_peers() noexcept {
  for (Peer& p : peers_) ring(p.block->bell);
  peers_.send_notes(Note::Kind::kFailed);
}

bool Failure::adopt_peers_cause() noexcept {
  for (const Peer& p : peers_) {
    if (p.who.rank == peers_.rank() || p.presence() != Presence::kFailed) continue;
    const Block& block = *p.block;
    const std::uint64_t completes_until = block.completes_until.load(std::memory_order_acquire);
    if (is_broken()) {
      lower_to(completes_until);
      continue;
    }
    auto cause = rendezvous::decode_cause(
        {block.cause, std::min<std::size_t>(block.cause_bytes, kMostCauseBytes)});
    if (!cause) {
      cause = Cause{.blame = Blame::kBroke,
                    .rank = p.who.in_job(),
                    .text = fmt::format("group '{}': {} broke the group, with a cause that cannot "
                                        "be read",
                                        peers_.group(), p.who.text())};
    }
    fail(std::move(*cause), completes_until);
  }
  return stops();
}

bool Failure::has_peer_failed() const noexcept {
  return std::ranges::any_of(peers_, [this](const Peer& p) {
    return p.who.rank != peers_.rank() && p.presence() == Presence::kFailed;
  });
}

void Failure::leave() noexcept {
  unless_broken(
      [this] { peers_.own().presence.store(Presence::kLeft, std::memory_order_release); });
}

}  // namespace dl::collectives::shm
