// nccl-tests' table, column by column as src/util.cu writes it. dlbench's own columns come after
// these, so that scripts for nccl-tests can read the table.
#include <fmt/core.h>

#include <cstdlib>
#include <ctime>

#include "collectives/bench/report/report.h"
#include "core/base/system/output.h"
#include "core/base/version.h"

namespace dl::collectives::bench {
namespace {

// A number in `width` columns, with as many decimals as fit.
std::string number(double value, std::size_t width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:>{}.{}f}", value, width, decimals);
    if (text.size() <= width) return text;
  }
  return fmt::format("{:>{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string bandwidth(std::optional<double> value) {
  return value ? number(*value, 6) : fmt::format("{:>6}", "-");
}

std::string device_versions(const RunInfo& info) {
  if (!info.options.on_gpu()) return {};
  return (info.nccl_version == 0 ? "" : ", NCCL " + nccl_text(info.nccl_version)) +
         driver_version();
}

class Table final : public Report {
 public:
  explicit Table(std::FILE* to) : to_(to) {}

  void begin(const RunInfo& info) override {
    options_ = info.options;
    const Options& o = options_;
    line("# dlbench version {}: {} on {}, {} ranks", kVersion, info.name, info.backend, info.ranks);
    line("# Collective test starting: {}", o.program);
    line(
        "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg "
        "iters: {} validation: {} graph: 0 unalign: {}",
        o.min_bytes, o.max_bytes, o.step_factor > 1 ? o.step_factor : o.step_bytes,
        o.step_factor > 1 ? "factor" : "bytes", o.warmup,
        o.iterations > 0 ? std::to_string(o.iterations) : "by size", o.aggregate, o.check,
        o.unalign);
    for (const std::string& remark : o.remarks) line("# {}", remark);
    line("#");
    line("# Using devices");
    for (const RankInfo& rank : info.who) {
      const bool on_gpu = rank.device >= 0;
      line("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{}] {}", rank.rank, 0,
           rank.pid, rank.host.data(), on_gpu ? rank.device : 0,
           on_gpu ? rank.uuid.data() : "cpus " + cpu_list(rank),
           on_gpu ? rank.gpu.data() : rank.model.data());
    }
    for (const std::string& clause : occupancy(info.who)) line("# Binding: {}", clause);
    double load = 0;
    if (::getloadavg(&load, 1) == 1) line("# Load average at the start: {:.2f}", load);
    line("# Libraries: {}{}", library_versions(), device_versions(info));
    if (share_a_gpu(info.who)) {
      line("# Ranks share a GPU: results are checked, and times say nothing about NCCL");
    }
    if (options_.symmetric) {
      line(
          "# Buffers are in symmetric memory: do not compare these times with those of ordinary "
          "memory");
    }
    if (!info.plan.empty()) line("# Plan: {}", info.plan);
    line("# {}", method());
    header();
  }

  void row(const Row& r) override {
    std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", r.bytes, r.count,
                                   table_name(r.dtype), r.reduction, r.root);
    text += half(r, r.out_of_place) + half(r, r.in_place);
    if (options_.timestamps) text += fmt::format("{:>21}", time_of_day());
    const Result& shown = r.in_place ? *r.in_place : *r.out_of_place;
    if (!options_.back_to_back) {
      if (!options_.per_iteration) text += extremes(r.out_of_place) + extremes(r.in_place);
      text += "  " + number(shown.rewrite_us, 7);
      if (shown.host_us) text += "  " + number(*shown.host_us, 7);
    }
    if (options_.bare) text += bare(r.out_of_place) + bare(r.in_place);
    line("{}  {}", text, shown.algorithm.empty() ? "-" : shown.algorithm);
  }

  void end(const Summary& s) override {
    line("# {:<20} : {} {}", "Out of bounds values", s.wrong, s.wrong > 0 ? "FAILED" : "OK");
    if (s.wrong > 0) {
      line("# {:<20} : - (results were wrong)", "Avg bus bandwidth");
    } else {
      line("# {:<20} : {:g} {}", "Avg bus bandwidth", s.bus_bandwidth,
           !s.wanted_bandwidth ? "" : (s.is_fast_enough() ? "OK" : "FAILED"));
    }
    line("#");
    line("# Collective test concluded: {}", options_.program);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    const std::string whole = fmt::format(text, std::forward<Args>(args)...);
    std::fwrite(whole.data(), 1, whole.size(), to_);
    std::fputc('\n', to_);
    require_written(to_, "standard output");
  }

  std::string method() const {
    constexpr std::string_view kWhose[] = {"rank 0's", "the mean of all ranks'",
                                           "its fastest rank's", "its slowest rank's"};
    const std::string_view whose = kWhose[static_cast<std::size_t>(options_.average)];
    if (options_.back_to_back) {
      return fmt::format("Back to back: time is the mean over all iterations, {}", whose);
    }
    return fmt::format(
        "Each iteration: rewrite the input, {}barrier, start, operation, stop{}; its time is {}; "
        "time is the p50",
        options_.cold ? "empty the caches, " : "",
        options_.on_gpu() ? ", by events of the stream (host: by the host's clock)" : "", whose);
  }

  void header() {
    const bool iterations = options_.per_iteration;
    const std::string_view time = options_.call_time ? "cputime" : "time";
    line("#");
    line("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}", "", "", "", "", "",
         iterations ? "              out-of-place (+ per-iteration)                                "
                      "in-place (+ per-iteration)"
                    : "           out-of-place                       in-place          ");
    std::string names = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count",
                                    "type", "redop", "root");
    std::string units =
        fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
    for (int i = 0; i < 2; ++i) {
      names += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, "algbw", "busbw", "#wrong");
      units += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
      if (!iterations) continue;
      names += fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "i_min", "i_max", "i_p99", "i_cv%");
      units += fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "(us)", "(us)", "(us)", "(%)");
    }
    if (options_.timestamps) {
      names += fmt::format("{:>21}", "timestamp");
      units += fmt::format("{:>21}", "%Y-%m-%d %H:%M:%S");
    }
    if (!options_.back_to_back) {
      for (const char* place : {"op", "ip"}) {
        if (iterations) break;
        names += fmt::format("  {:>7}  {:>7}", fmt::format("{}_p99", place),
                             fmt::format("{}_max", place));
        units += fmt::format("  {:>7}  {:>7}", "(us)", "(us)");
      }
      names += fmt::format("  {:>7}", "rewrite");
      units += fmt::format("  {:>7}", "(us)");
    }
    for (const std::string_view more : device_columns()) {
      names += fmt::format("  {:>7}", more);
      units += fmt::format("  {:>7}", "(us)");
    }
    line("{}  algorithm", names);
    line("{}", units);
  }

  // One half of a row (in place or out of place). If the operation has only the other half, "N/A"
  // keeps the columns.
  std::string half(const Row& row, const std::optional<Result>& r) const {
    const bool iterations = options_.per_iteration;
    if (!r) {
      std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
      for (int i = 0; iterations && i < 4; ++i) text += fmt::format("  {:>7}", "N/A");
      return text;
    }
    std::string text = fmt::format(
        "  {}  {}  {}  {:>6}", number(options_.call_time ? r->call_us : time_of(options_, *r), 7),
        bandwidth(algorithm_bandwidth(row, *r)), bandwidth(bus_bandwidth(row, *r)),
        options_.check > 0 ? fmt::format("{:g}", static_cast<double>(r->wrong)) : "N/A");
    if (!iterations) return text;
    return text + "  " + number(r->times.min, 7) + "  " + number(r->times.max, 7) + "  " +
           number(r->times.p99, 7) + "  " + number(r->times.variation * 100, 7);
  }

  std::vector<std::string_view> device_columns() const {
    std::vector<std::string_view> names;
    if (options_.on_gpu() && !options_.back_to_back) names.emplace_back("host");
    if (options_.bare) names.insert(names.end(), {"op_bare", "ip_bare"});
    return names;
  }

  std::string bare(const std::optional<Result>& r) const {
    if (!r || !r->bare) return fmt::format("  {:>7}", "N/A");
    return "  " + number(options_.back_to_back ? r->bare->mean : r->bare->p50, 7);
  }

  static std::string extremes(const std::optional<Result>& r) {
    if (!r) return fmt::format("  {:>7}  {:>7}", "N/A", "N/A");
    return "  " + number(r->times.p99, 7) + "  " + number(r->times.max, 7);
  }

  std::FILE* to_;
  Options options_{};
};

}  // namespace

std::string nccl_text(int version) {
  if (version == 0) return {};
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

double time_of(const Options& options, const Result& result) noexcept {
  return options.back_to_back ? result.times.mean : result.times.p50;
}

std::optional<double> algorithm_bandwidth(const Row& row, const Result& result) noexcept {
  if (result.wrong > 0) return std::nullopt;
  return static_cast<double>(row.bytes) / result.times.p50 / 1e3;
}

std::optional<double> bus_bandwidth(const Row& row, const Result& result) noexcept {
  const std::optional<double> algorithm = algorithm_bandwidth(row, result);
  return algorithm ? std::optional(*algorithm * row.bus_factor) : std::nullopt;
}

std::unique_ptr<Report> make_table(std::FILE* to) {
  return std::make_unique<Table>(to);
}

}  // namespace dl::collectives::bench
