#include "launcher/jobs/find/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "collectives/record/format.h"
#include "core/base/error.h"
#include "core/base/text/number.h"
#include "launcher/process/descendants.h"

namespace dl::launcher::jobs {
namespace {

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

Folder open_folder(const std::string& path) {
  return {::opendir(path.c_str()), &::closedir};
}

// Throws if `error` is of this process, and not of the one that it looks at.
void check_descriptors(int error, pid_t pid) {
  if (error == EMFILE || error == ENFILE) {
    throw_errno(error, fmt::format("process {} cannot be looked at", pid));
  }
}

// The values of one line of /proc/PID/status: "Uid:\t1000\t1000\t1000\t1000".
std::vector<long> status_line(pid_t pid, std::string_view name) {
  errno = 0;
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  if (!file) check_descriptors(errno, pid);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    std::vector<long> values;
    for (long value = 0; words >> value;) values.push_back(value);
    return values;
  }
  return {};
}

ProcessStat stat_of(pid_t pid) {
  errno = 0;
  ProcessStat stat = read_stat(fmt::format("/proc/{}", pid));
  if (stat.state == 0) check_descriptors(errno, pid);
  return stat;
}

// Real, effective, saved and file-system user: a set-uid program is not its caller's.
bool is_own(pid_t pid) {
  const std::vector<long> users = status_line(pid, "Uid:");
  const auto own = static_cast<long>(::geteuid());
  return users.size() == 4 && std::ranges::all_of(users, [&](long user) { return user == own; });
}

// A memfd with this name that is open in the process, opened anew for reading. `link`: the target
// of its link in /proc.
UniqueFd reopen(const std::string& path, std::string_view link, std::string_view name) {
  if (link != fmt::format("/memfd:{} (deleted)", name)) return {};
  // A file may have such a name, too, and open() must not wait for it.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  const int seals = fd ? ::fcntl(fd.get(), F_GET_SEALS) : -1;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return {};
  return fd;
}

bool has_size_of_recorder(int fd) {
  struct stat file{};
  return ::fstat(fd, &file) == 0 && file.st_size == static_cast<off_t>(collectives::record::kBytes);
}

}  // namespace

std::map<pid_t, ProcessStat> own_processes() {
  std::map<pid_t, ProcessStat> found;
  const Folder proc = open_folder("/proc");
  if (!proc) throw_errno(errno, "/proc cannot be read");
  DL_CHECK(read_stat("/proc/self").is_alive(), kIo,
           "the processes in /proc cannot be read: it is not mounted, or too few files may be open "
           "(ulimit -n)");
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = read_number<pid_t>(entry->d_name);
    struct stat folder{};
    if (!pid || ::fstatat(::dirfd(proc.get()), entry->d_name, &folder, 0) != 0 ||
        folder.st_uid != ::geteuid()) {
      continue;
    }
    ProcessStat stat = stat_of(*pid);
    if (stat.is_alive()) found.emplace(*pid, std::move(stat));
  }
  return found;
}

std::optional<FoundDlrun> look_at_dlrun(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/fd", pid);
  const Folder fds = open_folder(path);
  if (!fds) {
    check_descriptors(errno, pid);
    return std::nullopt;
  }
  if (!is_own(pid)) return std::nullopt;
  FoundDlrun found{.pid = pid, .stat = stat_of(pid), .card = {}, .recorders = {}};
  if (!found.stat.is_alive()) return std::nullopt;
  bool has_card = false;
  while (const dirent* entry = ::readdir(fds.get())) {
    std::array<char, PATH_MAX> target;
    const ssize_t n = ::readlinkat(::dirfd(fds.get()), entry->d_name, target.data(), target.size());
    if (n <= 0) continue;
    const std::string_view link(target.data(), static_cast<std::size_t>(n));
    const std::string file = fmt::format("{}/{}", path, entry->d_name);
    errno = 0;
    if (UniqueFd card = reopen(file, link, kCardName)) {
      if (std::optional<CardContent> content = read_card(card.get())) {
        found.card = std::move(*content);
        has_card = true;
      }
    } else if (check_descriptors(errno, pid);
               UniqueFd recorder = reopen(file, link, "flight-recorder")) {
      if (has_size_of_recorder(recorder.get())) found.recorders.push_back(std::move(recorder));
    }
  }
  // The pid may be that of another process by now.
  if (!has_card || stat_of(pid).start_ticks != found.stat.start_ticks) {
    return std::nullopt;
  }
  return found;
}

std::vector<FoundDlrun> find_dlruns(const std::map<pid_t, ProcessStat>& processes) {
  // Every dlrun that runs a job has a warden.
  std::set<pid_t> parents;
  for (const auto& [pid, stat] : processes) {
    if (stat.name == kWardenName) parents.insert(stat.parent);
  }
  std::vector<FoundDlrun> found;
  for (const pid_t pid : parents) {
    if (!processes.contains(pid)) continue;
    if (std::optional<FoundDlrun> dlrun = look_at_dlrun(pid)) found.push_back(std::move(*dlrun));
  }
  return found;
}

std::map<pid_t, pid_t> rank_processes(const FoundDlrun& dlrun,
                                      const std::map<pid_t, ProcessStat>& processes) {
  const auto child_of = [&](pid_t parent, std::string_view name) {
    const auto found = std::ranges::find_if(processes, [&](const auto& entry) {
      return entry.second.parent == parent && entry.second.name == name;
    });
    return found == processes.end() ? -1 : found->first;
  };
  std::map<pid_t, pid_t> ranks;
  const pid_t warden = child_of(dlrun.pid, kWardenName);
  const pid_t supervisor = warden < 0 ? -1 : child_of(warden, kSupervisorName);
  if (supervisor < 0) return ranks;
  const std::size_t depth = status_line(dlrun.pid, "NSpid:").size();
  for (const auto& [pid, stat] : processes) {
    if (stat.parent != supervisor) continue;
    const std::vector<long> numbers = status_line(pid, "NSpid:");
    // A rank may be in a further namespace below.
    if (depth == 0 || numbers.size() < depth) continue;
    ranks.emplace(static_cast<pid_t>(numbers[depth - 1]), pid);
  }
  return ranks;
}

bool has_ended(const FoundDlrun& dlrun, pid_t pid) {
  return pid > 0 && status_line(dlrun.pid, "NSpid:").size() == 1 && !stat_of(pid).is_alive();
}

}  // namespace dl::launcher::jobs
