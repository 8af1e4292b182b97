#include "launcher/remote/frames/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace dl::launcher::remote {
namespace {

using boost::asio::posix::stream_descriptor;

// Sent bytes are removed a megabyte at a time, and not after every frame.
constexpr std::size_t kCompactFrom = std::size_t{1} << 20;
// The most reads in one turn of the loop, so that signals and other agents get their turn.
constexpr int kMostReads = 8;
// More than a pipe holds.
constexpr int kMostReadsOfRest = 64;

void make_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) throw_errno(errno, "fcntl");
}

}  // namespace

Channel::Channel(boost::asio::io_context& io, UniqueFd in, UniqueFd out, Decoder decoder,
                 Events events)
    : in_(io), out_(io), decoder_(std::move(decoder)), events_(std::move(events)) {
  make_non_blocking(in.get());
  make_non_blocking(out.get());
  in_.assign(in.release());
  out_.assign(out.release());
  // Values that were read before are passed on from the loop, like all others.
  boost::asio::post(io, [this] {
    if (hand_out()) wait_to_read();
  });
}

void Channel::send(const Value& value) {
  if (closing_ || !out_.is_open()) return;
  const std::vector<std::uint8_t> frame = encode(value);
  unsent_.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  if (!waits_) write_some();
}

void Channel::close() {
  closing_ = true;
  if (!waits_) write_some();
}

void Channel::write_some() {
  while (out_.is_open()) {
    if (unsent() == 0) {
      unsent_.clear();
      at_ = 0;
      if (!closing_) return;
      boost::system::error_code ignored;
      [[maybe_unused]] const boost::system::error_code same = out_.close(ignored);
      return;
    }
    const ssize_t n = ::write(out_.native_handle(), unsent_.data() + at_, unsent());
    if (n >= 0) {
      at_ += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (at_ > kCompactFrom) unsent_.erase(0, std::exchange(at_, 0));
      wait_to_write();
      return;
    } else if (errno != EINTR) {
      at_ = unsent_.size();  // the other side reads no more; the end of `in` says so
      closing_ = true;
    }
  }
}

void Channel::wait_to_write() {
  waits_ = true;
  out_.async_wait(stream_descriptor::wait_write, [this](const boost::system::error_code& error) {
    waits_ = false;
    if (!error) write_some();
  });
}

bool Channel::flush(rendezvous::Deadline deadline) {
  while (out_.is_open() && unsent() > 0) {
    pollfd ready{out_.native_handle(), POLLOUT, 0};
    ::poll(&ready, 1, deadline.poll_timeout());
    write_some();
    if (deadline.has_passed()) return unsent() == 0;
  }
  return true;
}

void Channel::wait_to_read() {
  in_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (!error && read_some(kMostReads)) wait_to_read();
  });
}

// Returns false if the channel has ended.
bool Channel::read_some(int most_reads) {
  std::array<std::uint8_t, 64 * 1024> part;
  for (int i = 0; i < most_reads && !ended_; ++i) {
    const ssize_t n = ::read(in_.native_handle(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      end_here();
      return false;
    }
    decoder_.feed(std::span(part).first(static_cast<std::size_t>(n)));
    if (!hand_out()) return false;
  }
  return !ended_;
}

void Channel::end_reading() {
  if (read_some(kMostReadsOfRest)) end_here();
}

void Channel::end_here() {
  end(decoder_.is_empty() ? "" : "its last message is incomplete");
}

// Returns false if the channel has ended.
bool Channel::hand_out() {
  try {
    while (std::optional<Value> value = decoder_.next()) events_.on_value(std::move(*value));
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kParse) throw;
    end(error.what());
    return false;
  }
}

void Channel::end(const std::string& wrong) {
  if (std::exchange(ended_, true)) return;
  boost::system::error_code ignored;
  [[maybe_unused]] const boost::system::error_code same = in_.close(ignored);
  events_.on_closed(wrong);
}

}  // namespace dl::launcher::remote
