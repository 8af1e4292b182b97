// A child process of a test: started with pipes, read while it runs, waited for with a deadline,
// and dead at the latest when the object goes. Also finds everything that a process left behind.
//
// Output is collected by a thread of its own, so that the child never waits for the test.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/gate.h"
#include "tests/support/program.h"

namespace dl::tests {

// What stands in the environment of a process and of all that it starts, and nowhere else.
inline std::string new_mark() {
  static std::atomic<int> next{0};
  return "DLRUN_TEST_MARK=" + std::to_string(::getpid()) + "." + std::to_string(next++);
}

// Live processes (no zombies) with this entry in their environment.
inline std::vector<pid_t> processes_with(const std::string& mark) {
  std::vector<pid_t> found;
  DIR* const proc = ::opendir("/proc");
  if (proc == nullptr) throw std::runtime_error("opendir /proc");
  while (const dirent* entry = ::readdir(proc)) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0 || pid == ::getpid()) continue;
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    std::string variable;
    while (std::getline(file, variable, '\0') && variable != mark) {
    }
    if (variable == mark) found.push_back(pid);
  }
  ::closedir(proc);
  return found;
}

// As `killall` knows it; empty: there is no such process.
inline std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// The letter of a process's state in /proc, as 'S', 'T' or 'Z'; 0: there is no such process.
inline char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);  // does not throw if the process has ended
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? '\0' : text[name_end + 2];
}

class Process {
 public:
  struct Options {
    std::vector<std::string> environment =
        {};              // added to the test's own, or in place of entries there
    int stdin_fd = -1;   // -1: /dev/null
    int stdout_fd = -1;  // -1: collected in out()
    int stderr_fd = -1;  // -1: collected in err()
  };

  explicit Process(const std::vector<std::string>& argv) : Process(argv, Options()) {}
  Process(const std::vector<std::string>& argv, const Options& options) : mark_(new_mark()) {
    int out[2], err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe2");
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    if (options.stdin_fd >= 0) {
      ::posix_spawn_file_actions_adddup2(&actions, options.stdin_fd, 0);
    } else {
      ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    }
    ::posix_spawn_file_actions_adddup2(&actions,
                                       options.stdout_fd >= 0 ? options.stdout_fd : out[1], 1);
    ::posix_spawn_file_actions_adddup2(&actions,
                                       options.stderr_fd >= 0 ? options.stderr_fd : err[1], 2);

    std::vector<std::string> entries = options.environment;
    entries.push_back(mark_);
    for (char** old = environ; *old != nullptr; ++old) {
      const std::string text = *old;
      const std::string name = text.substr(0, text.find('=') + 1);
      const bool replaced = std::any_of(entries.begin(), entries.end(),
                                        [&](const std::string& e) { return e.starts_with(name); });
      if (!replaced) entries.push_back(text);
    }
    std::vector<char*> envp, args;
    for (std::string& entry : entries) envp.push_back(entry.data());
    envp.push_back(nullptr);
    std::vector<std::string> copy = argv;
    for (std::string& argument : copy) args.push_back(argument.data());
    args.push_back(nullptr);
    // Its signals are those of any program, also if ctest runs under nohup or in the background.
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t all, none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    const int failed =
        ::posix_spawnp(&pid_, args[0], &actions, &attributes, args.data(), envp.data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    ::close(err[1]);
    if (failed != 0) {
      ::close(out[0]);
      ::close(err[0]);
      throw std::runtime_error("cannot start " + argv[0]);
    }
    reader_ = std::thread([this, o = out[0], e = err[0]] { collect(o, e); });
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    // One that is being made while it looks is seen by the next look.
    eventually([this] {
      const std::vector<pid_t> left = processes_with(mark_);
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
      return left.empty();
    });
    reader_.join();
  }

  pid_t pid() const { return pid_; }
  const std::string& mark() const { return mark_; }
  void signal(int number) const { ::kill(pid_, number); }

  // The exit code, 128+n for signal n; throws if it does not end in time.
  int wait(std::chrono::milliseconds limit = kPatience) {
    const bool in_time = eventually(limit, [this] { return has_ended(); });
    if (!in_time) {
      throw std::runtime_error("still running after " + std::to_string(limit.count()) +
                               " ms; out: " + out() + "; err: " + err());
    }
    // Its output is complete once no process holds the pipes.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return closed_; });
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }
  bool has_ended() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }

  std::string out() const {
    const std::lock_guard lock(mutex_);
    return out_;
  }
  std::string err() const {
    const std::lock_guard lock(mutex_);
    return err_;
  }
  // False if the text does not appear in time.
  bool wait_for_out(const std::string& text, std::chrono::milliseconds limit = kPatience) const {
    return wait_for(out_, text, limit);
  }
  bool wait_for_err(const std::string& text, std::chrono::milliseconds limit = kPatience) const {
    return wait_for(err_, text, limit);
  }

 private:
  bool wait_for(const std::string& stream, const std::string& text,
                std::chrono::milliseconds limit) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return stream.find(text) != std::string::npos; });
  }
  void collect(int out, int err) {
    pollfd ends[] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    std::vector<char> part(1 << 16);
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
      ::poll(ends, 2, -1);
      for (pollfd& end : ends) {
        if (end.fd < 0 || end.revents == 0) continue;
        const ssize_t n = ::read(end.fd, part.data(), part.size());
        const std::lock_guard lock(mutex_);
        if (n > 0) {
          (end.fd == out ? out_ : err_).append(part.data(), static_cast<std::size_t>(n));
        } else {
          ::close(end.fd);
          end.fd = -1;
        }
        changed_.notify_all();
      }
    }
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  std::string mark_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::thread reader_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string out_, err_;
  bool closed_ = false;
};

// -1: the text is not there.
inline int number_after(const std::string& text, const std::string& in) {
  const std::size_t at = in.find(text);
  return at == std::string::npos ? -1 : std::atoi(in.c_str() + at + text.size());
}

// Of a job whose two ranks wait for `gate`, say "up PID" once they do, and then end one after the
// other: dlrun sleeps meanwhile, and learns of both ends at once and in their order.
inline bool end_in_order_while_asleep(const Process& dlrun, const Gate& gate) {
  if (!dlrun.wait_for_out("[rank 0] up ") || !dlrun.wait_for_out("[rank 1] up ")) return false;
  const pid_t second = number_after("[rank 1] up ", dlrun.out());
  dlrun.signal(SIGSTOP);
  if (!eventually([&] { return state_of(dlrun.pid()) == 'T'; })) return false;
  gate.open();
  // The supervisor has told of an end when the process is gone and it waits for the next one.
  const bool are_told = eventually([&] {
    if (state_of(second) != '\0') return false;
    const std::vector<pid_t> left = processes_with(dlrun.mark());
    return std::ranges::all_of(
        left, [&](pid_t pid) { return pid == dlrun.pid() || state_of(pid) == 'S'; });
  });
  dlrun.signal(SIGCONT);
  return are_told;
}

}  // namespace dl::tests
