#include "launcher/process/start/program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/base/system/process/shell.h"
#include "core/base/system/unique_fd.h"

namespace dl::launcher {
namespace {

// A Python script without a `#!` line: the kernel leaves it to the shell.
bool lacks_interpreter(const std::string& path) {
  if (!path.ends_with(".py")) return false;
  char begin[2] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  return begin[0] != '#' || begin[1] != '!';
}

// 0, or the errno value with which the file cannot be executed.
int why_not(const std::string& path) {
  const int error = why_not_executable(path);
  return error == 0 && lacks_interpreter(path) ? ENOEXEC : error;
}

Program refused(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return {path, kExitNotFound,
            fmt::format("there is no program {} ({})", path, std::strerror(error))};
  }
  std::string text = fmt::format("{} cannot be executed: {}{}", path, std::strerror(error),
                                 error == ENOEXEC ? ": it has no `#!` line" : "");
  if (path.ends_with(".py")) {
    text += "; without --no-python it runs with python3";
  }
  return {path, kExitNotExecutable, text};
}

Program find_executable(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    const int error = why_not(name);
    return error == 0 ? Program{name, 0, ""} : refused(name, error);
  }
  Program close;  // found on the way, but not executable
  for (const std::string& candidate : candidates_in_path(name)) {
    const int error = why_not(candidate);
    if (error == 0) return {candidate, 0, ""};
    if ((error == EACCES || error == ENOEXEC) && close.path.empty())
      close = refused(candidate, error);
  }
  if (!close.path.empty()) return close;
  const std::string here = "./" + name;
  switch (const int error = why_not(here)) {
    case 0:
      return {name, kExitNotFound,
              fmt::format("{} is not on PATH; for the file in this folder write `{}`", name, here)};
    case ENOENT:
      break;
    case EISDIR:
      return {name, kExitNotFound,
              fmt::format("{0} is not on PATH, and {1} is a folder; for a Python package write "
                          "`-m {0}`",
                          name, here)};
    default:
      return {name, kExitNotFound,
              fmt::format("{} is not on PATH, and {} cannot be executed: {}", name, here,
                          std::strerror(error))};
  }
  return {name, kExitNotFound,
          fmt::format("there is no program {} on PATH ({})", name, std::strerror(ENOENT))};
}

// Checked here, because each rank's interpreter would report it and end with a code that means
// something else.
Program without_script(const std::string& script) {
  struct stat found{};
  if (::stat(script.c_str(), &found) != 0) {
    return {script, errno == ENOENT || errno == ENOTDIR ? kExitNotFound : kExitNotExecutable,
            errno == ENOENT || errno == ENOTDIR
                ? fmt::format("there is no script {} ({}); --no-python looks for a program of that "
                              "name",
                              script, std::strerror(errno))
                : fmt::format("{} cannot be read: {}", script, std::strerror(errno))};
  }
  if (::access(script.c_str(), R_OK) == 0) return {};
  return {script, kExitNotExecutable,
          fmt::format("{} cannot be read: {}", script, std::strerror(errno))};
}

bool answers(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return false;
  // Network, FUSE and memory file systems have no device.
  if (major(status.st_dev) != 0) return true;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    // Closes dlrun's streams: the child may outlive dlrun, whose readers must see the end of its
    // output.
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
    char byte = 0;
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool can_read = file >= 0 && ::read(file, &byte, 1) == 1;
    ::_exit(can_read && ::write(ends[1], &byte, 1) == 1 ? 0 : 1);
  }
  theirs.reset();
  constexpr int kPatienceMs = 1000;
  pollfd answer{ours.get(), POLLIN, 0};
  const bool ended = ::poll(&answer, 1, kPatienceMs) == 1;
  const bool has_read = (answer.revents & POLLIN) != 0;
  if (!ended) ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, ended ? 0 : WNOHANG);
  return has_read;
}

std::string path_in(const std::string& directory, const std::string& path) {
  return directory.empty() || path.starts_with('/') ? path : directory + "/" + path;
}

}  // namespace

Program find_program(const std::string& name, const std::string& script,
                     const std::string& directory) {
  const bool is_path = name.find('/') != std::string::npos;
  Program program = find_executable(is_path ? path_in(directory, name) : name);
  if (program.exit_code == 0) {
    program.can_be_read = answers(program.path);
  } else if (!script.empty()) {
    program.error += fmt::format(", which {} needs; PYTHON_EXEC may name another one", script);
  }
  if (script.empty() || program.exit_code != 0) return program;
  const Program missing = without_script(path_in(directory, script));
  return missing.exit_code == 0 ? program : missing;
}

}  // namespace dl::launcher
