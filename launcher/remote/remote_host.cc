#include "launcher/remote/remote_host.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/version.h"
#include "launcher/process/rank_files.h"
#include "launcher/verdict/report.h"

namespace dl::launcher::remote {
namespace {

// Of a login's noise, whose last line says why it failed.
constexpr std::size_t kMostSaid = std::size_t{16} << 10;

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

RemoteHost::RemoteHost(boost::asio::io_context& io, WardenClient& warden, int node,
                       AgentCommand command, std::string dlrun, Start start,
                       RemoteHostEvents& events)
    : io_(io),
      warden_(warden),
      node_(node),
      command_(std::move(command)),
      dlrun_(std::move(dlrun)),
      start_(std::move(start)),
      events_(events),
      err_(io) {}

void RemoteHost::connect() {
  connecting_ = true;
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
  err_.assign(err.read.release());
  channel_ = std::make_unique<Channel>(
      io_, std::move(out.read), std::move(in.write), Decoder(/*after_magic=*/true),
      Channel::Events{.on_value = [this](Value value) { on_value(std::move(value)); },
                      .on_closed =
                          [this](const std::string& wrong) {
                            in_ended_ = true;
                            wrong_ = wrong;
                            if (!wrong.empty()) kill();
                            check_gone();
                          }});
  Helper helper;
  helper.path = command_.path;
  helper.argv = command_.argv;
  helper.fds.emplace_back(std::move(in.read), STDIN_FILENO);
  helper.fds.emplace_back(std::move(out.write), STDOUT_FILENO);
  helper.fds.emplace_back(std::move(err.write), STDERR_FILENO);
  slot_ = warden_.start_helper(std::move(helper), [this](const Message& news) { on_news(news); });
  read_said();
}

void RemoteHost::kill() {
  if (connecting_ && !status_ && not_started_.empty()) warden_.signal_helper(slot_, SIGKILL);
}

void RemoteHost::on_value(Value value) {
  if (!answered_) {
    if (const auto* hello = std::get_if<Hello>(&value)) greet(*hello);
    return;
  }
  std::visit(
      Overloaded{
          [&](const Refused& v) { fail(v.exit_code, fmt::format("host {}: {}", name(), v.text)); },
          [&](const Listening& v) { events_.on_listening(*this, v.endpoints); },
          [&](const Sentence& v) { events_.on_sentence(*this, v.text); },
          [&](const Attempt& v) { events_.on_attempt(*this, v); },
          [&](const RankNews& v) { events_.on_rank(v); },
          [&](const Output& v) { events_.on_output(*this, v); },
          [&](Decided& v) { events_.on_decided(*this, std::move(v.verdict)); },
          [&](const RankFile& v) { events_.on_file(v); },
          [&](const Over& v) {
            over_ = true;
            events_.on_over(*this, v);
          },
          [](const auto&) {},  // what only a front sends
      },
      value);
}

void RemoteHost::greet(const Hello& hello) {
  if (hello.protocol != kProtocolVersion || hello.version != kVersion) {
    fail(1, fmt::format("host {} has dlrun {} (protocol {}) at {}, this one is {} (protocol {}); "
                        "install one version on all hosts",
                        name(), hello.version, hello.protocol, dlrun_, kVersion, kProtocolVersion));
    return;
  }
  answered_ = true;
  // A login's banner and its warnings; what comes from now on is the agent's.
  said_.clear();
  send(start_);
  start_.key.clear();
  events_.on_answered(*this);
}

void RemoteHost::fail(int exit_code, const std::string& text) {
  if (std::exchange(failed_, true)) return;
  close();
  events_.on_failed(*this, exit_code, text);
}

void RemoteHost::on_news(const Message& news) {
  if (news.kind == MessageKind::kStarted) return;
  if (news.kind == MessageKind::kNotStarted) {
    not_started_ = fmt::format("{}: {}", command_.path, std::strerror(news.number));
  } else {
    status_ = news.number;
  }
  check_gone();
}

void RemoteHost::read_said() {
  std::array<char, 4096> part;
  while (true) {
    const ssize_t n = ::read(err_.native_handle(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      err_ended_ = true;
      check_gone();
      return;
    }
    said_.append(part.data(), static_cast<std::size_t>(n));
  }
  if (answered_) {
    for (std::size_t end; (end = said_.find('\n')) != std::string::npos;) {
      const std::string line = said_.substr(0, end);
      said_.erase(0, end + 1);
      if (!line.empty()) events_.on_sentence(*this, line);
    }
  }
  if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
  err_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                  [this](const boost::system::error_code& error) {
                    if (!error) read_said();
                  });
}

// ssh has ended. A process that the login left behind may hold its streams.
void RemoteHost::check_gone() {
  const bool has_ended = status_ || !not_started_.empty();
  if (gone_ || !has_ended || !in_ended_) return;
  if (!err_ended_ && !not_started_.empty()) return;
  gone_ = true;
  if (!over_ && !failed_) {
    std::string text;
    if (!not_started_.empty()) {
      text = fmt::format("host {}: {}", name(), not_started_);
    } else if (!answered_ && wrong_.empty()) {
      text = why_not_started(name(), command_, *status_, said_, dlrun_);
    } else if (!wrong_.empty()) {
      text = fmt::format("host {}: what its dlrun says is not understood: {}", name(), wrong_);
    } else {
      text =
          fmt::format("host {} was lost: {} {}{}{}", name(), command_.by_ssh ? "ssh" : "its dlrun",
                      how_it_ended(*status_), said_.empty() ? "" : ": ", said_);
    }
    fail(1, text);
  }
  events_.on_gone(*this);
}

}  // namespace dl::launcher::remote
