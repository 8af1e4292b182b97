// The command line of a program that trains: the options that such programs share, and checks that
// they have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "examples/support/training/run_options.h"

namespace dl::examples {

// The most of a count: steps, samples, epochs.
inline constexpr std::uint64_t kMostCounted = 1'000'000'000;

// Take numbers that are written in full, without a rest.
CLI::Validator whole(std::int64_t least, std::uint64_t most);
CLI::Validator real(double least, double most);
// Refuses an empty name: it usually means an unset variable in the calling script.
std::string refuse_empty(const std::string& name);

class CommandLine {
 public:
  // Keeps a reference to `run`, which the options fill.
  CommandLine(std::string_view program, std::string_view about, RunOptions& run);

  CLI::App& app() noexcept { return app_; }
  // Each adds a group of options of RunOptions; --help lists them in the order of the calls.
  void add_epochs();
  void add_optimizer();  // --optimizer, --lr, --momentum, --weight-decay, --schedule
  void add_clip_norm();
  void add_machine();      // --seed, --device, --threads, --workers
  void add_checkpoints();  // --checkpoint-..., --resume
  void add_output();       // --log-every to --json

  // Parses, sets what depends on --optimizer, refuses what does not go together, and calls `settle`
  // to do so for the program's own options. Returns the exit code of a program that has nothing
  // more to do: 0 after --help, --version and --parallel-info, 2 after one sentence on stderr about
  // what was wrong.
  std::optional<int> parse(int argc, const char* const* argv, const std::function<void()>& settle);

  bool is_given(const char* option) const { return app_.count(option) > 0; }
  // For `settle`: ends the program with "--option: problem" unless it holds.
  static void require(bool holds, const std::string& option, const std::string& problem);

 private:
  void settle_optimizer();

  CLI::App app_;
  RunOptions& run_;
  bool shows_parallel_info_ = false;
};

}  // namespace dl::examples
