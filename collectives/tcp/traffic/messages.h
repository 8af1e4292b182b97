// Messages: the side links of a group: its messages, and the frames that control it.
//
// A part of the Driver, which alone may call it. Messages have links of their own, so that a
// message never waits behind the data of a collective that this rank has not called yet.
// Conversation says which message comes next. A side link never has to stall, because credit bounds
// what a receiver must keep. Control frames are the Driver's: receive() returns them, push() sends
// them.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/call/matching.h"
#include "collectives/tcp/state/operation.h"
#include "collectives/tcp/traffic/peers.h"
#include "collectives/waiting/pending/conversation.h"
#include "collectives/waiting/pending/group_status.h"
#include "collectives/waiting/pending/ledger.h"

namespace dl::collectives::tcp {

class Messages {
 public:
  Messages(const Membership& group, const GroupStatus& status, Ledger& ledger, Peers& peers);

  // Throws GroupError if the message's peer has left.
  void start(Ref<Message> message);
  const std::vector<Ref<Message>>& under_way() const noexcept { return under_way_; }
  // The first message that waits for this peer; `any_source`: or for any.
  const Message* awaiting(const Peer& p, bool any_source) const noexcept;

  // Queues a frame to this peer.
  void push(const Peer& p, FrameHeader header, std::string_view payload = {});
  // Sends a few frames at most; true if any has left.
  bool transmit(const Peer& p);
  struct Received {
    bool has_moved = false;
    bool is_whole = false;                 // a frame has ended; more may have arrived
    std::optional<FrameHeader> control{};  // the frame, if it is no message's
  };
  // Reads on until the end of a frame. A broken group discards messages, so that the frames behind
  // them (aborts, goodbyes) arrive.
  Received receive(const Peer& p);
  // The payload of the last control frame.
  std::string_view payload(const Peer& p) const noexcept;
  bool is_drained(const Peer& p) const noexcept;

  // When the group breaks: drops the frames whose sending has not begun.
  void drop_frames(const Peer& p);
  // Removes all messages.
  std::vector<Ref<Message>> drop();

 private:
  // A side link.
  struct Side {
    Conversation<Message> talk;
    struct Frame {
      FrameHeader header;
      std::vector<std::byte> payload;
    };
    std::deque<Frame> out{};
    std::vector<std::byte> out_payload{};  // of the frame that is being sent
    std::size_t bulk_leaving = 0;          // bytes of talk.cleared() that are being sent
    // Bytes that this rank may send before a receive takes them, and bytes that it has to give
    // back.
    std::size_t credit;
    std::size_t owed_credit = 0;
    std::byte* incoming_to = nullptr;  // the payload of the current frame
    bool has_begun = false;            // the current frame
  };

  Side& side(const Peer& p) noexcept { return sides_[static_cast<std::size_t>(p.who.rank)]; }
  const Side& side(const Peer& p) const noexcept {
    return sides_[static_cast<std::size_t>(p.who.rank)];
  }
  void push(Side& to, FrameHeader header, std::vector<std::byte> payload);
  // Announces messages as far as the credit goes.
  void announce(Side& to);
  // False if there is no frame to send.
  bool load(const Peer& p, Side& to);
  std::byte* begin_frame(Side& from, const FrameHeader& header);
  void end_frame(const Peer& p, Side& from, const FrameHeader& header);
  void settle(Side& with, Conversation<Message>::Outcome outcome);
  void end(Ref<Message> message);

  const Membership& group_;
  const GroupStatus& status_;
  Ledger& ledger_;
  Peers& peers_;
  Matching<Message> matching_;
  std::vector<Side> sides_;  // by rank
  std::vector<Ref<Message>> under_way_;
};

}  // namespace dl::collectives::tcp
