#include "core/base/system/process/shell.h"

#include <fmt/core.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "core/base/env.h"

namespace dl {

std::vector<std::string> candidates_in_path(const std::string& name) {
  const std::string path = env::get(env::Var::kPath).value_or("/usr/local/bin:/usr/bin:/bin");
  std::vector<std::string> files;
  for (std::string_view rest = path;;) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    files.push_back(folder.empty() ? name : std::string(folder) + "/" + name);
    if (folder.size() == rest.size()) return files;
    rest.remove_prefix(folder.size() + 1);
  }
}

int why_not_executable(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return errno;
  if (S_ISDIR(found.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

int shell_exit_code(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("was killed by signal {} ({}){}", WTERMSIG(wait_status),
                       signal_name(WTERMSIG(wait_status)),
                       WCOREDUMP(wait_status) ? " and left a core dump" : "");
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(wait_status));
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  if (name != nullptr) return fmt::format("SIG{}", name);
  if (signal < SIGRTMIN || signal > SIGRTMAX) return fmt::format("signal {}", signal);
  return signal == SIGRTMIN ? "SIGRTMIN" : fmt::format("SIGRTMIN+{}", signal - SIGRTMIN);
}

int signal_number(std::string_view name) {
  constexpr int kLastSignal = 64;
  const std::string_view short_name = name.starts_with("SIG") ? name.substr(3) : name;
  for (int signal = 1; signal <= kLastSignal; ++signal) {
    const char* const abbreviation = ::sigabbrev_np(signal);
    if (abbreviation != nullptr && short_name == abbreviation) return signal;
    if (name == std::to_string(signal)) return signal;
  }
  return 0;
}

}  // namespace dl
