#include "launcher/process/start/spawn.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/base/sanitizers.h"
#include "launcher/process/start/program.h"

#if defined(__SANITIZE_ADDRESS__)
// The child runs on a stack that AddressSanitizer does not know.
#define DL_IN_BORROWED_MEMORY __attribute__((no_sanitize("address", "undefined")))
#else
#define DL_IN_BORROWED_MEMORY
#endif

namespace dl::launcher {
namespace {

constexpr const char* kShell = "/bin/sh";

struct Borrowed {
  const SpawnRequest* request;
  const cpu_set_t* cpus;
  std::size_t cpu_bytes;
  pid_t parent;
  int error;
  const char* what;
};

// Runs in the parent's memory: it makes only system calls, allocates nothing, and changes only
// `borrowed`.
DL_IN_BORROWED_MEMORY int child(void* argument) {
  auto* const borrowed = static_cast<Borrowed*>(argument);
  const SpawnRequest& request = *borrowed->request;
  const auto fail = [borrowed](const char* what) DL_IN_BORROWED_MEMORY {
    borrowed->error = errno;
    borrowed->what = what;
    ::_exit(127);
  };

  if (::setpgid(0, 0) != 0) fail("setpgid");
  if (request.death_signal != 0 && ::prctl(PR_SET_PDEATHSIG, request.death_signal) != 0) {
    fail("prctl");
  }
  if (::getppid() != borrowed->parent) ::_exit(127);  // it died before the line above
  if (borrowed->cpus != nullptr &&
      ::sched_setaffinity(0, borrowed->cpu_bytes, borrowed->cpus) != 0) {
    fail("sched_setaffinity");
  }
  if (request.directory != nullptr && ::chdir(request.directory) != 0) fail("chdir");
  for (const FdAt& fd : request.fds) {
    if (::dup2(fd.from, fd.to) < 0) fail("dup2");
  }
  if (request.open_files != nullptr && ::setrlimit(RLIMIT_NOFILE, request.open_files) != 0) {
    fail("setrlimit");
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  ::execve(request.path, request.argv, request.envp);
  fail("exec");
  return 0;
}

}  // namespace

Spawner::Spawner() : stack_(std::make_unique<std::byte[]>(kStackBytes)) {}

Spawned Spawner::spawn(const SpawnRequest& request) {
  const Spawned spawned = spawn_as_it_is(request);
  if (spawned.pid >= 0 || spawned.error != ENOEXEC || !is_shell_text(request.path)) return spawned;
  // A script without `#!`: shells run it themselves, and so does dlrun.
  std::vector<char*> argv = {const_cast<char*>(kShell), const_cast<char*>(request.path)};
  for (char* const* argument = request.argv + 1; *argument != nullptr; ++argument) {
    argv.push_back(*argument);
  }
  argv.push_back(nullptr);
  SpawnRequest in_shell = request;
  in_shell.path = kShell;
  in_shell.argv = argv.data();
  return spawn_as_it_is(in_shell);
}

Spawned Spawner::spawn_as_it_is(const SpawnRequest& request) {
  Borrowed borrowed{&request, nullptr, 0, ::getpid(), 0, "exec"};
  cpu_set_t* cpus = nullptr;
  if (!request.cpus.empty()) {
    const int room = *std::max_element(request.cpus.begin(), request.cpus.end()) + 1;
    cpus = CPU_ALLOC(room);
    borrowed.cpu_bytes = CPU_ALLOC_SIZE(room);
    CPU_ZERO_S(borrowed.cpu_bytes, cpus);
    for (const int cpu : request.cpus) CPU_SET_S(cpu, borrowed.cpu_bytes, cpus);
    borrowed.cpus = cpus;
  }

  // The parent sleeps until the child has executed or ended, so all of this lives long enough.
  const pid_t pid =
      ::clone(&child, stack_.get() + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, &borrowed);
  const int clone_error = errno;
  CPU_FREE(cpus);
  if (pid < 0) return {-1, clone_error, "clone"};
  if (borrowed.error != 0) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return {-1, borrowed.error, borrowed.what};
  }
  return {pid, 0, nullptr};
}

}  // namespace dl::launcher
