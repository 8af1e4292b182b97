// Frames on an authenticated connection, with which ranks meet before they have a group
// (docs/protocol.md, "Meeting of ranks").
//
// A FrameSocket owns its descriptor; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::meet {

struct Frame {
  // The numbers are part of the protocol.
  enum class Type : std::uint8_t {
    kLine = 1,      // a guest's line of one round
    kTable = 2,     // the host's answer: the lines of all ranks
    kFailure = 3,   // the host's reason why there will be no table, or why a guest gives up
    kQuestion = 4,  // a guest asks which ranks are missing
    kMissing = 5,   // the host's answer, as text
  } type = Type::kLine;
  std::vector<std::uint8_t> body{};
};

// The longest line, and the longest other text. A table has at most one line a rank.
inline constexpr std::size_t kLongestLine = std::size_t{64} << 10;

class FrameSocket {
 public:
  // `longest`: of a frame's body; the other side may not send a longer one.
  FrameSocket(UniqueFd fd, std::size_t longest) : fd_(std::move(fd)), longest_(longest) {}

  int fd() const noexcept { return fd_.get(); }
  // Waits until the kernel has the whole frame. Returns false if the other side is gone, or does
  // not read until the deadline.
  bool send(Frame::Type type, std::span<const std::uint8_t> body, Deadline deadline);
  // The next frame, if it has arrived whole; never waits. Throws kParse if the bytes are no frame.
  std::optional<Frame> next();
  // True if the other side has closed the connection, and next() has returned all frames.
  bool has_ended() const noexcept { return has_ended_; }

 private:
  UniqueFd fd_;
  std::size_t longest_;
  std::vector<std::uint8_t> arrived_;
  bool has_ended_ = false;
};

}  // namespace dl::collectives::meet
