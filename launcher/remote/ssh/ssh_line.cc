#include "launcher/remote/ssh/ssh_line.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/system/process/shell.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher::remote {
namespace {

// Bytes of a login's output that are kept; its last line tells why it failed.
constexpr std::size_t kMostSaid = std::size_t{16} << 10;
// More than a pipe holds.
constexpr std::size_t kMostInTurn = std::size_t{2} << 20;

}  // namespace

SshLine::SshLine(boost::asio::io_context& io, WardenClient& warden, std::string host,
                 AgentCommand command, std::string dlrun)
    : warden_(warden),
      host_(std::move(host)),
      command_(std::move(command)),
      dlrun_(std::move(dlrun)),
      err_(io) {}

void SshLine::connect(Events events) {
  events_ = std::move(events);
  connecting_ = true;
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
  err_.assign(err.read.release());
  events_.on_open(std::move(out.read), std::move(in.write));
  Helper helper;
  helper.path = command_.path;
  helper.argv = command_.argv;
  helper.fds.emplace_back(std::move(in.read), STDIN_FILENO);
  helper.fds.emplace_back(std::move(out.write), STDOUT_FILENO);
  helper.fds.emplace_back(std::move(err.write), STDERR_FILENO);
  slot_ = warden_.start_helper(std::move(helper), [this](const Message& news) { on_news(news); });
  read_said();
}

void SshLine::on_answered() {
  answered_ = true;
  // Drops the login's banner and warnings. Later output is the agent's.
  said_.clear();
}

void SshLine::kill() {
  if (connecting_ && !status_ && not_started_.empty()) warden_.signal_helper(slot_, SIGKILL);
}

void SshLine::on_news(const Message& news) {
  if (news.kind == MessageKind::kStarted) return;
  if (news.kind == MessageKind::kNotStarted) {
    not_started_ = fmt::format("{}: {}", command_.path, std::strerror(news.number));
  } else {
    status_ = news.number;
  }
  take_said();
  events_.on_ended();
}

void SshLine::take_said() {
  std::array<char, 4096> part;
  for (std::size_t taken = 0; !err_ended_ && taken < kMostInTurn;) {
    const ssize_t n = ::read(err_.native_handle(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      err_ended_ = true;
      break;
    }
    said_.append(part.data(), static_cast<std::size_t>(n));
    taken += static_cast<std::size_t>(n);
  }
  if (answered_) {
    for (std::size_t end; (end = said_.find('\n')) != std::string::npos;) {
      std::string line = said_.substr(0, end);
      said_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();  // ssh's own lines on a terminal
      if (!line.empty()) events_.on_said(fmt::format("host {}: {}", host_, line));
    }
  }
  if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
}

void SshLine::read_said() {
  take_said();
  if (err_ended_) {
    events_.on_ended();
    return;
  }
  err_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                  [this](const boost::system::error_code& error) {
                    if (!error) read_said();
                  });
}

// A process that the login left behind may hold its streams.
bool SshLine::has_ended() const {
  return status_ || (!not_started_.empty() && err_ended_);
}

std::string SshLine::why_not_started(std::string_view noise) const {
  if (!not_started_.empty()) return fmt::format("host {}: {}", host_, not_started_);
  return remote::why_not_started(host_, command_, {*status_, said_, noise}, dlrun_);
}

std::string SshLine::how_it_was_lost() const {
  const std::string said = said_.substr(0, said_.find_last_not_of("\r\n") + 1);
  return fmt::format("host {} was lost: {} {}{}{}", host_, command_.by_ssh ? "ssh" : "its dlrun",
                     how_it_ended(status_.value_or(0)), said.empty() ? "" : ": ", said);
}

}  // namespace dl::launcher::remote
