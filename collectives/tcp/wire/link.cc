#include "collectives/tcp/wire/link.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestSilence = 10s;

}  // namespace

Link::Link(UniqueFd fd) noexcept : fd_(std::move(fd)) {
  // connect() sets TCP_USER_TIMEOUT. With it Linux would also end the connection of a peer that
  // acknowledges but does not read (a stopped rank, a full inbox); look_for_silence() tells these
  // cases from a dead host.
  const unsigned never = 0;
  static_cast<void>(::setsockopt(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof never));
}

void Link::on_events(std::uint32_t events) noexcept {
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) writable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hangup_ = true;
}

std::string_view Link::health_text() const noexcept {
  switch (health_) {
    case Health::kOpen:
      return refuses_ ? "broken" : "open";
    case Health::kClosed:
      return "closed";
    case Health::kReset:
      return "reset";
    case Health::kSilent:
      return "silent";
    case Health::kGarbage:
      return "carrying bytes that are not a dlrun frame";
  }
  return "open";
}

void Link::fail(Health health) noexcept {
  if (health_ == Health::kOpen) health_ = health;
  readable_ = false;
  writable_ = false;
}

// EPIPE is not a reset: the peer had closed its end in good order before.
void Link::note_reset(int error) noexcept {
  was_reset_ |= error == ECONNRESET || error == ECONNABORTED || error == ENOTCONN;
}

std::size_t Link::receive(std::byte* to, std::size_t most) noexcept {
  if (!readable_) return 0;
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), to, most, 0);
    if (got > 0) {
      // A short read: the rest comes with a new edge, unless the end of the stream is already here.
      if (static_cast<std::size_t>(got) < most && !hangup_) readable_ = false;
      return static_cast<std::size_t>(got);
    }
    if (got == 0) {
      fail(was_reset_ ? Health::kReset : Health::kClosed);
      return 0;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      readable_ = false;
    } else {
      fail(errno == ETIMEDOUT ? Health::kSilent : Health::kReset);
    }
    return 0;
  }
}

const FrameHeader* Link::header() noexcept {
  if (header_) return &*header_;
  if (health_ == Health::kGarbage) return nullptr;
  if (end_ - begin_ < kHeaderBytes) {
    if (!readable_) return nullptr;
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    end_ += receive(buffer_.data() + end_, kBufferBytes - end_);
    if (end_ < kHeaderBytes) return nullptr;
  }
  header_ = decode(std::span<const std::byte, kHeaderBytes>(buffer_.data() + begin_, kHeaderBytes));
  if (!header_) {
    fail(Health::kGarbage);
    return nullptr;
  }
  begin_ += kHeaderBytes;
  payload_left_ = header_->length;
  return &*header_;
}

std::size_t Link::read(std::byte* to, std::size_t most) noexcept {
  most = std::min(most, payload_left_);
  if (most == 0) return 0;
  std::size_t done = std::min(most, end_ - begin_);
  if (done > 0) {
    std::memcpy(to, buffer_.data() + begin_, done);
    begin_ += done;
  }
  if (done < most) done += receive(to + done, most - done);
  payload_left_ -= done;
  return done;
}

void Link::send(const FrameHeader& header, const std::byte* payload) noexcept {
  encode(header, out_header_);
  out_payload_ = payload;
  out_bytes_ = header.length;
  out_done_ = 0;
  sending_ = true;
}

bool Link::flush() noexcept {
  const std::size_t total = kHeaderBytes + out_bytes_;
  while (writable_ && out_done_ < total) {
    iovec parts[2];
    std::size_t count = 0;
    if (out_done_ < kHeaderBytes) {
      parts[count++] = {out_header_.data() + out_done_, kHeaderBytes - out_done_};
    }
    if (out_bytes_ > 0) {
      const std::size_t skip = out_done_ < kHeaderBytes ? 0 : out_done_ - kHeaderBytes;
      // sendmsg() does not write through iov_base.
      parts[count++] = {const_cast<std::byte*>(out_payload_) + skip, out_bytes_ - skip};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) {
      out_done_ += static_cast<std::size_t>(sent);
      if (out_done_ < total) writable_ = false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      writable_ = false;
    } else if (errno != EINTR) {
      note_reset(errno);
      // Bytes that the peer sent before may still be unread: only writing is over.
      writable_ = false;
      refuses_ = true;
      hangup_ = true;
      readable_ = health_ == Health::kOpen;
    }
  }
  if (out_done_ < total) return false;
  sending_ = false;
  return true;
}

Link::Way Link::way() const noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (health_ != Health::kOpen ||
      ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return {};
  }
  return {.is_open = true,
          .is_busy = info.tcpi_unacked > 0,
          .since_acknowledged = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

bool Link::is_drained() const noexcept {
  int unsent = 0;
  return health_ != Health::kOpen || ::ioctl(fd_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

void Link::look_for_silence(Clock::time_point now) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (health_ != Health::kOpen ||
      ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return;
  }
  // Unacknowledged segments, or zero-window probes, which TCP repeats at growing intervals.
  if (info.tcpi_unacked == 0 && info.tcpi_probes == 0) {
    unanswered_since_.reset();
    return;
  }
  const Clock::time_point last_answer = now - std::chrono::milliseconds(info.tcpi_last_ack_recv);
  unanswered_since_ = std::max(unanswered_since_.value_or(now), last_answer);
  if (now - *unanswered_since_ < kLongestSilence) return;
  refuses_ = true;
  fail(Health::kSilent);
}

void Link::acknowledge_now() noexcept {
  const int on = 1;
  // Fails on a socket that is not TCP (tests), harmlessly.
  static_cast<void>(::setsockopt(fd_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on));
}

}  // namespace dl::collectives::tcp
