#include "core/base/system/machine/cgroup.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>

#include "core/base/system/small_file.h"

namespace dl {
namespace {

// The text of a file; empty if it cannot be read, which means "no such limit".
std::string text_of(const std::string& path) {
  return small_file(path).value_or("");
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The number in the line "NAME NUMBER" of a file of such lines.
std::optional<double> named_number(std::string_view text, const std::string& name) {
  const std::string start = name + " ";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(start)) return number(line.substr(start.size()));
  }
  return std::nullopt;
}

// "50000 100000\n" or "max 100000\n"
std::optional<double> quota_of_v2(const std::string& folder) {
  const std::string text = text_of(folder + "/cpu.max");
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto granted = number(std::string_view(text).substr(0, space));
  const auto period = number(std::string_view(text).substr(space + 1));
  if (!granted || !period || *granted <= 0 || *period <= 0) return std::nullopt;
  return *granted / *period;
}

std::optional<double> quota_of_v1(const std::string& folder) {
  const auto granted = number(text_of(folder + "/cpu.cfs_quota_us"));
  const auto period = number(text_of(folder + "/cpu.cfs_period_us"));
  if (!granted || !period || *granted <= 0 || *period <= 0) return std::nullopt;
  return *granted / *period;
}

std::optional<double> memory_left(const std::string& limit, const std::string& used,
                                  const std::string& statistics, const std::string& unused_files) {
  const auto most = number(text_of(limit));
  const auto now = number(text_of(used));
  if (!most || !now) return std::nullopt;
  const double unused = named_number(text_of(statistics), unused_files).value_or(0);
  return std::max(*most - *now + unused, 0.0);
}

std::optional<double> memory_left_of_v2(const std::string& folder) {
  return memory_left(folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat",
                     "inactive_file");
}

std::optional<double> memory_left_of_v1(const std::string& folder) {
  return memory_left(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes",
                     folder + "/memory.stat", "total_inactive_file");
}

std::optional<double> pids_of(const std::string& folder) {
  return number(text_of(folder + "/pids.max"));
}

// Calls a function for each hierarchy that may have `controller`: version 2, and the controller's
// own of version 1. `path`: this process's group there, "" for the root.
void for_each_hierarchy(
    const std::string& root, std::string_view controller,
    const std::function<void(const std::string& folder, const std::string& path, bool v2)>& visit) {
  // Lines "0::/a/b" (version 2) and "4:cpu,cpuacct:/a/b" (version 1).
  const std::string groups = text_of(root + "/proc/self/cgroup");
  std::string_view rest = groups;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string_view path = line.substr(second + 1);
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    visit(v2 ? root + "/sys/fs/cgroup" : fmt::format("{}/sys/fs/cgroup/{}", root, controller),
          path == "/" ? "" : std::string(path), v2);
  }
}

using Limit = std::optional<double> (*)(const std::string& folder);

// The lowest limit of all groups of `controller` that contain this process.
std::optional<double> least(const std::string& root, std::string_view controller, Limit of_v1,
                            Limit of_v2) {
  std::optional<double> smallest;
  for_each_hierarchy(root, controller, [&](const std::string& folder, std::string path, bool v2) {
    for (;;) {
      const std::optional<double> limit = (v2 ? of_v2 : of_v1)(folder + path);
      if (limit && (!smallest || *limit < *smallest)) smallest = limit;
      if (path.empty()) break;
      path.erase(path.rfind('/'));
    }
  });
  return smallest;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
  return least(root, "cpu", &quota_of_v1, &quota_of_v2);
}

std::optional<std::uint64_t> memory_left_by_cgroup(const std::string& root) {
  const std::optional<double> left = least(root, "memory", &memory_left_of_v1, &memory_left_of_v2);
  // In version 1 "no limit" is a number close to 2^63.
  if (!left || *left > static_cast<double>(std::uint64_t{1} << 60)) return std::nullopt;
  return static_cast<std::uint64_t>(*left);
}

std::optional<std::uint64_t> pids_limit(const std::string& root) {
  const std::optional<double> limit = least(root, "pids", &pids_of, &pids_of);
  if (!limit) return std::nullopt;
  return static_cast<std::uint64_t>(*limit);
}

std::optional<std::uint64_t> memory_kills(const std::string& root) {
  std::optional<double> kills;
  for_each_hierarchy(root, "memory", [&](const std::string& folder, std::string path, bool v2) {
    // A container may see its own group as the root; groups above it count foreign processes.
    if (::access((folder + path).c_str(), F_OK) != 0) path.clear();
    const std::string file = folder + path + (v2 ? "/memory.events" : "/memory.oom_control");
    if (const auto found = named_number(text_of(file), "oom_kill")) kills = found;
  });
  if (!kills) return std::nullopt;
  return static_cast<std::uint64_t>(*kills);
}

}  // namespace dl
