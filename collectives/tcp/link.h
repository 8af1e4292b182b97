// Link: one non-blocking stream socket to a peer, cut into frames.
//
// Owns the descriptor. Readiness comes from an edge-triggered epoll through on_events() and is
// remembered, so that no system call is spent on a socket that has nothing to say. A short read or
// write counts as "nothing more now". Not thread-safe: used by whoever drives the engine.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/tcp/frame.h"
#include "core/base/unique_fd.h"

namespace dl::collectives::tcp {

class Link {
 public:
  enum class Health : std::uint8_t { kOpen, kClosed, kReset, kSilent, kGarbage };

  using Clock = std::chrono::steady_clock;

  explicit Link(UniqueFd fd) noexcept;

  int fd() const noexcept { return fd_.get(); }
  void on_events(std::uint32_t events) noexcept;

  // Anything but kOpen: no further frame comes, and what was read before is still valid.
  Health health() const noexcept { return health_; }
  // "closed", "reset", ..., "broken" where only writing has failed so far
  std::string_view health_text() const noexcept;
  // Nothing more can be written, though what the peer said before may still be unread.
  bool refuses() const noexcept { return refuses_; }
  // The peer, or something on the way, has ended it, though what came before may still be unread.
  bool has_ended() const noexcept { return hangup_ || health_ != Health::kOpen; }

  bool is_reset() const noexcept { return was_reset_ || health_ == Health::kReset; }

  // What the kernel knows of the way to the peer.
  struct Way {
    bool is_open = false;  // else nothing is known
    // Bytes are under way and not acknowledged yet. False for a peer that does not read.
    bool is_busy = false;
    std::chrono::milliseconds since_acknowledged{};  // the last sign of the peer's host
  };
  Way way() const noexcept;

  // The next frame's header once it is here, the same until end_frame(); null: not yet, or never.
  const FrameHeader* header() noexcept;
  std::size_t payload_left() const noexcept { return payload_left_; }
  // Up to `most` bytes of the frame's payload; 0 where none is here now.
  std::size_t read(std::byte* to, std::size_t most) noexcept;
  void end_frame() noexcept { header_.reset(); }

  // One frame at a time: send() where !is_sending(), then flush() until it returns true. The
  // payload must stay until then.
  bool is_sending() const noexcept { return sending_; }
  void send(const FrameHeader& header, const std::byte* payload) noexcept;
  bool flush() noexcept;
  // The same bytes, elsewhere: what is still to leave is taken from there.
  void replace_payload(const std::byte* payload) noexcept { out_payload_ = payload; }

  // True once the peer's kernel has acknowledged every byte that was written.
  bool is_drained() const noexcept;
  // Ends the link where bytes wait for an acknowledgement and none has come for 10 s: the peer's
  // host is gone. One that only does not read, as it is stopped, still acknowledges. To be asked
  // now and then.
  void look_for_silence(Clock::time_point now) noexcept;
  // Acknowledges what was received at once instead of within 40 ms: the peer waits for that to
  // leave.
  void acknowledge_now() noexcept;

 private:
  // Headers and small payloads come in one call; a slice's first bytes are copied once more.
  static constexpr std::size_t kBufferBytes = 4096;

  std::size_t receive(std::byte* to, std::size_t most) noexcept;
  void fail(Health health) noexcept;
  void note_reset(int error) noexcept;

  UniqueFd fd_;
  bool readable_ = true;  // unknown at first: the first call finds out
  bool writable_ = true;
  bool hangup_ = false;
  bool refuses_ = false;
  bool was_reset_ = false;  // as a call said; the next one may only say that it is over
  Health health_ = Health::kOpen;
  std::optional<Clock::time_point> unanswered_since_;

  std::array<std::byte, kBufferBytes> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<FrameHeader> header_;
  std::size_t payload_left_ = 0;

  bool sending_ = false;
  std::array<std::byte, kHeaderBytes> out_header_;
  const std::byte* out_payload_ = nullptr;
  std::size_t out_bytes_ = 0;
  std::size_t out_done_ = 0;
};

}  // namespace dl::collectives::tcp
