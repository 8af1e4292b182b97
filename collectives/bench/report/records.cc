// JSON objects, one a size, and comma-separated values. The other benchmarks that compare.py runs
// use the same keys, so one script reads all of them.
#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "collectives/bench/report/report.h"
#include "core/base/error.h"
#include "core/base/system/output.h"

namespace dl::collectives::bench {
namespace {

struct Field {
  std::string_view name;
  std::string value;
  bool is_text = false;
};

// "null" for a missing value, which CSV shows as nothing between the commas.
std::string number(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.6g}", *value) : "null";
}
std::string microseconds(double value) {
  return fmt::format("{:.3f}", value);
}

std::vector<Field> fields(const RunInfo& info, const Row& row, const Result& r, bool in_place) {
  const Options& o = info.options;
  const bool many = !o.back_to_back;
  const auto only = [&](bool there, double value) {
    return there ? microseconds(value) : std::string("null");
  };
  return {{"op", info.name, true},
          {"backend", info.backend, true},
          {"algorithm", r.algorithm, true},
          {"ranks", std::to_string(info.ranks)},
          {"bytes", std::to_string(row.bytes)},
          {"count", std::to_string(row.count)},
          {"dtype", std::string(short_name(row.dtype)), true},
          {"redop", std::string(row.reduction), true},
          {"root", std::to_string(row.root)},
          {"in_place", in_place ? "true" : "false"},
          {"symmetric", o.symmetric ? "true" : "false"},
          {"plan", info.plan, true},
          {"method",
           o.back_to_back ? "back-to-back"
           : o.cold       ? "barrier, cold"
                          : "barrier",
           true},
          {"iterations", std::to_string(r.iterations)},
          {"min_us", only(many, r.times.min)},
          {"p50_us", only(many, r.times.p50)},
          {"p99_us", only(many, r.times.p99)},
          {"max_us", only(many, r.times.max)},
          {"mean_us", microseconds(r.times.mean)},
          {"call_us", only(many && o.call_time, r.call_us)},
          {"algbw", number(algorithm_bandwidth(row, r))},
          {"busbw", number(bus_bandwidth(row, r))},
          {"rewrite_us", only(many, r.rewrite_us)},
          {"device", o.on_gpu() ? "cuda" : "cpu", true},
          {"gpu", info.who.empty() ? "" : info.who.front().gpu.data(), true},
          {"shared_gpu", share_a_gpu(info.who) ? "true" : "false"},
          {"nccl", nccl_text(info.nccl_version), true},
          {"host_us", only(r.host_us.has_value(), r.host_us.value_or(0))},
          {"bare_us", only(r.bare.has_value(), r.bare ? many ? r.bare->p50 : r.bare->mean : 0)},
          {"wrong", o.check > 0 ? std::to_string(r.wrong) : "null"}};
}

class Records final : public Report {
 public:
  // `path`: of a file that this closes; empty: the caller owns it.
  Records(std::FILE* to, bool csv, std::string path) : to_(to), csv_(csv), path_(std::move(path)) {}
  ~Records() override {
    if (!path_.empty()) std::fclose(to_);
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  // The options outlive the run.
  void begin(const RunInfo& info) override { info_.emplace(info); }

  void row(const Row& row) override {
    if (row.out_of_place) write(fields(*info_, row, *row.out_of_place, false));
    if (row.in_place) write(fields(*info_, row, *row.in_place, true));
  }

  void end(const Summary&) override {}

 private:
  void write(const std::vector<Field>& all) {
    if (csv_ && !has_header_) {
      for (const Field& f : all) print("{}{}", &f == all.data() ? "" : ",", f.name);
      print("\n");
      has_header_ = true;
    }
    for (const Field& f : all) {
      const bool first = &f == all.data();
      if (csv_) {
        print("{}{}", first ? "" : ",", f.value == "null" ? "" : quoted(f));
      } else {
        const std::string_view quote = f.is_text ? "\"" : "";
        print("{}\"{}\": {}{}{}", first ? "{" : ", ", f.name, quote, f.value, quote);
      }
    }
    print("{}\n", csv_ ? "" : "}");
    require_written(to_, path_.empty() ? "standard output" : path_);
  }

  template <typename... Args>
  void print(fmt::format_string<Args...> text, Args&&... args) {
    const std::string part = fmt::format(text, std::forward<Args>(args)...);
    std::fwrite(part.data(), 1, part.size(), to_);
  }

  static std::string quoted(const Field& f) {
    return f.value.find(',') == std::string::npos ? f.value : fmt::format("\"{}\"", f.value);
  }

  std::FILE* to_;
  bool csv_;
  std::string path_;
  bool has_header_ = false;
  std::optional<RunInfo> info_;
};

}  // namespace

std::unique_ptr<Report> make_json_lines(std::FILE* to) {
  return std::make_unique<Records>(to, false, "");
}

std::unique_ptr<Report> make_csv(std::FILE* to) {
  return std::make_unique<Records>(to, true, "");
}

std::unique_ptr<Report> make_file_report(const std::string& path) {
  if (!path.ends_with(".csv")) return make_nccl_file(path);
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) throw_errno(errno, fmt::format("create {}", path));
  return std::make_unique<Records>(file, true, path);
}

}  // namespace dl::collectives::bench
