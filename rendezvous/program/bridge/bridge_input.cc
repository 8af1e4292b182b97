#include "rendezvous/program/bridge/bridge_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace dl::rendezvous {

BridgeInput::State BridgeInput::next(std::string& line) {
  const std::size_t end = buffer_.find('\n');
  if (end != std::string::npos) {
    line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return State::kLine;
  }
  if (buffer_.size() > kLongestLine) return State::kTooLong;
  return closed_ ? State::kClosed : State::kNothing;
}

void BridgeInput::read() {
  std::array<char, 4096> bytes;
  const ssize_t n = ::read(fd_, bytes.data(), bytes.size());
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) closed_ = true;
  if (n > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(n));
}

}  // namespace dl::rendezvous
