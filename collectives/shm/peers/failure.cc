#include "collectives/shm/peers/failure.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rendezvous/net/lifeline.h"

namespace dl::collectives::shm {

std::exception_ptr Failure::cause() const noexcept {
  if (!is_poisoned()) return nullptr;
  const Lock lock(mutex_);
  return error_;
}

void Failure::fail(Cause cause, std::optional<std::uint64_t> given) noexcept {
  const std::uint64_t completes_until = given.value_or(completed_.load());
  const int self = peers_.self().in_job();
  {
    Lock lock(mutex_);
    if (error_) {
      lock.unlock();
      // An operation that should still complete, but fails, ends with the first cause.
      return complete_only(completes_until);
    }
    if (cause.found_by < 0) cause.found_by = self;
    error_ = std::make_exception_ptr(GroupError(cause));
    const std::string said = encode(as_told(cause, self), kMostCauseBytes);
    Block& block = peers_.own();
    block.cause_bytes = static_cast<std::uint32_t>(said.size());
    std::memcpy(block.cause, said.data(), said.size());
    block.completes_until.store(completes_until, std::memory_order_relaxed);
    completes_until_.store(completes_until);
    block.presence.store(Presence::kFailed, std::memory_order_release);
    log_.broken(name_of(cause.kind), cause.text);
    poisoned_.store(true);
    has_to_end_.store(true);
  }
  if (cause.blame != Blame::kNone && reports_) {
    rendezvous::report_peer_failure({.cause = cause, .call = call_of(cause)});
  }
  tell();
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

void Failure::complete_only(std::uint64_t until) noexcept {
  {
    const Lock lock(mutex_);
    if (until >= completes_until_.load() || is_closed()) return;
    completes_until_.store(std::max(until, completed_.load()));
    peers_.own().completes_until.store(completes_until_.load(), std::memory_order_release);
    has_to_end_.store(true);
  }
  tell();
}

void Failure::tell() noexcept {
  for (Peer& p : peers_) ring(p.block->bell);
  peers_.send_notes(Note::Kind::kFailed);
}

bool Failure::adopt_peers_cause() noexcept {
  for (const Peer& p : peers_) {
    if (p.who.rank == peers_.rank() || p.presence() != Presence::kFailed) continue;
    const Block& block = *p.block;
    const std::uint64_t completes_until = block.completes_until.load(std::memory_order_acquire);
    if (is_poisoned()) {
      complete_only(completes_until);
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
  const Lock lock(mutex_);
  if (!error_) peers_.own().presence.store(Presence::kLeft, std::memory_order_release);
}

void Failure::refuse(const Descriptor& called, std::uint64_t sequence) const {
  const std::exception_ptr error = cause();
  report_late_call(cause_of(error), called, sequence, reports_);
  std::rethrow_exception(error);
}

}  // namespace dl::collectives::shm
