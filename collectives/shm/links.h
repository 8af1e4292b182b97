// Links: the proved local sockets of one rank to all others, and everybody's segments, before a
// group is made of them.
//
// A socket carries descriptors and a few words (Note), never an operation's data; that it ends is
// how a peer's death is noticed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/identity.h"
#include "collectives/shm/segment.h"
#include "core/base/ref.h"
#include "core/base/unique_fd.h"

namespace dl::collectives {
struct GroupOptions;
}

namespace dl::collectives::shm {

// What crosses a socket after the handshake: eight bytes each way, in the machine's order, since
// both ends are on one machine.
struct Note {
  enum class Kind : std::uint32_t {
    kSegment = 1,  // with a descriptor: the sender's segment
    kProbe = 2,    // are you there?
    kReply = 3,    // yes
    kFailed = 4,   // look at my Block: the group is broken
    kMemory = 5,   // with a descriptor: the sender's part of a symmetric memory
    kRing = 6,     // with a descriptor, once: the ring of the sender's messages to the receiver
  } kind = Kind::kProbe;
  std::uint32_t number = 0;  // kSegment: the protocol's version; kMemory: which memory
};

struct Links {
  struct Peer {
    Identity who;
    UniqueFd socket;  // none for the rank itself
    Segment segment;  // for the rank itself: its own, which it has made
  };
  int rank = 0;
  std::vector<Peer> peers;  // by rank
};

// What reserve_shm_segment() makes.
struct Reserved final : RefCounted {
  Segment segment;
};

// Why a segment has not come with its note.
std::string text_of_lost_descriptor(const std::string& group, const Identity& from);

// Listens, publishes where in the store, accepts the ranks above, connects to those below, and
// exchanges segments. Throws what make_shm_group() throws.
Links connect_links(const GroupOptions& options, bool is_crowded);

}  // namespace dl::collectives::shm
