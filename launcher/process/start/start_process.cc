#include "launcher/process/start/start_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace dl::launcher {
namespace {

// Above all descriptor numbers of children.
constexpr int kFirstSafeFd = 256;

std::vector<char*> merged_environment(const std::vector<std::string>& entries) {
  std::vector<char*> merged;
  for (char** old = environ; *old != nullptr; ++old) {
    const char* const equals = std::strchr(*old, '=');
    const std::size_t name = equals == nullptr ? 0 : static_cast<std::size_t>(equals - *old) + 1;
    bool replaced = false;
    for (const std::string& entry : entries) {
      if (entry[0] == (*old)[0] && entry.compare(0, name, *old, name) == 0) replaced = true;
    }
    if (!replaced) merged.push_back(*old);
  }
  for (const std::string& entry : entries) merged.push_back(const_cast<char*>(entry.c_str()));
  merged.push_back(nullptr);
  return merged;
}

}  // namespace

Message start_process(Spawner& spawner, const RankPrograms& programs, Message& spawn) {
  std::vector<char*> argv;
  const bool is_rank = spawn.argv.empty();
  const RankProgram helper{.path = spawn.text, .argv = spawn.argv, .directory = ""};
  const RankProgram& program =
      is_rank ? programs.all.at(static_cast<std::size_t>(spawn.number)) : helper;
  for (const std::string& argument : program.argv) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const std::vector<char*> environment = merged_environment(spawn.environment);

  std::vector<FdAt> fds;
  for (std::size_t i = 0; i < spawn.fds.size(); ++i) {
    UniqueFd& fd = spawn.fds[i];
    // In the child, no descriptor may be overwritten before it has got its own number.
    if (std::find(spawn.fd_numbers.begin(), spawn.fd_numbers.end(), fd.get()) !=
        spawn.fd_numbers.end()) {
      fd.reset(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstSafeFd));
    }
    fds.push_back({fd.get(), spawn.fd_numbers[i]});
  }
  const Spawned spawned =
      spawner.spawn({.path = program.path.c_str(),
                     .argv = argv.data(),
                     .envp = environment.data(),
                     .directory = program.directory.empty() ? nullptr : program.directory.c_str(),
                     .fds = fds,
                     .cpus = spawn.cpus,
                     .open_files = is_rank ? &programs.open_files : nullptr,
                     // A helper survives the warden, because it tells other nodes that the warden
                     // is gone.
                     .death_signal = is_rank ? SIGKILL : 0});
  Message answer;
  answer.slot = spawn.slot;
  if (spawned.pid < 0) {
    answer.kind = MessageKind::kNotStarted;
    answer.number = spawned.error;
    answer.text = spawned.what;
  } else {
    answer.kind = MessageKind::kStarted;
    answer.number = spawned.pid;
  }
  return answer;
}

}  // namespace dl::launcher
