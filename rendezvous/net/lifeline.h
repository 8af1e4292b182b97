// Lifeline: the socket between a rank and its agent, which dlrun passes to each rank in
// DLRUN_LIFELINE_FD. docs/protocol.md, "Lifeline", has the bytes.
//
// A rank whose group breaks because of another rank reports that rank here, before its program gets
// the error. So dlrun looks for the first cause at the blamed rank. While the blamed rank may still
// end, dlrun does not show the reporting rank (a follower) as the cause. A rank that breaks a group
// itself reports itself, before the other ranks hear of it.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/net/cause.h"

namespace dl::rendezvous {

// "My group broke because of this rank", another one or the one that reports.
struct PeerFailure {
  Cause cause;
  // After a mismatch, of this group or another one: the operation that this rank has called in that
  // place; empty: not known.
  std::string call{};
};

// "I wait for this rank to come to the making of a group."
struct Waiting {
  int rank = -1;          // -1: no longer waiting
  std::string operation;  // "init of group 'world'"
};

// Never blocks and never throws. Does nothing without a lifeline: dlrun did not start this process,
// or a program in between has closed the descriptor.
void report_peer_failure(const PeerFailure& failure) noexcept;
void report_waiting(const Waiting& waiting) noexcept;
// "The group is made anew": what this rank has reported as a PeerFailure does not count any more.
void report_renewal() noexcept;

// For standing_report(). Not in a namespace `detail`, which would hide dl::detail from this room.
extern std::atomic<std::uint32_t> standing_report_number;
// The number of this rank's last PeerFailure; 0: there is none, or the program has got over it.
inline std::uint32_t standing_report() noexcept {
  return standing_report_number.load(std::memory_order_relaxed);
}
// "The program has got over it": a call that was made after the report `standing` has ended well
// together with other ranks. Then the reports so far do not count, unless the rank's last words
// quote one of them. Does nothing for 0, and if there is a later report.
void report_recovery(std::uint32_t standing) noexcept;

// Encode and decode one packet; both ends use these. Decoding returns nullopt for any other packet.
std::string encode_peer_failure(const PeerFailure& failure);
std::optional<PeerFailure> decode_peer_failure(std::string_view packet);
std::string encode_waiting(const Waiting& waiting);
std::optional<Waiting> decode_waiting(std::string_view packet);
bool is_renewal(std::string_view packet) noexcept;
bool is_recovery(std::string_view packet) noexcept;

}  // namespace dl::rendezvous
