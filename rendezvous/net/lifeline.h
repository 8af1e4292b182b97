// A rank's line to its agent: the socket that dlrun gives each rank in DLRUN_LIFELINE_FD, for what
// only the two of them need to know. docs/protocol.md, "Lifeline", has the bytes.
//
// A rank that is about to fail only because another rank failed says so here first. dlrun then
// waits for the failure that came before, and never shows the follower as the cause.
//
// Thread-safety: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl::rendezvous {

// "I fail because of `peer`."
struct PeerFailure {
  int peer = -1;          // its rank; -1: not known
  std::string operation;  // what was being done: "all_reduce #1042"
  std::string text;       // the whole error, as this rank throws it
};

// Never blocks and never throws. Without a lifeline (no dlrun above this process, or a program in
// between has closed it) nothing happens.
void report_peer_failure(const PeerFailure& failure) noexcept;

// One packet; both ends use these. A packet that is no such report decodes to nullopt.
std::string encode_peer_failure(const PeerFailure& failure);
std::optional<PeerFailure> decode_peer_failure(std::string_view packet);

}  // namespace dl::rendezvous
