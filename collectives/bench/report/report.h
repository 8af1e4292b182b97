// Prints results as nccl-tests' table, JSON objects, comma-separated values, or nccl-tests' JSON
// file. Only rank 0 has reports.
//
// Except for nccl-tests' JSON file, a Report writes line by line, so that a stopped run leaves what
// it has measured. It does not own its stream. One thread.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/bench/machine/machine.h"
#include "collectives/bench/measure/measure.h"
#include "collectives/bench/measure/options.h"

namespace dl::collectives::bench {

struct RunInfo {
  const Options& options;
  std::string name;  // "all_reduce"
  std::string backend;
  std::string plan{};    // its name; empty if there is none
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
  double bus_bandwidth = 0;                  // mean, GB/s
  std::optional<double> wanted_bandwidth{};  // NCCL_TESTS_MIN_BW
  // nccl-tests tolerates 10 % less than the wanted bandwidth.
  bool is_fast_enough() const noexcept {
    return !wanted_bandwidth || bus_bandwidth >= 0.9 * *wanted_bandwidth;
  }
};

// Bandwidth in GB/s; nullopt for a wrong result.
std::optional<double> algorithm_bandwidth(const Row& row, const Result& result) noexcept;
std::optional<double> bus_bandwidth(const Row& row, const Result& result) noexcept;
// The time in microseconds for the figures: the p50, or the mean if there is no p50.
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
// "2026-11-28 13:45:00", local time.
std::string time_of_day();

std::unique_ptr<Report> make_table(std::FILE* to);
std::unique_ptr<Report> make_json_lines(std::FILE* to);
std::unique_ptr<Report> make_csv(std::FILE* to);
// nccl-tests' file, version 3, without the environment. Written at the end.
std::unique_ptr<Report> make_nccl_file(const std::string& path);
// For -J: *.csv, else nccl-tests' JSON. Throws kIo.
std::unique_ptr<Report> make_file_report(const std::string& path);

}  // namespace dl::collectives::bench
