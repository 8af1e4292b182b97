#include "core/profiler/report/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>

#include "core/base/env.h"
#include "core/profiler/report/text.h"

namespace dl::profiler {
namespace {

// Times count from a multiple of this, as in PyTorch's traces: a quarter of a year. A double has
// steps of 0.25 us for times since 1970, and of 0.001 us for times within that quarter.
constexpr std::int64_t kBaseStepNs = 7'889'238LL * 1'000'000'000;

// Microseconds with three decimals.
std::string us_text(std::int64_t ns) {
  const std::int64_t size = std::abs(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

class TraceWriter {
 public:
  TraceWriter(const Recording& recording, const TraceOptions& options)
      : recording_(recording),
        options_(options),
        base_ns_((recording.begin_ns + recording.epoch_ns) / kBaseStepNs * kBaseStepNs) {}

  std::string write() {
    char host[65] = {};
    ::gethostname(host, sizeof host - 1);
    text_ = fmt::format(
        "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":{},"
        "\"distributedInfo\":{{\"rank\":{},\"world_size\":{}}},\n\"traceEvents\":[",
        base_ns_, options_.rank, options_.world_size);
    meta("process_name", 0, "name", json_string(fmt::format("rank {}", options_.rank)));
    meta("process_labels", 0, "labels", json_string(fmt::format("{}, pid {}", host, ::getpid())));
    meta("process_sort_index", 0, "sort_index", std::to_string(options_.rank));
    for (std::size_t i = 0; i < recording_.threads.size(); ++i) {
      const ThreadLog& log = recording_.threads[i];
      meta("thread_name", log.tid, "name", json_string(fmt::format("{} ({})", log.name, log.tid)));
      meta("thread_sort_index", log.tid, "sort_index", std::to_string(i));
      for (const Event& event : log.events) add(log, event);
    }
    return text_ += "\n]}\n";
  }

 private:
  // Opens a JSON object, and writes the members that all events have.
  void open(std::string_view phase, std::string_view quoted_name, std::int64_t tid) {
    fmt::format_to(std::back_inserter(text_),
                   "{}\n{{\"ph\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{}", is_first_ ? "" : ",",
                   phase, quoted_name, options_.rank, tid);
    is_first_ = false;
  }
  void meta(std::string_view name, std::int64_t tid, std::string_view key, std::string_view value) {
    open("M", json_string(name), tid);
    fmt::format_to(std::back_inserter(text_), ",\"args\":{{\"{}\":{}}}}}", key, value);
  }
  void at(const Event& event, std::int64_t ns) {
    fmt::format_to(std::back_inserter(text_), ",\"cat\":\"{}\",\"ts\":{}", name_of(event.category),
                   us_text(ns + recording_.epoch_ns - base_ns_));
  }
  void add(const ThreadLog& log, const Event& event) {
    const std::string name = json_string(event.name);
    if (event.is_async) {  // on a track of its own
      ++last_id_;
      for (const bool is_end : {false, true}) {
        open(is_end ? "e" : "b", name, log.tid);
        at(event, is_end ? event.end_ns : event.begin_ns);
        fmt::format_to(std::back_inserter(text_), ",\"id\":{}}}", last_id_);
      }
      return;
    }
    if (event.category == Category::kMemory) {
      open("i", name, log.tid);
      at(event, event.begin_ns);
      fmt::format_to(std::back_inserter(text_), ",\"s\":\"t\",\"args\":{{\"Bytes\":{}}}}}",
                     event.bytes);
      return;
    }
    open("X", name, log.tid);
    at(event, event.begin_ns);
    fmt::format_to(std::back_inserter(text_), ",\"dur\":{}", us_text(event.duration_ns()));
    std::string args;
    const auto arg = [&args](std::string_view key, const std::string& value) {
      args += fmt::format("{}\"{}\":{}", args.empty() ? "" : ",", key, value);
    };
    if (event.shapes > 0) arg("Input Dims", log.shapes_text(event));
    if (event.flops > 0) arg("FLOPs", std::to_string(event.flops));
    if (recording_.has_memory) arg("Bytes", std::to_string(event.bytes));
    text_ += args.empty() ? "}" : ",\"args\":{" + args + "}}";
  }

  const Recording& recording_;
  const TraceOptions& options_;
  std::int64_t base_ns_;
  std::string text_;
  bool is_first_ = true;
  std::int64_t last_id_ = 0;
};

}  // namespace

TraceOptions trace_options() {
  return {.rank = static_cast<int>(env::get_int(env::Var::kRank).value_or(0)),
          .world_size = static_cast<int>(env::get_int(env::Var::kWorldSize).value_or(1))};
}

std::string chrome_trace(const Recording& recording, const TraceOptions& options) {
  return TraceWriter(recording, options).write();
}

}  // namespace dl::profiler
