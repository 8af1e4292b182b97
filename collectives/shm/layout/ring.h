// Ring: frames from one rank to another, in order, through memory that both map (docs/protocol.md,
// "Messages in shared memory").
//
// The sender makes the segment and writes frames and `written`; the receiver writes `consumed` and
// `released`. All three count bytes over the ring's life and never wrap. A frame is a header in a
// line of its own, then its payload; a payload of up to kTinyBytes lies in the header's line. A
// frame may be written and read piece by piece, so that both sides copy a long one at once.
//
// RingWriter and RingReader do not own the memory. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/shm/layout/constants.h"
#include "collectives/shm/layout/layout.h"

namespace dl::collectives::shm {

enum class FrameType : std::uint32_t {
  kMessage,  // a whole message of at most kMostMessageBytes
  kRequest,  // asks to send a larger message, under the id `place`
  kClear,    // the message with the id `place` may be sent
  kSlice,    // of a cleared message; place: bytes into it
};

struct Frame {
  std::uint64_t sequence = 0;  // among the ring's frames, from 1; the writer's
  std::uint64_t count = 0;     // elements; kSlice: the id
  std::uint64_t place = 0;
  std::uint32_t tag = 0;
  std::uint32_t bytes = 0;  // of payload
  FrameType type = FrameType::kMessage;
  std::uint32_t dtype = 0;
};
static_assert(sizeof(Frame) == 40);

// Payload that fits beside the header in its line.
inline constexpr std::size_t kTinyBytes = kFrameBytes - sizeof(Frame);

constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + kFrameBytes - 1) / kFrameBytes * kFrameBytes;
}
// Bytes of the ring that a frame takes.
constexpr std::size_t room_of(std::size_t payload_bytes) noexcept {
  return kFrameBytes + (payload_bytes <= kTinyBytes ? 0 : whole_lines(payload_bytes));
}

struct RingCounters {
  Counter written;   // by the sender
  Counter consumed;  // by the receiver: bytes that it no longer reads
  Counter released;  // by the receiver: bytes of messages and requests that have found a receive
};
inline constexpr std::size_t kRingOffset = 4096;
inline constexpr std::size_t kRingSegmentBytes = kRingOffset + kRingBytes;
static_assert(sizeof(RingCounters) <= kRingOffset);

// Addresses of the parts of a ring.
struct RingPlace {
  Word* written = nullptr;
  Word* consumed = nullptr;
  Word* released = nullptr;
  std::byte* data = nullptr;

  static RingPlace in(std::byte* segment) noexcept {
    auto* const counters = reinterpret_cast<RingCounters*>(segment);
    return {&counters->written.value, &counters->consumed.value, &counters->released.value,
            segment + kRingOffset};
  }
};

class RingWriter {
 public:
  void open(const RingPlace& place) noexcept { place_ = place; }
  bool is_open() const noexcept { return place_.data != nullptr; }

  // Begins a frame with its number of payload bytes. If the payload does not fit beside the header,
  // the reader sees the frame only with its first piece. Returns false if there is no room now.
  bool begin(Frame frame, const std::byte* payload) noexcept;
  // Bytes of the current frame that are still to be written.
  std::size_t left() const noexcept { return left_; }
  // Writes the next piece and returns its size; 0: there is no room now.
  std::size_t write(const std::byte* from) noexcept;

  // Bytes of messages and requests that may be written before the receiver has released some.
  bool may_charge(std::size_t bytes) noexcept;
  void charge(std::size_t bytes) noexcept { charged_ += bytes; }

 private:
  std::size_t room(std::size_t wanted) noexcept;
  void publish() noexcept { place_.written->store(position_, std::memory_order_release); }

  RingPlace place_{};
  std::uint64_t position_ = 0;
  std::uint64_t consumed_ = 0;  // as last seen
  std::uint64_t sequence_ = 0;
  std::size_t left_ = 0;
  std::uint64_t charged_ = 0;
  std::uint64_t released_ = 0;  // as last seen
};

class RingReader {
 public:
  void open(const RingPlace& place) noexcept { place_ = place; }
  bool is_open() const noexcept { return place_.data != nullptr; }

  // Takes the next frame's header, after the previous frame was read completely. Returns false if
  // there is none yet.
  bool next(Frame& frame) noexcept;
  // True if the frame's number follows the previous one.
  bool is_in_order() const noexcept { return is_in_order_; }
  // Bytes of the frame's payload that are still to be read.
  std::size_t left() const noexcept { return left_; }
  // Reads the next piece and returns its size; 0: no more has arrived yet.
  std::size_t read(std::byte* to) noexcept;

  // Releases this many bytes of messages and requests that have found a receive. Returns true if
  // the sender is told now: it is told in portions.
  bool release(std::size_t bytes) noexcept;

 private:
  void consume() noexcept { place_.consumed->store(position_, std::memory_order_release); }

  RingPlace place_{};
  std::uint64_t position_ = 0;
  std::uint64_t written_ = 0;  // as last seen
  std::uint64_t sequence_ = 0;
  bool is_in_order_ = true;
  std::size_t left_ = 0;
  const std::byte* tiny_ = nullptr;  // the payload, if it is in the header's line
  std::uint64_t released_ = 0;
  std::uint64_t told_ = 0;  // part of released_ that the sender was told of
};

}  // namespace dl::collectives::shm
