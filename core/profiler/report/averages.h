// Averages: a recording's events grouped by name, as torch.profiler's key_averages() does.
//
// Total time is the wall time of a span on its thread; self time excludes the spans inside it. Both
// are summed over all threads. Asynchronous collectives (is_async) have no self time, because no
// thread computes in them.
//
// Ownership and thread-safety: plain values; any thread may read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/profiler/recording.h"

namespace dl::profiler {

struct Average {
  std::string key;
  std::string input_shapes;  // "[[64, 10], [10]]" with group_by_input_shape, else empty
  Category category = Category::kUser;
  bool is_async = false;
  std::int64_t count = 0;
  std::int64_t cpu_time_total_ns = 0;
  std::int64_t self_cpu_time_total_ns = 0;
  std::int64_t cpu_memory_usage = 0;  // bytes allocated minus bytes freed
  std::int64_t self_cpu_memory_usage = 0;
  std::int64_t flops = 0;

  // The mean total time of a call.
  double cpu_time_ns() const noexcept {
    return count == 0 ? 0 : static_cast<double>(cpu_time_total_ns) / static_cast<double>(count);
  }
};

struct TableOptions {
  // "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
  // "self_cpu_memory_usage", "count" or "flops": the largest first. Empty: the order of first
  // calls.
  std::string sort_by{};
  std::int64_t row_limit = 100;  // -1: all
  std::int64_t max_name_column_width = 55;
  std::int64_t max_shapes_column_width = 80;
};

struct ShortTableOptions {
  std::int64_t row_limit = 10;  // -1: all
};

struct Averages {
  std::vector<Average> rows;  // in the order of first calls
  bool has_memory = false;
  bool has_flops = false;
  bool has_shapes = false;  // rows are grouped by input shapes

  std::int64_t self_cpu_time_total_ns() const noexcept;

  // PyTorch's table: Name, Self CPU %, Self CPU, CPU total %, CPU total, CPU time avg, # of Calls;
  // also CPU Mem, Self CPU Mem, Input Shapes and FLOPs if they were recorded; and the footer. Empty
  // if there are no rows. Throws kInvalidArgument for an unknown sort_by.
  std::string table(const TableOptions& options = {}) const;
  // Names and their Self CPU %, the largest first, without asynchronous collectives.
  std::string short_table(const ShortTableOptions& options = {}) const;
  // A JSON array with one object per row; times are in microseconds:
  // [{"name":"conv2d","count":2,"self_cpu_time_total":1.5,"cpu_time_total":1.5,...}].
  std::string json() const;
};

// group_by_input_shape: calls with different input shapes get rows of their own.
Averages key_averages(const Recording& recording, bool group_by_input_shape = false);

}  // namespace dl::profiler
