#include "launcher/remote/ask/ask_hosts.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/process/shell.h"
#include "core/base/system/unique_fd.h"
#include "core/base/text/name_list.h"
#include "core/base/text/printable.h"
#include "launcher/cli/read/shell_text.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/process/own_process.h"
#include "launcher/process/time_of_day.h"
#include "launcher/remote/ssh/ssh.h"

namespace dl::launcher::remote {
namespace {

using rendezvous::Deadline;

constexpr std::size_t kMostText = 64U << 20;
constexpr std::size_t kMostSaidByHost = 4096;
constexpr std::chrono::seconds kBetweenRemarks{5};
constexpr std::size_t kMostAtOnce = 64;

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// One host's ssh, from its start to its end.
class Asked {
 public:
  Asked(HostQuestion question, AgentCommand command, std::string dlrun)
      : question_(std::move(question)), command_(std::move(command)), dlrun_(std::move(dlrun)) {}
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  Asked(Asked&&) = delete;
  Asked& operator=(Asked&&) = delete;
  ~Asked() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    end();
  }

  void start() {
    began_ns_ = now_ns();
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
    out_.reset(ends[0]);
    const UniqueFd out(ends[1]);
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
    err_.reset(ends[0]);
    const UniqueFd err(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
    const std::vector<char*> argv = pointers_to(command_.argv);
    const int failed =
        ::posix_spawn(&pid_, command_.path.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed == 0) {
      process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
      return;
    }
    pid_ = -1;
    error_ = fmt::format("host {}: {}: {}", host(), command_.path, std::strerror(failed));
  }
  const std::string& host() const { return question_.host; }
  bool is_open() const { return pid_ > 0 && (out_ || err_ || process_); }
  std::array<int, 3> fds() const { return {out_.get(), err_.get(), process_.get()}; }

  // Reads what has come from one of fds().
  void read_from(int fd) {
    if (fd == process_.get()) {
      process_.reset();
      return;
    }
    UniqueFd& from = fd == out_.get() ? out_ : err_;
    std::string& text = fd == out_.get() ? text_ : said_;
    std::array<char, 65536> part;
    const ssize_t n = ::read(fd, part.data(), part.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
      from.reset();
      ended_ns_ = now_ns();
      return;
    }
    text.append(part.data(), static_cast<std::size_t>(n));
    if (&text == &said_ && said_.size() > kMostSaidByHost)
      said_.erase(0, said_.size() - kMostSaidByHost);
    if (text_.size() > kMostText) give_up(fmt::format("host {} answers without an end", host()));
  }
  void give_up(const std::string& why) {
    error_ = why;
    out_.reset();
    err_.reset();
    process_.reset();
  }
  HostAnswer answer() {
    end();
    HostAnswer answer{.host = host(),
                      .text = std::move(text_),
                      .began_ns = began_ns_,
                      .ended_ns = ended_ns_,
                      .error = error_};
    if (!error_.empty()) return answer;
    // Without an answer, the login or ssh itself has failed.
    if (answer.text.empty() && status_ != 0) {
      answer.error = why_not_started(host(), command_, {status_, said_, {}}, dlrun_);
    }
    answer.exit_code = shell_exit_code(status_);
    return answer;
  }

 private:
  void end() {
    if (pid_ <= 0) return;
    if (!error_.empty()) ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

  HostQuestion question_;
  AgentCommand command_;
  std::string dlrun_;
  pid_t pid_ = -1;
  int status_ = 0;
  std::int64_t began_ns_ = 0;
  std::int64_t ended_ns_ = 0;
  UniqueFd out_;
  UniqueFd err_;
  // Readable when ssh has ended: it may close its streams and live on. Empty before Linux 5.3.
  UniqueFd process_;
  std::string text_;
  std::string said_;
  std::string error_;
};

// Reads all answers of `asked`, or gives up at the deadline.
void read_answers(std::vector<std::unique_ptr<Asked>>& asked, const AskHostsOptions& options) {
  const Deadline deadline = Deadline::after(options.patience);
  Deadline remark = Deadline::after(kBetweenRemarks);
  for (;;) {
    std::vector<pollfd> entries;
    std::vector<Asked*> owners;
    std::vector<std::string> waiting;
    for (const auto& one : asked) {
      if (!one->is_open()) continue;
      waiting.push_back(one->host());
      for (const int fd : one->fds()) {
        if (fd < 0) continue;
        entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
        owners.push_back(one.get());
      }
    }
    if (entries.empty()) return;
    const int ready =
        ::poll(entries.data(), entries.size(), Deadline::earlier(deadline, remark).poll_timeout());
    if (ready < 0 && errno != EINTR) throw_errno(errno, "poll");
    if (deadline.has_passed()) {
      for (const auto& one : asked) {
        if (!one->is_open()) continue;
        one->give_up(fmt::format("host {} has not answered within {} s", one->host(),
                                 options.patience.count()));
      }
      return;
    }
    if (remark.has_passed()) {
      if (options.on_waiting) options.on_waiting(waiting);
      remark = Deadline::after(kBetweenRemarks);
    }
    for (std::size_t i = 0; ready > 0 && i < entries.size(); ++i) {
      if (entries[i].revents != 0 && owners[i]->is_open()) owners[i]->read_from(entries[i].fd);
    }
  }
}

}  // namespace

HostChoice read_hosts(const SubcommandLine& line) {
  Options options;
  for (const auto& [name, value] : line.options) {
    if (name != "--hosts" && name != "--hostfile" && name != "--ssh") continue;
    const OptionRow& row = option_named(name);
    row.read(options, {.row = &row, .value = value, .variable = {}});
  }
  HostChoice choice{.hosts = {}, .ssh = read::shell_words("--ssh", options.where.ssh)};
  for (const HostSlots& host : options.where.hosts) choice.hosts.push_back(host.host);
  return choice;
}

AskHostsOptions asking(const HostChoice& choice, std::chrono::seconds patience) {
  return {
      .ssh = choice.ssh,
      .patience = patience,
      .on_waiting = [](const std::vector<std::string>& hosts) {
        write_error(printable(fmt::format("dlrun: waiting for {}\n", detail::name_list(hosts))));
      }};
}

std::vector<HostAnswer> ask_hosts(const std::vector<HostQuestion>& questions,
                                  const AskHostsOptions& options) {
  const std::string dlrun = own_file();
  std::vector<HostAnswer> answers;
  for (std::size_t begin = 0; begin < questions.size(); begin += kMostAtOnce) {
    const std::size_t end = std::min(begin + kMostAtOnce, questions.size());
    std::vector<std::unique_ptr<Asked>> asked;
    for (std::size_t i = begin; i < end; ++i) {
      asked.push_back(std::make_unique<Asked>(
          questions[i], command_on(options.ssh, questions[i].host, dlrun, questions[i].words),
          dlrun));
      asked.back()->start();
    }
    read_answers(asked, options);
    for (const auto& one : asked) answers.push_back(one->answer());
  }
  return answers;
}

std::string not_understood(const std::string& host) {
  return fmt::format("host {}: its answer is not understood; is its dlrun of another version?",
                     host);
}

}  // namespace dl::launcher::remote
