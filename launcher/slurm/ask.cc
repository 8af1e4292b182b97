#include "launcher/slurm/commands.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/unique_fd.h"

namespace dl::launcher {
namespace {

constexpr std::chrono::seconds kPatience{20};
// Every pipe has room for this many bytes.
constexpr std::size_t kMostInput = 4096;

// Users set these for their own calls: another format of times, a filter, another cluster, a
// question before a signal is sent.
bool changes_answers(std::string_view entry) {
  for (const std::string_view begin :
       {"SLURM_TIME_FORMAT=", "SLURM_CLUSTERS=", "SQUEUE_", "SCANCEL_", "SCONTROL_"}) {
    if (entry.starts_with(begin)) return true;
  }
  return false;
}

}  // namespace

Answer ask_program(std::vector<std::string> line, const std::string& input) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  const UniqueFd input_end(ends[0]);
  UniqueFd input_from(ends[1]);
  DL_CHECK(input.size() <= kMostInput, kInvalidArgument, "{} would get {} bytes, at most {} fit",
           line[0], input.size(), kMostInput);
  if (::write(input_from.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
    throw_errno(errno, "write to a pipe");
  }
  input_from.reset();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input_end.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string format = "SLURM_TIME_FORMAT=standard";
  std::vector<char*> envp = {format.data()};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!changes_answers(*entry)) envp.push_back(*entry);
  }
  envp.push_back(nullptr);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  DL_CHECK(failed == 0, kNotFound, "{} could not be run: {}; is SLURM's bin folder in PATH?",
           line[0], std::strerror(failed));
  write_end.reset();

  Answer answer;
  const rendezvous::Deadline deadline = rendezvous::Deadline::after(kPatience);
  for (;;) {
    pollfd entry{.fd = read_end.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) break;
    std::array<char, 512> part;
    const ssize_t n = ::read(read_end.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    answer.text.append(part.data(), static_cast<std::size_t>(n));
  }
  const bool late = deadline.has_passed();
  if (late) ::kill(child, SIGKILL);
  while (::waitpid(child, &answer.status, 0) < 0 && errno == EINTR) {
  }
  DL_CHECK(!late, kTimeout,
           "{} has not answered within {} s; does the cluster's daemon run that it asks?", line[0],
           kPatience.count());
  return answer;
}

}  // namespace dl::launcher
