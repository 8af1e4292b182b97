#include "core/profiler/report/breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/profiler/report/text.h"

namespace dl::profiler {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;

// The total length that the ranges cover, in ns.
std::int64_t union_of(std::vector<Range> ranges) {
  std::ranges::sort(ranges);
  std::int64_t length = 0;
  std::int64_t reached = 0;
  for (const auto& [begin, end] : ranges) {
    const std::int64_t from = std::max(begin, reached);
    if (end > from) length += end - from;
    reached = std::max(reached, end);
  }
  return length;
}

// Whether the condition is true for a span around this one.
template <typename Condition>
bool is_inside(const ThreadLog& log, const Event& event, const Condition& condition) {
  for (std::int64_t at = event.parent; at >= 0;) {
    const Event& around = log.events[static_cast<std::size_t>(at)];
    if (condition(around)) return true;
    at = around.parent;
  }
  return false;
}

bool is_wait(const Event& event) noexcept {
  return !event.is_async &&
         (event.category == Category::kData || event.category == Category::kCommunication);
}

}  // namespace

Breakdown breakdown(const Recording& recording) {
  // Leaves out a step that the end of the recording cut short.
  const auto is_step = [&](const Event& event) {
    return event.category == Category::kStep && event.end_ns < recording.end_ns;
  };
  Breakdown result;
  std::vector<Range> steps;
  for (const ThreadLog& log : recording.threads) {
    if (log.tid != recording.main_tid) continue;
    for (const Event& event : log.events) {
      if (is_step(event)) steps.emplace_back(event.begin_ns, event.end_ns);
    }
  }
  result.steps = static_cast<std::int64_t>(steps.size());
  if (steps.empty()) steps.emplace_back(recording.begin_ns, recording.end_ns);
  result.wall_ns = union_of(steps);

  std::vector<Range> under_way;
  for (const ThreadLog& log : recording.threads) {
    for (const Event& event : log.events) {
      if (event.is_async && event.category == Category::kCommunication) {
        under_way.emplace_back(std::max(event.begin_ns, steps.front().first),
                               std::min(event.end_ns, steps.back().second));
      }
      if (log.tid != recording.main_tid || !is_wait(event)) continue;
      if (is_inside(log, event, is_wait)) continue;
      if (result.steps > 0 && !is_inside(log, event, is_step)) continue;
      (event.category == Category::kData ? result.data_ns : result.communication_ns) +=
          event.duration_ns();
    }
  }
  result.computing_ns =
      std::max<std::int64_t>(0, result.wall_ns - result.data_ns - result.communication_ns);
  result.communication_under_way_ns = union_of(std::move(under_way));
  return result;
}

std::string Breakdown::str() const {
  const auto count = static_cast<double>(std::max<std::int64_t>(1, steps));
  const auto wall = static_cast<double>(wall_ns);
  const auto part = [&](std::string_view name, std::int64_t ns) {
    return fmt::format("{} {} ({})", name, time_text(static_cast<double>(ns) / count),
                       share_text(static_cast<double>(ns), wall));
  };
  std::string text = steps == 0 ? time_text(wall)
                                : fmt::format("{} step{} of {}", steps, steps == 1 ? "" : "s",
                                              time_text(wall / count));
  text += ": " + part("computing", computing_ns) + ", " + part("data", data_ns) + ", " +
          part("communication", communication_ns);
  if (communication_under_way_ns > 0) {
    const auto under_way = static_cast<double>(communication_under_way_ns);
    const double hidden = std::max(0.0, under_way - static_cast<double>(communication_ns));
    text += fmt::format("; collectives were under way for {}, {} of it behind other work",
                        time_text(under_way / count), share_text(hidden, under_way));
  }
  return text;
}

}  // namespace dl::profiler
