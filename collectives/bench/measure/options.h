// dlbench's command line: nccl-tests' flags and dlbench's own. A value.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collectives/bench/operation/operation.h"

namespace dl::collectives::bench {

enum class Format : std::uint8_t { kTable, kJson, kCsv };

// How an iteration's time is computed from the times of all ranks. The numbers are those of -a.
enum class Average : std::uint8_t { kRank0, kMean, kMin, kMax };

struct Options {
  std::string program = "dlbench";  // as it was called
  const Operation* operation = nullptr;
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t step_factor = 4;  // 1: steps are added
  std::size_t step_bytes = std::size_t{1} << 20;
  std::size_t iterations = 0;  // 0: by size, at least 25
  std::size_t warmup = 3;
  std::size_t aggregate = 1;  // operations under way at once in an iteration
  std::size_t cycles = 1;     // 0: until stopped
  std::size_t check = 1;      // 0: no result is compared
  std::vector<DType> dtypes{DType::kF32};
  std::vector<ReduceOp> reductions{ReduceOp::kSum};
  std::optional<int> root = 0;  // nullopt: every rank in turn
  Average average = Average::kMax;
  bool call_time = false;      // -C: the time until the call has returned
  bool per_iteration = false;  // -I
  std::size_t skip = 0;        // -K: first iterations to leave out of the figures
  bool timestamps = false;     // -S
  std::size_t unalign = 0;     // elements by which buffers are off their alignment
  bool back_to_back = false;
  bool cold = false;
  bool symmetric = false;      // buffers in symmetric memory
  std::string device = "cpu";  // of the buffers; or "cuda", "cuda:1"
  bool bare = false;           // also time ncclAllReduce without dlrun
  std::string backend = "auto";
  std::string algorithm{};  // "all_reduce:ring"; empty: the plan's
  std::string plan{};       // a file; empty: the default one
  bool explain = false;     // print what would run, and run nothing
  int ranks = 0;            // for explain; 0: as launched
  int nodes = 0;
  bool tune = false;  // measure, and write a plan into tune_file
  std::string tune_file{};
  std::chrono::seconds timeout{600};
  Format format = Format::kTable;
  std::string output_file{};
  bool on_gpu() const noexcept { return device != "cpu"; }
  std::vector<std::string> remarks{};  // about flags without effect here
};

// Parses the command line into `options`. If the program is to end at once (help, an error), prints
// the text and returns the exit code; otherwise nullopt.
std::optional<int> parse(int argc, char** argv, Options& options);

// Throws kInvalidArgument if the command line is impossible with this many ranks and nodes.
void check_for_ranks(const Options& options, int ranks, int nodes);

// The size after this one; 0 after the last.
std::size_t next_size(const Options& options, std::size_t bytes) noexcept;
std::size_t iterations_for(const Options& options, std::size_t bytes) noexcept;

// nccl-tests' name if it has one: "float", "bfloat16", "int16".
std::string_view table_name(DType dtype) noexcept;

}  // namespace dl::collectives::bench
