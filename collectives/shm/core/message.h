// Message: a send or a receive of a ShmGroup as its Work. Line: the messages between this rank and
// one peer (messages.cc).
//
// Only the driver touches a Line.
#pragma once

#include <deque>
#include <optional>

#include "collectives/shm/core/operation.h"
#include "collectives/shm/layout/ring.h"
#include "collectives/shm/segment/segment.h"
#include "collectives/waiting/pending/conversation.h"

namespace dl::collectives::shm {

class Message final : public MessageOf<Pending> {
 public:
  using MessageOf::MessageOf;
};

struct Line {
  // To the peer. ----------------------------------------------------------------------------------
  Segment out_segment;  // made before the first frame
  RingWriter out;
  std::deque<std::uint64_t> clears;  // ids to be cleared to the peer
  Ref<Message> leaving;              // the message whose frame is being written
  std::size_t leaving_whole = 0;     // `moved` after that frame

  // From the peer. --------------------------------------------------------------------------------
  RingReader in;
  Frame frame;  // being read
  bool is_amid_frame = false;
  std::byte* incoming_to = nullptr;  // its payload

  std::optional<Conversation<Message>> messages;

  // True if the peer's next frames may be what this rank waits for, apart from posted receives.
  bool wants_frames() const noexcept { return messages->awaits_frames() || is_amid_frame; }
  bool has_to_write() const noexcept {
    return leaving || !clears.empty() || messages->has_to_send();
  }
  // Drops all messages.
  void clear() {
    clears.clear();
    leaving = nullptr;
    messages->drop(0);
  }
};

}  // namespace dl::collectives::shm
