#include "launcher/process/input_pump.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{64} << 10;

bool is_in_background(int fd) {
  return ::isatty(fd) == 1 && ::tcgetpgrp(fd) != ::getpgrp();
}

}  // namespace

InputPump::InputPump(boost::asio::io_context& io, UniqueFd input,
                     std::function<void(std::string)> on_read)
    : io_(io), input_(std::move(input)), ready_(io), on_read_(std::move(on_read)) {
  UniqueFd watch(::epoll_create1(EPOLL_CLOEXEC));
  if (!watch) throw_errno(errno, "epoll_create1");
  epoll_event event{};
  event.events = EPOLLIN;
  is_always_ready_ = ::epoll_ctl(watch.get(), EPOLL_CTL_ADD, input_.get(), &event) != 0;
  ready_.assign(watch.release());
}

void InputPump::give(std::uint32_t bytes) {
  room_ += bytes;
  pump();
}

void InputPump::pump() {
  if (ended_ || waits_ || room_ == 0 || is_in_background(input_.get())) return;
  waits_ = true;
  if (is_always_ready_) {
    boost::asio::post(io_, [this] { read_some(); });
    return;
  }
  ready_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (!error) read_some();
                    });
}

void InputPump::read_some() {
  waits_ = false;
  if (is_in_background(input_.get())) return;
  // Another reader of this input may have been faster.
  pollfd ready{input_.get(), POLLIN, 0};
  if (is_always_ready_ || ::poll(&ready, 1, 0) == 1) {
    std::string part(std::min<std::size_t>(kMostAtOnce, room_), '\0');
    const ssize_t n = ::read(input_.get(), part.data(), part.size());
    if (n >= 0 || (errno != EINTR && errno != EAGAIN)) {
      part.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
      room_ -= static_cast<std::uint32_t>(part.size());
      ended_ = part.empty();
      on_read_(std::move(part));
    }
  }
  pump();
}

}  // namespace dl::launcher
