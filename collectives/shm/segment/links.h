// Links: the authenticated local sockets of one rank to all others, and all ranks' segments. A
// group is made from them.
//
// A socket carries descriptors and a few words (Note), never an operation's data. Its end tells
// that the peer has died.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/shm/segment/segment.h"
#include "core/base/lifetime/ref.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives {
struct GroupOptions;
}

namespace dl::collectives::shm {

// Sent over a socket after the handshake: eight bytes, in the machine's byte order, because both
// ends are on one machine.
struct Note {
  enum class Kind : std::uint32_t {
    kSegment = 1,  // with a descriptor: the sender's segment
    kProbe = 2,    // asks for a kReply
    kReply = 3,    // answers a kProbe
    kFailed = 4,   // the group is broken: the cause is in the sender's Block
    kMemory = 5,   // with a descriptor: the sender's part of a symmetric memory
    kRing = 6,     // with a descriptor, once: the ring of the sender's messages to the receiver
  } kind = Kind::kProbe;
  std::uint32_t number = 0;  // kSegment: the protocol's version; kMemory: the memory's number
};

struct Links {
  struct Peer {
    Identity who;
    UniqueFd socket;  // empty for the rank itself
    Segment segment;  // for the rank itself: its own segment
  };
  int rank = 0;
  std::vector<Peer> peers;  // by rank
};

// Error text for a note that arrived at `self` without its descriptor.
std::string text_of_lost_descriptor(const std::string& group, const Identity& from,
                                    const Identity& self);

// Listens, publishes the address in the store, accepts higher ranks, connects to lower ones, and
// exchanges segments. Throws what make_shm_group() throws.
Links connect_links(const GroupOptions& options, bool is_oversubscribed);

}  // namespace dl::collectives::shm
