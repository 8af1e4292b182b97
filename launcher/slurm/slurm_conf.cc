#include "launcher/slurm/slurm_conf.h"

#include <strings.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/base/env.h"

namespace dl::launcher {
namespace {

constexpr const char* kBlanks = " \t\r";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string_view without_leading_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text;
}

bool begins_with(std::string_view text, std::string_view name) {
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): it reads as many bytes as it is told
  return text.size() >= name.size() && ::strncasecmp(text.data(), name.data(), name.size()) == 0;
}

// Removes the first line of `text` and returns it without its comment and leading blanks.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return without_leading_blanks(line.substr(0, line.find('#')));
}

bool includes_files(std::string_view slurm_conf) {
  while (!slurm_conf.empty()) {
    if (begins_with(take_line(slurm_conf), "include ")) return true;
  }
  return false;
}

}  // namespace

std::string read_slurm_conf() {
  if (const auto path = env::get(env::Var::kSlurmConf)) return content_of(*path);
  std::string text = content_of("/etc/slurm/slurm.conf");  // Debian's path
  return text.empty() ? content_of("/run/slurm/conf/slurm.conf") : text;
}

std::optional<std::string> setting_in(std::string_view slurm_conf, std::string_view name) {
  std::optional<std::string> value;
  while (!slurm_conf.empty()) {
    std::string_view line = take_line(slurm_conf);
    if (!begins_with(line, name)) continue;
    line = without_leading_blanks(line.substr(name.size()));
    if (!line.starts_with('=')) continue;
    line = without_leading_blanks(line.substr(1));
    value = line.substr(0, line.find_first_of(kBlanks));
  }
  return value;
}

std::string munge_socket_in(std::string_view slurm_conf) {
  constexpr std::string_view kSocket = "socket=";
  const std::string info = setting_in(slurm_conf, "AuthInfo").value_or("");
  const std::size_t begin = info.find(kSocket);
  if (begin == std::string::npos) return "";
  const std::string path = info.substr(begin + kSocket.size());
  return path.substr(0, path.find(','));
}

bool may_use_munge(std::string_view slurm_conf) {
  const std::optional<std::string> type = setting_in(slurm_conf, "AuthType");
  return !type || ::strcasecmp(type->c_str(), "auth/munge") == 0;
}

// srun's own rule: in a list of plugins, only task/affinity binds by --cpu-bind.
bool may_bind_tasks(std::string_view slurm_conf) {
  if (slurm_conf.empty() || includes_files(slurm_conf)) return true;
  const std::string plugins = setting_in(slurm_conf, "TaskPlugin").value_or("");
  return plugins.find("affinity") != std::string::npos;
}

}  // namespace dl::launcher
