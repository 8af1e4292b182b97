#include "core/profiler/report/averages.h"

#include <fmt/format.h>

#include <iterator>
#include <unordered_map>

#include "core/profiler/report/text.h"

namespace dl::profiler {
namespace {

// All steps are one row, as in PyTorch.
std::string key_of(const Event& event) {
  return event.category == Category::kStep ? "ProfilerStep*" : std::string(event.name);
}

}  // namespace

Averages key_averages(const Recording& recording, bool group_by_input_shape) {
  Averages result{.rows = {},
                  .has_memory = recording.has_memory,
                  .has_flops = recording.has_flops,
                  .has_shapes = group_by_input_shape && recording.has_shapes};
  std::unordered_map<std::string, std::size_t> places;
  for (const ThreadLog& log : recording.threads) {
    const std::vector<SelfShare> shares = self_shares(log);
    for (std::size_t i = 0; i < log.events.size(); ++i) {
      const Event& event = log.events[i];
      Average fresh{.key = key_of(event),
                    .input_shapes = result.has_shapes ? log.shapes_text(event) : "",
                    .category = event.category,
                    .is_async = event.is_async};
      const auto [place, is_new] = places.emplace(
          fresh.key + (event.is_async ? "\1" : "\2") + fresh.input_shapes, result.rows.size());
      if (is_new) result.rows.push_back(std::move(fresh));
      Average& row = result.rows[place->second];
      ++row.count;
      row.cpu_time_total_ns += event.duration_ns();
      row.self_cpu_time_total_ns += shares[i].ns;
      row.cpu_memory_usage += event.bytes;
      row.self_cpu_memory_usage += shares[i].bytes;
      row.flops += event.flops;
    }
  }
  return result;
}

std::int64_t Averages::self_cpu_time_total_ns() const noexcept {
  std::int64_t sum = 0;
  for (const Average& row : rows) sum += row.self_cpu_time_total_ns;
  return sum;
}

std::string Averages::json() const {
  constexpr double kNsAUs = 1e3;
  std::string text = "[";
  for (const Average& row : rows) {
    fmt::format_to(std::back_inserter(text),
                   "{}\n{{\"name\":{},\"category\":\"{}\",\"is_async\":{},\"count\":{},"
                   "\"self_cpu_time_total\":{:.3f},\"cpu_time_total\":{:.3f},\"cpu_time\":{:.3f}",
                   &row == rows.data() ? "" : ",", json_string(row.key), name_of(row.category),
                   row.is_async, row.count,
                   static_cast<double>(row.self_cpu_time_total_ns) / kNsAUs,
                   static_cast<double>(row.cpu_time_total_ns) / kNsAUs, row.cpu_time_ns() / kNsAUs);
    if (has_memory) {
      fmt::format_to(std::back_inserter(text),
                     ",\"cpu_memory_usage\":{},\"self_cpu_memory_usage\":{}", row.cpu_memory_usage,
                     row.self_cpu_memory_usage);
    }
    if (has_shapes) text += ",\"input_shapes\":" + row.input_shapes;
    if (has_flops) fmt::format_to(std::back_inserter(text), ",\"flops\":{}", row.flops);
    text += '}';
  }
  return text += "\n]\n";
}

}  // namespace dl::profiler
