// Averages::table() and short_table(). table() prints what PyTorch prints, character for character.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "core/profiler/report/averages.h"
#include "core/profiler/report/text.h"

namespace dl::profiler {
namespace {

constexpr std::size_t kColumnWidth = 12;
constexpr std::string_view kGap = "  ";

struct SortKey {
  std::string_view name;
  double (*value)(const Average&);
};

constexpr SortKey kSortKeys[] = {
    {"cpu_time", [](const Average& a) { return a.cpu_time_ns(); }},
    {"cpu_time_total", [](const Average& a) { return double(a.cpu_time_total_ns); }},
    {"self_cpu_time_total", [](const Average& a) { return double(a.self_cpu_time_total_ns); }},
    {"cpu_memory_usage", [](const Average& a) { return double(a.cpu_memory_usage); }},
    {"self_cpu_memory_usage", [](const Average& a) { return double(a.self_cpu_memory_usage); }},
    {"count", [](const Average& a) { return double(a.count); }},
    {"flops", [](const Average& a) { return double(a.flops); }}};

const SortKey& sort_key(const std::string& name) {
  const auto* const known = std::ranges::find(kSortKeys, name, &SortKey::name);
  if (known != std::end(kSortKeys)) return *known;
  std::string names;
  for (const SortKey& key : kSortKeys)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", key.name);
  throw_error(ErrorKind::kInvalidArgument, "table: sort_by is {}, wanted one of {}{}",
              quoted_name(name), names,
              name.find("cuda") != std::string::npos || name.find("device") != std::string::npos
                  ? "; times of GPUs are not recorded"
                  : "");
}

std::vector<const Average*> sorted_rows(const std::vector<Average>& rows, const std::string& by) {
  std::vector<const Average*> result;
  for (const Average& row : rows) result.push_back(&row);
  if (by.empty()) return result;
  const auto value = sort_key(by).value;
  // Rows of equal value keep their order: comparing addresses compares positions in `rows`.
  std::ranges::sort(result, [value](const Average* a, const Average* b) {
    const auto left = value(*a);
    const auto right = value(*b);
    return left != right ? left > right : a < b;
  });
  return result;
}

// Counts UTF-8 characters, not bytes.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(std::string text, std::size_t width) {
  std::size_t at = 0;
  for (std::size_t left = width; at < text.size(); ++at) {
    if ((text[at] & 0xc0) != 0x80 && left-- == 0) break;
  }
  return text.substr(0, at);
}

struct Column {
  std::string header;
  std::size_t width = kColumnWidth;
};

struct FlopsUnit {
  double scale = 1;
  std::string_view name = "FLOPs";
};

FlopsUnit unit_for(double least) {
  constexpr std::string_view kUnits[] = {"FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"};
  const int power = std::clamp(static_cast<int>(std::log10(least) / 3), 0, 5);
  return {std::pow(10, -3.0 * power), kUnits[power]};
}

// The width of the widest text plus 4, at most `most`, but at least 4.
template <typename TextOf>
std::size_t column_width(const std::vector<Average>& rows, std::int64_t most, const TextOf& text) {
  std::size_t widest = 0;
  for (const Average& row : rows) widest = std::max(widest, width_of(text(row)));
  return std::min(widest + 4, static_cast<std::size_t>(std::max<std::int64_t>(4, most)));
}

std::string line_of(const std::vector<Column>& columns, const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t width = width_of(cells[i]);
    if (width < columns[i].width) line.append(columns[i].width - width, ' ');
    line += cells[i];
    line += kGap;
  }
  return line += '\n';
}

// In one line, whatever the name holds.
std::string shown_name(const Average& row) {
  const std::string quoted = quoted_name(row.key);
  return quoted.substr(1, quoted.size() - 2);
}

std::string name_cell(const Average& row, std::int64_t most) {
  std::string name = shown_name(row);
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(4, most));
  return width_of(name) >= width - 3 ? cut(std::move(name), width - 3) + "..." : name;
}

}  // namespace

std::string Averages::table(const TableOptions& options) const {
  const std::vector<const Average*> order = sorted_rows(rows, options.sort_by);
  if (rows.empty()) return {};
  const auto total = static_cast<double>(self_cpu_time_total_ns());
  std::vector<Column> columns = {
      {"Name", column_width(rows, options.max_name_column_width, shown_name)},
      {"Self CPU %"},
      {"Self CPU"},
      {"CPU total %"},
      {"CPU total"},
      {"CPU time avg"}};
  if (has_memory) columns.insert(columns.end(), {{"CPU Mem"}, {"Self CPU Mem"}});
  columns.push_back({"# of Calls"});
  if (has_shapes) {
    columns.push_back(
        {"Input Shapes", column_width(rows, options.max_shapes_column_width,
                                      [](const Average& row) { return row.input_shapes; })});
  }
  double least_flops = 0;
  for (const Average& row : rows) {
    if (row.flops > 0 && (least_flops == 0 || static_cast<double>(row.flops) < least_flops)) {
      least_flops = static_cast<double>(row.flops);
    }
  }
  const FlopsUnit unit = least_flops > 0 ? unit_for(least_flops) : FlopsUnit{};
  const bool shows_flops = has_flops && least_flops > 0;
  if (shows_flops) columns.push_back({fmt::format("Total {}", unit.name)});

  std::vector<std::string> headers;
  std::vector<std::string> dashes;
  for (const Column& column : columns) {
    headers.push_back(column.header);
    dashes.emplace_back(column.width, '-');
  }
  const std::string rule = line_of(columns, dashes);
  std::string text = rule + line_of(columns, headers) + rule;
  std::int64_t shown = 0;
  for (const Average* row : order) {
    if (shown++ == options.row_limit) break;
    std::vector<std::string> cells = {
        name_cell(*row, options.max_name_column_width),
        share_text(static_cast<double>(row->self_cpu_time_total_ns), total),
        time_text(static_cast<double>(row->self_cpu_time_total_ns)),
        row->is_async ? "0" : share_text(static_cast<double>(row->cpu_time_total_ns), total),
        time_text(static_cast<double>(row->cpu_time_total_ns)),
        time_text(row->cpu_time_ns())};
    if (has_memory) {
      cells.push_back(bytes_text(row->cpu_memory_usage));
      cells.push_back(bytes_text(row->self_cpu_memory_usage));
    }
    cells.push_back(std::to_string(row->count));
    if (has_shapes) cells.push_back(cut(row->input_shapes, columns[cells.size()].width));
    if (shows_flops) {
      cells.push_back(row->flops <= 0
                          ? "--"
                          : fmt::format("{:8.3f}", static_cast<double>(row->flops) * unit.scale));
    }
    text += line_of(columns, cells);
  }
  return text + rule + "Self CPU time total: " + time_text(total) + "\n";
}

std::string Averages::short_table(const ShortTableOptions& options) const {
  const auto total = static_cast<double>(self_cpu_time_total_ns());
  std::size_t width = width_of("Name");
  std::vector<std::pair<std::string, std::string>> lines = {{"Name", "Self CPU %"}};
  for (const Average* row : sorted_rows(rows, "self_cpu_time_total")) {
    if (static_cast<std::int64_t>(lines.size()) == options.row_limit + 1) break;
    if (row->is_async) continue;
    lines.emplace_back(name_cell(*row, TableOptions{}.max_name_column_width),
                       share_text(static_cast<double>(row->self_cpu_time_total_ns), total));
    width = std::max(width, width_of(lines.back().first));
  }
  std::string text;
  for (const auto& [name, share] : lines) {
    text += name + std::string(width - width_of(name), ' ') + fmt::format("  {:>10}\n", share);
  }
  return text;
}

}  // namespace dl::profiler
