#include "collectives/join/meet/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/error.h"
#include "rendezvous/net/socket/socket.h"
#include "rendezvous/net/wire.h"

namespace dl::collectives::meet {
namespace {

// A frame begins with the length of its body (4 bytes) and its type.
constexpr std::size_t kHeader = 5;

}  // namespace

bool FrameSocket::send(Frame::Type type, std::span<const std::uint8_t> body, Deadline deadline) {
  rendezvous::WireWriter frame;
  frame.put(static_cast<std::uint32_t>(body.size()));
  frame.put(static_cast<std::uint8_t>(type));
  frame.put_bytes(body);
  std::span<const std::uint8_t> rest = frame.bytes();
  while (!rest.empty()) {
    const ssize_t n = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      rest = rest.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (deadline.has_passed()) return false;
      rendezvous::poll_one(fd_.get(), POLLOUT, deadline, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::optional<Frame> FrameSocket::next() {
  std::array<std::uint8_t, 16384> buffer;
  for (;;) {
    if (arrived_.size() >= kHeader) {
      rendezvous::WireReader reader(arrived_);
      const auto size = reader.take<std::uint32_t>();
      const auto type = reader.take<std::uint8_t>();
      DL_CHECK(size <= longest_, kParse, "a frame of {} bytes came, wanted at most {}", size,
               longest_);
      DL_CHECK(type >= 1 && type <= static_cast<std::uint8_t>(Frame::Type::kMissing), kParse,
               "a frame of the unknown type {} came", type);
      if (arrived_.size() >= kHeader + size) {
        const auto begin = arrived_.begin() + kHeader;
        Frame frame{.type = static_cast<Frame::Type>(type), .body = {begin, begin + size}};
        arrived_.erase(arrived_.begin(), begin + size);
        return frame;
      }
    }
    if (has_ended_) return std::nullopt;
    const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
      arrived_.insert(arrived_.end(), buffer.begin(), buffer.begin() + n);
    } else if (n < 0 && errno == EAGAIN) {
      return std::nullopt;
    } else if (n == 0 || errno != EINTR) {
      has_ended_ = true;
    }
  }
}

}  // namespace dl::collectives::meet
