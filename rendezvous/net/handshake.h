// The one handshake of every connection of a job, control plane and data plane (docs/protocol.md
// has its bytes).
//
// Both sides prove that they know the job key by an HMAC-SHA256 over both nonces and everything
// that was said, so that neither can be replayed, reflected or moved to another job, generation or
// purpose. The key never crosses the wire.
//
// HandshakeServer and HandshakeClient do no input or output: bytes are fed in and taken out, so
// that they serve blocking sockets, event loops and fuzzers alike. One object, one connection, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/unique_fd.h"
#include "rendezvous/net/job_key.h"

namespace dl::rendezvous {

// What a connection is for. A client says it; a server refuses what it does not serve.
struct Hello {
  std::string job;  // name of the job; at most 255 bytes
  std::uint64_t generation =
      0;                // kAnyGeneration for control connections made before a generation exists
  std::string purpose;  // "store", "group/<name>", ...; at most 255 bytes
  std::string from;     // who is speaking, for texts: "rank 3 (node1, pid 4711)"; at most 255 bytes
  std::int32_t rank = -1;  // the speaker's rank, -1 where it has none
};
inline constexpr std::uint64_t kAnyGeneration = ~std::uint64_t{0};

// A connection that both sides have proved.
struct Connection {
  UniqueFd fd;          // non-blocking, close-on-exec, TCP_NODELAY
  Hello peer;           // what the other side said
  std::string address;  // the other end, "10.0.0.2:4711"
};

inline constexpr std::chrono::seconds kHandshakeTime{5};
inline constexpr std::size_t kMostPendingHandshakes = 64;

}  // namespace dl::rendezvous
