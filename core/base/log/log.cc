// spdlog from its headers: loading its library takes a third of a millisecond in each process, and
// Debian's runs with no libstdc++ older than GCC 12's.
#define SPDLOG_HEADER_ONLY
#include "core/base/log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "core/base/env.h"
#include "core/base/log/warn_once.h"
#include "core/base/mutex.h"
#include "core/base/text/printable.h"

namespace dl::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) noexcept {
  switch (level) {
    case Level::kTrace:
      return spdlog::level::trace;
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::warn;
}

std::string pattern(std::string_view who) {
  std::string escaped;
  for (const char c : who) {
    if (c == '%') escaped += '%';
    escaped += c;
  }
  return fmt::format("[dlrun %H:%M:%S.%e %L{}{}] %v", escaped.empty() ? "" : " ", escaped);
}

spdlog::logger& logger() {
  // Never destroyed: threads and destructors may log until the very end. spdlog's sinks want a
  // shared_ptr.
  static spdlog::logger& instance = *[] {
    auto* made = new spdlog::logger("dlrun", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(pattern(""));
    const std::string wanted = env::get(env::Var::kLog).value_or("warning");
    const spdlog::level::level_enum level = spdlog::level::from_str(wanted);
    const bool is_known = level != spdlog::level::off || wanted == "off";
    made->set_level(is_known ? level : spdlog::level::warn);
    if (!is_known) {
      made->warn("{} is `{}`, wanted trace, debug, info, warning, error or off",
                 env::name_of(env::Var::kLog), wanted);
    }
    return made;
  }();
  return instance;
}

// Empty in a program.
constinit std::optional<Log> forward;

}  // namespace

void forward_to(const Log& program) noexcept {
  forward = program;
}

bool enabled(Level level) noexcept {
  if (forward) return forward->enabled(level);
  return logger().should_log(to_spdlog(level));
}

void set_level(Level level) noexcept {
  logger().set_level(to_spdlog(level));
}

void set_who(std::string_view who) {
  logger().set_pattern(pattern(who));
}

void write(Level level, std::string_view line) noexcept {
  if (forward) return forward->write(level, line);
  try {
    logger().log(to_spdlog(level), spdlog::string_view_t(printable(line)));
  } catch (...) {
    // A failed log write cannot be reported anywhere.
  }
}

}  // namespace dl::log

bool dl::detail::warns() noexcept {
  return log::enabled(log::Level::kWarning);
}

namespace {

struct WrittenLines {
  dl::Mutex mutex;
  std::set<std::string, std::less<>> lines DL_GUARDED_BY(mutex);
};

WrittenLines& written_lines() {
  // Never destroyed, like the logger.
  static auto& written = *new WrittenLines;
  return written;
}

}  // namespace

void dl::detail::forget_written_lines() noexcept {
  WrittenLines& written = written_lines();
  const Lock lock(written.mutex);
  written.lines.clear();
}

void dl::detail::write_once(std::string_view line) noexcept {
  constexpr std::size_t kMost = 1000;
  try {
    {
      WrittenLines& written = written_lines();
      const Lock lock(written.mutex);
      if (written.lines.size() == kMost || !written.lines.emplace(line).second) return;
    }
    log::write(log::Level::kWarning, line);
  } catch (...) {
    // Like a log line that cannot be written.
  }
}
