// A rank's line to its agent: the socket that dlrun gives each rank in DLRUN_LIFELINE_FD, for what
// only the two of them need to know. docs/protocol.md, "Lifeline", has the bytes.
//
// A rank whose group breaks because of another rank says so here before its program hears of it.
// dlrun then looks for the first cause at that other rank, and never shows a follower as the cause
// while the rank that it blames may still end.
//
// Thread-safety: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/net/cause.h"

namespace dl::rendezvous {

// "My group broke, and not by my own doing."
struct PeerFailure {
  Cause cause;
  // After a mismatch: what this rank has called in that place; empty: nothing that it knows of.
  std::string call{};
};

// "I wait for this rank to come to the making of a group."
struct Waiting {
  int rank = -1;          // -1: for none any more
  std::string operation;  // "init of group 'world'"
};

// Never blocks and never throws. Without a lifeline (no dlrun above this process, or a program in
// between has closed it) nothing happens.
void report_peer_failure(const PeerFailure& failure) noexcept;
void report_waiting(const Waiting& waiting) noexcept;

// One packet; both ends use these. A packet that is no such report decodes to nullopt.
std::string encode_peer_failure(const PeerFailure& failure);
std::optional<PeerFailure> decode_peer_failure(std::string_view packet);
std::string encode_waiting(const Waiting& waiting);
std::optional<Waiting> decode_waiting(std::string_view packet);

}  // namespace dl::rendezvous
