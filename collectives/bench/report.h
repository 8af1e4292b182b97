// How results are shown: nccl-tests' table, an object a size, comma-separated values, or
// nccl-tests' JSON file. Only rank 0 has reports.
//
// A Report writes into a stream that it does not own, a line at a time, so that a run that is
// stopped leaves what it measured. One thread.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/bench/machine.h"
#include "collectives/bench/measure.h"
#include "collectives/bench/options.h"

namespace dl::collectives::bench {

struct RunInfo {
  const Options& options;
  std::string name;  // "all_reduce"
  std::string backend;
  std::string plan{};    // its name; empty where nothing is chosen
  int nccl_version = 0;  // 22809 is 2.28.9; 0: not over NCCL
  int ranks = 1;
  std::vector<RankInfo> who{};
  std::vector<std::string> command{};
};

struct Row {
  std::size_t bytes = 0;
  std::size_t count = 0;
  DType dtype = DType::kF32;
  std::string_view reduction = "none";
  int root = -1;
  double bus_factor = 0;
  std::optional<Result> out_of_place{};
  std::optional<Result> in_place{};
};

struct Summary {
  std::size_t wrong = 0;
  bool checked = true;
  double bus_bandwidth = 0;                  // mean, GB/s
  std::optional<double> wanted_bandwidth{};  // NCCL_TESTS_MIN_BW
  // nccl-tests allows 10 % less than was asked for.
  bool is_fast_enough() const noexcept {
    return !wanted_bandwidth || bus_bandwidth >= 0.9 * *wanted_bandwidth;
  }
};

// Bandwidth in GB/s; a result that is wrong has none.
std::optional<double> algorithm_bandwidth(const Row& row, const Result& result) noexcept;
std::optional<double> bus_bandwidth(const Row& row, const Result& result) noexcept;
// The time that the figures stand for, in microseconds: the p50, or the mean where there is no
// other.
double time_of(const Options& options, const Result& result) noexcept;

class Report {
 public:
  virtual ~Report() = default;
  virtual void begin(const RunInfo& info) = 0;
  virtual void row(const Row& row) = 0;
  virtual void end(const Summary& summary) = 0;
};

// "2.28.9"; empty for 0.
std::string nccl_text(int version);

std::unique_ptr<Report> make_table(std::FILE* to);
std::unique_ptr<Report> make_json_lines(std::FILE* to);
std::unique_ptr<Report> make_csv(std::FILE* to);
// nccl-tests' file, version 3, without the environment. Written at the end.
std::unique_ptr<Report> make_nccl_file(const std::string& path);
// What -J names: *.csv, else nccl-tests' JSON. Throws kIo.
std::unique_ptr<Report> make_file_report(const std::string& path);

}  // namespace dl::collectives::bench
