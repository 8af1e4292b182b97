#include "launcher/process/ask/ask.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/unique_fd.h"

namespace dl::launcher {
namespace {

// Every pipe has room for this many bytes.
constexpr std::size_t kMostInput = 4096;

}  // namespace

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

Answer ask(std::vector<std::string> line, const AskOptions& options) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  const UniqueFd input_end(ends[0]);
  UniqueFd input_from(ends[1]);
  const std::string& input = options.input;
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
  const std::vector<char*> argv = pointers_to(line);
  std::vector<std::string> environment = options.environment;
  const std::vector<char*> own = pointers_to(environment);
  char* const* const envp = environment.empty() ? environ : own.data();
  const char* const path = options.path.empty() ? argv[0] : options.path.c_str();
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, path, &actions, nullptr, argv.data(), envp);
  ::posix_spawn_file_actions_destroy(&actions);
  DL_CHECK(failed == 0, kNotFound, "{} could not be run: {}", line[0], std::strerror(failed));
  write_end.reset();

  Answer answer;
  const rendezvous::Deadline deadline = rendezvous::Deadline::after(options.patience);
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
  DL_CHECK(!late, kTimeout, "{} has not answered within {} s", line[0], options.patience.count());
  return answer;
}

}  // namespace dl::launcher
