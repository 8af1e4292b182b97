// Message: a send or a receive of a ShmGroup as its Work. Line: the messages between this rank and
// one peer (messages.cc).
//
// A Line belongs to its Peer. Only the driver touches it, except in_segment and has_in_segment,
// which the progress thread sets.
#pragma once

#include <atomic>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/shm/core/operation.h"
#include "collectives/shm/layout/ring.h"
#include "collectives/shm/segment/segment.h"

namespace dl::collectives::shm {

class Message final : public MessageOf<Pending> {
 public:
  using MessageOf::MessageOf;
};

struct Line {
  // To the peer. ----------------------------------------------------------------------------------
  Segment out_segment;  // made before the first frame
  RingWriter out;
  std::deque<Ref<Message>> unsent;                            // in the order of their calls
  std::unordered_map<std::uint64_t, Ref<Message>> requested;  // wait for kClear, by id
  std::deque<std::uint64_t> clears;                           // ids to be cleared to the peer
  std::deque<std::pair<std::uint64_t, Ref<Message>>> cleared;
  Ref<Message> leaving;           // the message whose frame is being written
  std::size_t leaving_whole = 0;  // `moved` after that frame

  // From the peer. --------------------------------------------------------------------------------
  Segment in_segment;                       // the progress thread's, until it sets
  std::atomic<bool> has_in_segment{false};  // this flag
  RingReader in;
  Frame frame;  // being read
  bool is_amid_frame = false;
  Ref<Message> incoming;                    // its receive
  std::vector<std::byte> incoming_payload;  // of a message for which no receive is posted yet
  std::byte* incoming_to = nullptr;
  // Cleared to the peer, by the peer's id.
  std::unordered_map<std::uint64_t, Ref<Message>> receiving;

  // True if the peer's next frames may be what this rank waits for, apart from posted receives.
  bool wants_frames() const noexcept {
    return !requested.empty() || !receiving.empty() || is_amid_frame;
  }
  bool has_to_write() const noexcept {
    return leaving || !unsent.empty() || !clears.empty() || !cleared.empty();
  }
  // Drops all messages.
  void clear() noexcept {
    unsent.clear();
    requested.clear();
    clears.clear();
    cleared.clear();
    leaving = nullptr;
    incoming = nullptr;
    receiving.clear();
  }
};

}  // namespace dl::collectives::shm
