// Recording: what each thread did, and when. Plain values; any thread may read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/profiler/span.h"

namespace dl::profiler {

struct Event {
  std::string_view name;  // lives in its thread's log
  Category category = Category::kUser;
  bool is_async = false;      // ran beside the thread, and is not nested in its spans
  std::int64_t begin_ns = 0;  // of the steady clock
  std::int64_t end_ns = 0;
  std::int64_t parent = -1;  // index of the span around it in the same log; -1: none
  std::int64_t flops = 0;
  std::int64_t bytes = 0;  // allocated minus freed on its thread while it was open
  // Its input shapes begin at index first_shape of the log's `shapes`.
  std::uint32_t first_shape = 0;
  std::uint32_t shapes = 0;  // their number

  std::int64_t duration_ns() const noexcept { return end_ns - begin_ns; }
};

struct ThreadLog {
  std::int64_t tid = 0;
  std::string name;
  std::vector<Event> events;  // in the order of their begin; async ones in the order of their end
  std::vector<std::int64_t> shapes;  // for each shape the number of dimensions, then the dimensions
  std::unordered_set<std::string> names;  // owns the events' names; its elements do not move

  // The input shapes of an event of this log: "[[64, 1, 28, 28], [32]]", or "[]".
  std::string shapes_text(const Event& event) const;
  // Stores a copy of the name and returns a view of the copy, for Event::name.
  std::string_view keep(std::string_view text) { return *names.emplace(text).first; }
};

struct Recording {
  std::int64_t begin_ns = 0;  // of the steady clock
  std::int64_t end_ns = 0;
  std::int64_t epoch_ns = 0;  // added to a time of the steady clock, gives the time since 1970
  std::int64_t main_tid = 0;  // the thread that started the recording
  bool has_shapes = false;
  bool has_memory = false;
  bool has_flops = false;
  std::vector<ThreadLog> threads;
};

// An event's duration and bytes without those of the spans inside it.
struct SelfShare {
  std::int64_t ns = 0;
  std::int64_t bytes = 0;
};
// Returns the share of each event of the log, 0 for async events.
std::vector<SelfShare> self_shares(const ThreadLog& log);

}  // namespace dl::profiler
