#include "launcher/remote/ask/ask_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "launcher/process/ask/ask.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/start/spawn.h"
#include "launcher/process/time_of_day.h"

namespace dl::launcher::remote {
namespace {

using rendezvous::Deadline;

constexpr std::size_t kMostText = 64U << 20;
constexpr std::size_t kMostSaidByHost = 4096;
constexpr std::chrono::seconds kBetweenRemarks{5};

}  // namespace

AskChild::~AskChild() {
  is_given_up_ = true;
  end();
}

void AskChild::start(AskLine line) {
  began_ns_ = now_ns();
  time_to_end_ = line.time_to_end;
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const UniqueFd input = line.input ? std::move(line.input) : open_null();
  const std::array<FdAt, 3> fds = {FdAt{.from = input.get(), .to = STDIN_FILENO},
                                   FdAt{.from = out.write.get(), .to = STDOUT_FILENO},
                                   FdAt{.from = err.write.get(), .to = STDERR_FILENO}};
  const std::vector<char*> argv = pointers_to(line.argv);
  const std::vector<char*> environment = pointers_to(line.environment);
  const Spawned spawned = Spawner().spawn(
      {.path = line.path.c_str(),
       .argv = argv.data(),
       .envp = line.environment.empty() ? environ : environment.data(),
       .fds = fds,
       .cpus = {},
       .death_signal = SIGTERM});  // srun passes it on; SIGKILL would leave its tasks alone
  if (spawned.pid < 0) {
    failure_ = line.path + ": " + std::strerror(spawned.error);
    return;
  }
  pid_ = spawned.pid;
  for (const Pipe* const pipe : {&out, &err}) ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

void AskChild::read_from(int fd) {
  if (fd == process_.get()) {
    read_rest();
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
  if (&text == &said_ && on_said) pass_on_said({part.data(), static_cast<std::size_t>(n)});
  if (said_.size() > kMostSaidByHost) said_.erase(0, said_.size() - kMostSaidByHost);
  if (&text == &text_ && on_text) on_text(text_);
  if (text_.size() > kMostText) {
    failure_ = "answers without an end";
    close();
  }
}

void AskChild::pass_on_said(std::string_view part) {
  said_line_ += part;
  for (std::size_t end; (end = said_line_.find('\n')) != std::string::npos;) {
    on_said(said_line_.substr(0, end));
    said_line_.erase(0, end + 1);
  }
  if (said_line_.size() > kMostSaidByHost) said_line_.clear();
}

// The program has ended, so all that it has written is in the pipes.
void AskChild::read_rest() {
  constexpr int kMostReads = 16;  // a process that it has left behind may write on
  for (const UniqueFd* const from : {&out_, &err_}) {
    for (int i = 0; i < kMostReads && *from; ++i) read_from(from->get());
  }
  out_.reset();
  err_.reset();
  process_.reset();
  ended_ns_ = now_ns();
}

void AskChild::close() {
  is_given_up_ = true;
  out_.reset();
  err_.reset();
  process_.reset();
}

void AskChild::end() noexcept {
  if (pid_ <= 0) return;
  if (is_given_up_) ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void read_answers(const std::vector<AskChild*>& children, std::chrono::seconds patience,
                  const std::function<void(const std::vector<std::string>&)>& on_waiting) {
  std::vector<AskedGroup> groups;
  for (const AskChild* const child : children) {
    if (child->is_open()) groups.push_back(child->group());
  }
  const AskGuard guard(groups);
  Deadline deadline = Deadline::after(patience);
  Deadline remark = Deadline::after(kBetweenRemarks);
  for (bool is_late = false;;) {
    std::vector<pollfd> entries;
    std::vector<AskChild*> owners;
    std::vector<std::string> waiting;
    for (AskChild* const child : children) {
      if (!child->is_open()) continue;
      waiting.insert(waiting.end(), child->hosts_.begin(), child->hosts_.end());
      for (const int fd : child->fds()) {
        if (fd < 0) continue;
        entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
        owners.push_back(child);
      }
    }
    if (entries.empty()) return;
    const int ready =
        ::poll(entries.data(), entries.size(), Deadline::earlier(deadline, remark).poll_timeout());
    if (ready < 0 && errno != EINTR) throw_errno(errno, "poll");
    if (deadline.has_passed()) {
      std::chrono::seconds more{0};
      for (AskChild* const child : children) {
        if (!child->is_open()) continue;
        child->is_late_ = true;
        if (is_late || child->time_to_end_.count() == 0) {
          child->close();
          continue;
        }
        ask_to_end(child->group());
        more = std::max(more, child->time_to_end_);
      }
      is_late = true;
      deadline = Deadline::after(more);
      continue;
    }
    if (remark.has_passed()) {
      if (on_waiting && !waiting.empty() && !is_late) on_waiting(waiting);
      remark = Deadline::after(kBetweenRemarks);
    }
    for (std::size_t i = 0; ready > 0 && i < entries.size(); ++i) {
      if (entries[i].revents != 0 && owners[i]->is_open()) owners[i]->read_from(entries[i].fd);
    }
  }
}

}  // namespace dl::launcher::remote
