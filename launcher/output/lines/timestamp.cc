#include "launcher/output/lines/rank_lines.h"

#include <fmt/format.h>

#include <ctime>

namespace dl::launcher {

std::string timestamp(std::chrono::system_clock::time_point time) {
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("{}.{:03} ", text, since_epoch.count() % 1000);
}

}  // namespace dl::launcher
