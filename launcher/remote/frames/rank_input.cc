#include "launcher/remote/frames/rank_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/error.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher::remote {

RankInput::RankInput(boost::asio::io_context& io, std::function<void(std::uint32_t)> on_taken)
    : pipe_(io), on_taken_(std::move(on_taken)) {
  Pipe pipe = make_pipe();
  if (::dup2(pipe.read.get(), STDIN_FILENO) < 0) throw_errno(errno, "dup2");
  ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
  pipe_.assign(pipe.write.release());
}

void RankInput::take(const std::string& bytes) {
  if (ends_) return;
  unwritten_ += bytes;
  ends_ = bytes.empty();
  if (!waits_) write_some();
}

void RankInput::write_some() {
  std::uint32_t taken = 0;
  while (!unwritten_.empty()) {
    const ssize_t n = ::write(pipe_.native_handle(), unwritten_.data(), unwritten_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    unwritten_.erase(0, static_cast<std::size_t>(n));
    taken += static_cast<std::uint32_t>(n);
  }
  if (taken > 0) on_taken_(taken);
  if (unwritten_.empty()) {
    if (ends_) pipe_.close();
    return;
  }
  waits_ = true;
  pipe_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                   [this](const boost::system::error_code& error) {
                     waits_ = false;
                     if (!error) write_some();
                   });
}

}  // namespace dl::launcher::remote
