#include "launcher/process/warden/warden_client.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <utility>

#include "core/base/system/machine/limits.h"
#include "core/base/system/process/shell.h"
#include "launcher/process/descendants.h"

namespace dl::launcher {

WardenClient::WardenClient(boost::asio::io_context& io, WardenHandle handle)
    : pid_(handle.pid),
      first_supervisor_(std::move(handle.first_supervisor)),
      channel_(
          io, std::move(handle.channel), [this](const Message& message) { on_message(message); },
          [this] { wait_for_end(); }) {}

UniqueFd WardenClient::begin_generation() {
  if (first_supervisor_) return std::move(first_supervisor_);
  auto [ours, supervisors] = make_channel();
  Message begin;
  begin.kind = MessageKind::kBegin;
  begin.fds.push_back(std::move(supervisors));
  begin.fd_numbers.push_back(0);
  channel_.send(std::move(begin));
  return std::move(ours);
}

void WardenClient::wake() {
  if (pid_ > 0) ::kill(pid_, SIGCONT);
}

void WardenClient::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void WardenClient::wait_for_end() {
  if (pid_ <= 0) return;
  int status = 0;
  pid_t ended;
  do {
    ended = ::waitpid(pid_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  const bool is_known = ended == pid_;
  pid_ = -1;
  if (events_.on_gone) events_.on_gone(is_known ? std::optional<int>(status) : std::nullopt);
}

std::uint32_t WardenClient::start_helper(Helper helper,
                                         std::function<void(const Message&)> on_news) {
  Message spawn;
  spawn.kind = MessageKind::kSpawn;
  spawn.slot = next_slot_++;
  spawn.text = std::move(helper.path);
  spawn.argv = std::move(helper.argv);
  spawn.environment = std::move(helper.environment);
  for (auto& [fd, number] : helper.fds) {
    spawn.fds.push_back(std::move(fd));
    spawn.fd_numbers.push_back(number);
  }
  const std::uint32_t slot = spawn.slot;
  helpers_[slot] = std::move(on_news);
  channel_.send(std::move(spawn));
  return slot;
}

void WardenClient::signal_helper(std::uint32_t slot, int signal) {
  channel_.send(signal_message(slot, signal));
}

void WardenClient::end_orphans() {
  signal_children(SIGKILL);
  for (auto& [slot, on_news] : std::exchange(helpers_, {})) {
    Message ended;
    ended.kind = MessageKind::kExited;
    ended.slot = slot;
    ended.number = SIGKILL;
    on_news(ended);
  }
}

void WardenClient::on_message(const Message& message) {
  if (message.kind == MessageKind::kSwept) {
    if (events_.on_swept) events_.on_swept(message.number);
    return;
  }
  if (message.kind == MessageKind::kNoSupervisor) {
    if (events_.on_no_supervisor) events_.on_no_supervisor(message.number);
    return;
  }
  const auto found = helpers_.find(message.slot);
  if (found == helpers_.end()) return;
  const auto on_news = found->second;  // it may start another helper
  if (message.kind != MessageKind::kStarted) helpers_.erase(found);
  on_news(message);
}

std::string how_helper_ended(const Message& news) {
  return news.kind == MessageKind::kNotStarted
             ? fmt::format("could not be started: {}", spawn_error_text(news.number))
             : how_it_ended(news.number);
}

}  // namespace dl::launcher
