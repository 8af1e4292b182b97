#include "launcher/output/logs/log_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "core/base/error.h"
#include "core/base/system/random_bits.h"

namespace dl::launcher {
namespace {

namespace fs = std::filesystem;

std::string failed_to(std::string_view what, const std::string& path, int error) {
  return fmt::format("--log-dir: {} {}: {}", what, path, std::strerror(error));
}

UniqueFd new_log(const std::string& path, std::string& error, int flags = O_EXCL) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | flags | O_APPEND | O_CLOEXEC, 0666));
  if (!file) error = failed_to("create", path, errno);
  return file;
}

// The link changes in one step, so that a reader who follows it finds the old run or the new one.
std::string make_link(const std::string& log_dir, const std::string& run) {
  const std::string link = fmt::format("{}/{}", log_dir, kLatestRun);
  const std::string draft = fmt::format("{}/.{}.{}", log_dir, run, ::getpid());
  if (::symlink(run.c_str(), draft.c_str()) != 0) return failed_to("link", draft, errno);
  if (::rename(draft.c_str(), link.c_str()) == 0) return "";
  const int error = errno;
  ::unlink(draft.c_str());
  return failed_to("link", link, error);
}

}  // namespace

std::string new_run_name(const std::string& job) {
  constexpr std::size_t kMostOfJob = 64;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char date[32];
  std::strftime(date, sizeof date, "%Y%m%d_%H%M%S", &local);
  std::string name = job.substr(0, kMostOfJob);
  for (char& letter : name) {
    const bool fits = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' ||
                      letter == '_' || letter == '.';
    if (!fits) letter = '_';
  }
  if (name.starts_with('.')) name.front() = '_';
  return fmt::format("{}_{}_{:08x}", name, date, static_cast<std::uint32_t>(random_bits()));
}

LogFolder make_log_folder(const std::string& log_dir, const std::string& run, int node, int attempt,
                          bool with_own, const std::vector<int>& ranks) {
  LogFolder made;
  if (run.empty() || run.front() == '.' || run.find('/') != std::string::npos) {  // node 0 gave it
    made.error = fmt::format("--log-dir: `{}` is no name for a folder of one run", run);
    return made;
  }
  made.run = fmt::format("{}/{}", log_dir, run);
  made.attempt = fmt::format("{}/{}{}", made.run, kAttemptPrefix, attempt);
  std::error_code error;
  fs::create_directories(made.attempt, error);
  if (error) {
    made.error = failed_to("create", made.attempt, error.value());
    return made;
  }
  if (with_own) {
    made.own = new_log(fmt::format("{}/node_{}.log", made.run, node), made.error,
                       attempt == 0 ? O_EXCL : 0);
  }
  for (const int rank : ranks) {
    const std::string own = fmt::format("{}/{}", made.attempt, rank);
    fs::create_directory(own, error);
    if (error) made.error = failed_to("create", own, error.value());
    LogFolder::Files files;
    if (made.error.empty()) files.out = new_log(own + "/stdout.log", made.error);
    if (made.error.empty()) files.err = new_log(own + "/stderr.log", made.error);
    if (!made.error.empty()) return made;
    made.ranks.push_back(std::move(files));
  }
  if (attempt == 0) made.no_link = make_link(log_dir, run);
  return made;
}

std::string newest_attempt(const std::string& path) {
  std::error_code error;
  const fs::path latest = fs::path(path) / kLatestRun;
  const fs::path run = fs::is_directory(latest, error) ? latest : fs::path(path);
  int newest = -1;
  for (fs::directory_iterator at(run, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(kAttemptPrefix)) continue;
    const char* const digits = name.c_str() + std::strlen(kAttemptPrefix);
    int number = -1;
    const auto [rest, bad] = std::from_chars(digits, name.c_str() + name.size(), number);
    if (bad == std::errc() && *rest == '\0') newest = std::max(newest, number);
  }
  return newest < 0 ? run.string() : (run / fmt::format("{}{}", kAttemptPrefix, newest)).string();
}

}  // namespace dl::launcher
