// Ring: frames from one rank to one other, in order, through memory that both map
// (docs/protocol.md, "Messages in shared memory").
//
// The sender makes the segment and writes frames and `written`; the receiver writes `consumed` and
// `released`. All three count bytes over the whole life of the ring and never wrap. A frame is a
// header in a line of its own and its payload, up to kTinyBytes of it in that line; it may be
// written and read piece by piece, so that a long one does not wait for all of itself.
//
// A RingWriter and a RingReader own nothing but their place in it. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/shm/constants.h"
#include "collectives/shm/layout.h"

namespace dl::collectives::shm {

enum class FrameType : std::uint32_t {
  kMessage,  // a whole message of at most kMostMessageBytes
  kRequest,  // a larger one waits under the id `place`
  kClear,    // the one with the id `place` may be sent
  kSlice,    // of the one that was cleared; place: bytes into it
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

// What fits beside the header in its line.
inline constexpr std::size_t kTinyBytes = kFrameBytes - sizeof(Frame);

constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + kFrameBytes - 1) / kFrameBytes * kFrameBytes;
}
// What a frame takes of its ring.
constexpr std::size_t room_of(std::size_t payload_bytes) noexcept {
  return kFrameBytes + (payload_bytes <= kTinyBytes ? 0 : whole_lines(payload_bytes));
}

struct RingCounters {
  Counter written;   // by the sender
  Counter consumed;  // by the receiver: what it reads no more
  Counter released;  // by the receiver: of messages and requests, those that have found a receive
};
inline constexpr std::size_t kRingOffset = 4096;
inline constexpr std::size_t kRingSegmentBytes = kRingOffset + kRingBytes;
static_assert(sizeof(RingCounters) <= kRingOffset);

// Where the parts of a ring are.
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

  // Begins a frame with its bytes of payload; nobody sees it before the first of those is there,
  // where it has any that do not fit beside the header. False: there is no room now.
  bool begin(Frame frame, const std::byte* payload) noexcept;
  // Of the frame that was begun: what is still to be written.
  std::size_t left() const noexcept { return left_; }
  // Writes the next piece of it; how many bytes. 0: there is no room now.
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

  // Takes the next frame's header, once the frame before has been read to its end. False: there is
  // none yet.
  bool next(Frame& frame) noexcept;
  // The frame was the next one of its sender.
  bool is_in_order() const noexcept { return is_in_order_; }
  // Of the frame's payload: what is still to be read.
  std::size_t left() const noexcept { return left_; }
  // Reads the next piece of it; how many bytes. 0: no more is there yet.
  std::size_t read(std::byte* to) noexcept;

  // Messages and requests of so many bytes have found a receive. True where the sender learns of it
  // now: it is told in portions.
  bool release(std::size_t bytes) noexcept;

 private:
  void consume() noexcept { place_.consumed->store(position_, std::memory_order_release); }

  RingPlace place_{};
  std::uint64_t position_ = 0;
  std::uint64_t written_ = 0;  // as last seen
  std::uint64_t sequence_ = 0;
  bool is_in_order_ = true;
  std::size_t left_ = 0;
  const std::byte* tiny_ = nullptr;  // the payload, where it is in the header's line
  std::uint64_t released_ = 0;
  std::uint64_t told_ = 0;  // of that
};

}  // namespace dl::collectives::shm
