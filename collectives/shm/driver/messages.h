// Messages: sends and receives, through one ring for each pair of ranks (sender, receiver) that has
// exchanged any.
//
// Conversation says which message comes next. A small message stays in the ring until its receiver
// looks for it, so that a send completes without its receiver. A rank that looks for a message also
// takes the messages before it out of the ring and keeps them.
//
// Owned by the Driver. Only the thread that drives may call it.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <vector>

#include "collectives/call/matching.h"
#include "collectives/shm/driver/queue.h"
#include "collectives/shm/layout/ring.h"
#include "collectives/shm/peers/failure.h"
#include "collectives/shm/protocol/bells.h"
#include "collectives/waiting/pending/conversation.h"

namespace dl::collectives::shm {

class Messages {
 public:
  Messages(Peers& peers, Failure& failure, Queue& queue, Ledger& ledger, Bells& bells);

  // Takes what callers have submitted, and moves what can be moved; true if something was.
  bool advance();
  // Messages that are not over, as far as the driver has taken them.
  const std::vector<Ref<Message>>& under_way() const noexcept { return under_way_; }
  // Breaks the group if a message waits for a peer that has ended.
  void look_for_gone();
  // In a broken group: completes what peers had sent before, and ends the others.
  void end_all(const std::exception_ptr& cause) noexcept;

 private:
  // The messages between this rank and one peer.
  struct Line {
    // To the peer.
    Segment ring{};  // made before the first frame
    RingWriter out{};
    std::deque<std::uint64_t> clears{};  // ids to be cleared to the peer
    Ref<Message> leaving{};              // the message whose frame is being written
    std::size_t leaving_whole = 0;       // `moved` after that frame

    // From the peer.
    RingReader in{};
    Frame frame{};  // being read
    bool is_amid_frame = false;
    std::byte* incoming_to = nullptr;  // its payload

    Conversation<Message> messages;

    bool has_to_write() const noexcept {
      return leaving || !clears.empty() || messages.has_to_send();
    }
  };

  Line& line(const Peer& p) noexcept { return lines_[static_cast<std::size_t>(p.who.rank)]; }
  void start(Ref<Message> message);
  // To a peer.
  bool send_to(Peer& p);
  bool open_ring_to(Peer& p);
  bool begin_next_frame(Line& line);
  void end_frame_to(Line& line);
  // From a peer.
  // True if the peer's next frames may be what this rank waits for.
  bool wants_frames(const Peer& p) noexcept;
  bool receive_from(Peer& p);
  void begin_frame(const Peer& p);
  void end_frame(const Peer& p);
  void settle(const Peer& p, Conversation<Message>::Outcome outcome);
  void take_what_has_come() noexcept;

  void end(Ref<Message> message);

  Peers& peers_;
  Failure& failure_;
  Queue& queue_;
  Ledger& ledger_;
  Bells& bells_;
  std::vector<Ref<Message>> taken_;  // from the queue, being started
  std::vector<Ref<Message>> under_way_;
  Matching<Message> matching_;
  std::vector<Line> lines_;  // by rank
};

}  // namespace dl::collectives::shm
