// Link: one non-blocking stream socket to a peer, cut into frames.
//
// Owns the descriptor. Readiness comes from an edge-triggered epoll through on_events() and is
// remembered, which saves system calls on idle sockets. A short read or write counts as "nothing
// more now". Not thread-safe: used by the engine's driver only.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/tcp/wire/frame.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::tcp {

class Link {
 public:
  enum class Health : std::uint8_t { kOpen, kClosed, kReset, kSilent, kGarbage };

  using Clock = std::chrono::steady_clock;

  explicit Link(UniqueFd fd) noexcept;

  int fd() const noexcept { return fd_.get(); }
  void on_events(std::uint32_t events) noexcept;

  // Anything but kOpen: no further frame arrives; bytes that were read before remain valid.
  Health health() const noexcept { return health_; }
  // "closed", "reset", ...; "broken" if only writing has failed so far.
  std::string_view health_text() const noexcept;
  // True if writing is over; bytes that the peer sent before may still be unread.
  bool refuses() const noexcept { return refuses_; }
  // True if the peer, or something between the hosts, has ended the connection; earlier bytes may
  // still be unread.
  bool has_ended() const noexcept { return hangup_ || health_ != Health::kOpen; }

  bool is_reset() const noexcept { return was_reset_ || health_ == Health::kReset; }

  // What the kernel knows of the connection (TCP_INFO).
  struct Way {
    bool is_open = false;  // if false, nothing is known
    // Sent bytes wait for an acknowledgement. False if the peer does not read (zero window).
    bool is_busy = false;
    // Since the peer's host last acknowledged something.
    std::chrono::milliseconds since_acknowledged{};
  };
  Way way() const noexcept;

  // The next frame's header once it has arrived, valid until end_frame(); null if it has not.
  const FrameHeader* header() noexcept;
  std::size_t payload_left() const noexcept { return payload_left_; }
  // Reads up to `most` bytes of the frame's payload; returns 0 if none have arrived.
  std::size_t read(std::byte* to, std::size_t most) noexcept;
  void end_frame() noexcept { header_.reset(); }

  // One frame at a time: send() if !is_sending(), then flush() until it returns true. The payload
  // must stay valid until then.
  bool is_sending() const noexcept { return sending_; }
  void send(const FrameHeader& header, const std::byte* payload) noexcept;
  bool flush() noexcept;
  // Takes the unsent rest of the payload from another copy of the same bytes.
  void replace_payload(const std::byte* payload) noexcept { out_payload_ = payload; }

  // True once the peer's kernel has acknowledged every byte that was written.
  bool is_drained() const noexcept;
  // Ends the link if sent bytes have not been acknowledged for 10 s: the peer's host is gone. The
  // host of a stopped peer still acknowledges. To be called about once a second.
  void look_for_silence(Clock::time_point now) noexcept;
  // Acknowledges received data at once instead of within 40 ms, because the peer waits for that
  // before it leaves.
  void acknowledge_now() noexcept;

 private:
  // Headers and small payloads arrive in one read; the first bytes of a slice are copied once more.
  static constexpr std::size_t kBufferBytes = 4096;

  std::size_t receive(std::byte* to, std::size_t most) noexcept;
  void fail(Health health) noexcept;
  void note_reset(int error) noexcept;

  UniqueFd fd_;
  bool readable_ = true;  // unknown at first: the first call finds out
  bool writable_ = true;
  bool hangup_ = false;
  bool refuses_ = false;
  // A system call returned ECONNRESET; later ones may only report the end of the stream.
  bool was_reset_ = false;
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
