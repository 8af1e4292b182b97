#include "launcher/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <string_view>

#include "core/base/error.h"
#include "core/base/unique_fd.h"

namespace dl::launcher {
namespace {

// The beginning of a small file of /proc or /sys; empty where it cannot be read, which there means
// "no such limit".
std::string small_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text) : 0;
  return std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0);
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// "50000 100000\n" or "max 100000\n"
std::optional<double> quota_of_v2(const std::string& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto granted = number(std::string_view(text).substr(0, space));
  const auto period = number(std::string_view(text).substr(space + 1));
  if (!granted || !period || *granted <= 0 || *period <= 0) return std::nullopt;
  return *granted / *period;
}

std::optional<double> quota_of_v1(const std::string& folder) {
  const auto granted = number(small_file(folder + "/cpu.cfs_quota_us"));
  const auto period = number(small_file(folder + "/cpu.cfs_period_us"));
  if (!granted || !period || *granted <= 0 || *period <= 0) return std::nullopt;
  return *granted / *period;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  const auto take = [&](std::optional<double> quota) {
    if (quota && (!least || *quota < *least)) least = quota;
  };
  // Lines "0::/a/b" (version 2) and "4:cpu,cpuacct:/a/b" (version 1). Each group up to the root
  // counts.
  const std::string groups = small_file(root + "/proc/self/cgroup");
  std::string_view rest = groups;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    std::string path(line.substr(second + 1));
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    while (true) {
      if (path == "/") path.clear();
      if (v2) {
        take(quota_of_v2(small_file(fmt::format("{}/sys/fs/cgroup{}/cpu.max", root, path))));
      } else {
        take(quota_of_v1(fmt::format("{}/sys/fs/cgroup/cpu{}", root, path)));
      }
      if (path.empty()) break;
      path.erase(path.rfind('/'));
    }
  }
  return least;
}

int Machine::usable_cores() const {
  int cores = std::max(1, static_cast<int>(cpus.size()));
  // A quota of 1.5 keeps two threads half busy; one thread would leave half a CPU unused.
  if (quota) cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(*quota))));
  return cores;
}

Machine this_machine() {
  Machine machine;
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) != 0) throw_errno(errno, "gethostname");
  machine.host = host;

  // The kernel's set may be larger than cpu_set_t on big machines.
  for (int room = CPU_SETSIZE;; room *= 2) {
    cpu_set_t* set = CPU_ALLOC(room);
    const std::size_t bytes = CPU_ALLOC_SIZE(room);
    const int failed = ::sched_getaffinity(0, bytes, set) == 0 ? 0 : errno;
    for (int cpu = 0; failed == 0 && cpu < room; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) machine.cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (failed == 0) break;
    if (failed != EINVAL || room > (1 << 20)) throw_errno(failed, "sched_getaffinity");
  }
  machine.quota = cpu_quota();
  return machine;
}

}  // namespace dl::launcher
