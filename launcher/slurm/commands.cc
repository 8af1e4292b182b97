#include "launcher/slurm/commands.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/unique_fd.h"

namespace dl::launcher {
namespace {

constexpr std::chrono::seconds kPatienceWithSlurm{20};

struct Answer {
  int status = 0;    // as waitpid() gives it
  std::string text;  // stdout and stderr
};

// Runs one of SLURM's programs, found along PATH.
Answer ask_slurm(std::vector<std::string> line) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  // SLURM_TIME_FORMAT would change what is read here.
  std::string format = "SLURM_TIME_FORMAT=standard";
  std::vector<char*> envp = {format.data()};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "SLURM_TIME_FORMAT=", 18) != 0) envp.push_back(*entry);
  }
  envp.push_back(nullptr);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  DL_CHECK(failed == 0, kNotFound, "{} could not be run: {}; is SLURM's bin folder in PATH?",
           line[0], std::strerror(failed));
  write_end.reset();

  Answer answer;
  const Deadline deadline = Deadline::after(kPatienceWithSlurm);
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
  DL_CHECK(!late, kTimeout, "{} has not answered within {} s; does SLURM's controller run?",
           line[0], kPatienceWithSlurm.count());
  return answer;
}

std::string_view first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> end_of_slurm_job(const std::string& job) {
  const Answer answer = ask_slurm({"squeue", "--noheader", "--jobs", job, "--Format", "EndTime"});
  DL_CHECK(answer.status == 0, kNotFound, "squeue does not know when job {} ends: {}", job,
           first_line(answer.text));
  return parse_slurm_time(first_line(answer.text));
}

std::optional<std::chrono::system_clock::time_point> parse_slurm_time(std::string_view text) {
  if (text == "NONE" || text == "N/A" || text == "Unknown") return std::nullopt;
  std::tm parts{};
  const std::string copy(text);
  const char* const end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  DL_CHECK(end != nullptr && *end == '\0', kParse,
           "squeue names `{}` as the end of the job, wanted a time like 2026-11-22T16:10:11",
           text.substr(0, 80));
  parts.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&parts));
}

void end_slurm_step(const std::string& step) noexcept {
  try {
    ask_slurm({"scancel", "--signal=TERM", step});
  } catch (...) {
    // The other nodes give up at their --join-timeout.
  }
}

}  // namespace dl::launcher
