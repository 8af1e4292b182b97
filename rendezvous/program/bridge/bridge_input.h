// BridgeInput: the lines that dlrun writes to the bridge.
//
// One thread.
#pragma once

#include <cstdint>
#include <string>

namespace dl::rendezvous {

class BridgeInput {
 public:
  enum class State : std::uint8_t { kLine, kNothing, kClosed, kTooLong };

  explicit BridgeInput(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  // Takes the next line. kNothing: no line is complete yet; call read() when the descriptor is
  // readable. kTooLong: dlrun sends something that is not a line.
  State next(std::string& line);
  void read();
  bool is_closed() const { return closed_; }

  // A failure contains up to 40 KiB of its rank's output, and JSON may need six bytes for each
  // byte.
  static constexpr std::size_t kLongestLine = 1 << 20;

 private:
  int fd_;
  std::string buffer_;
  bool closed_ = false;
};

}  // namespace dl::rendezvous
