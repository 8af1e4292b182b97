#include "examples/support/training/command_line.h"

#include <fmt/core.h>

#include <cstdio>
#include <limits>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/number.h"
#include "core/base/version.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"
#include "examples/support/training/choices/optimizers.h"
#include "examples/support/training/choices/rows.h"
#include "examples/support/training/choices/schedules.h"

namespace dl::examples {
namespace {

std::string refuse_no_device(const std::string& text) {
  if (text == "cuda") return {};  // whether there is one is asked later
  try {
    cuda::parse_device(text);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

CLI::Validator whole(std::int64_t least, std::uint64_t most) {
  return {whole_number(least, most), ""};
}

CLI::Validator real(double least, double most) {
  return {real_number(least, most), ""};
}

std::string refuse_empty(const std::string& name) {
  return name.empty() ? "an empty name; leave it out" : std::string();
}

CommandLine::CommandLine(std::string_view program, std::string_view about, RunOptions& run)
    : app_(std::string(about), std::string(program)), run_(run) {
  run.program = program;
  app_.set_version_flag("--version", fmt::format("{} {}", program, kVersion));
}

void CommandLine::add_epochs() {
  app_.add_option("--epochs", run_.epochs, "passes over the training set; 0 only evaluates")
      ->transform(whole(0, kMostCounted))
      ->capture_default_str();
}

void CommandLine::add_optimizer() {
  const OptimizerRow& preset = find_optimizer(run_.optimizer);
  app_.add_option("--optimizer", run_.optimizer, "what changes the parameters")
      ->check(CLI::IsMember(names_of(optimizers())))
      ->capture_default_str();
  app_.add_option("--lr", run_.lr,
                  fmt::format("learning rate; {} of {}, others have their own default", preset.lr,
                              preset.name))
      ->transform(real(0, 1e9));
  app_.add_option("--momentum", run_.momentum, "momentum of sgd, nesterov and rmsprop")
      ->transform(real(0, 1))
      ->capture_default_str();
  app_.add_option("--weight-decay", run_.weight_decay, "default: 0, and 0.01 of adamw")
      ->transform(real(0, 1e9));
  app_.add_option("--schedule", run_.schedule, "how the learning rate changes from step to step")
      ->check(CLI::IsMember(names_of(schedules())))
      ->capture_default_str();
}

void CommandLine::add_clip_norm() {
  app_.add_option("--clip-norm", run_.clip_norm, "largest norm of the gradients; 0: any")
      ->transform(real(0, 1e9))
      ->capture_default_str();
}

void CommandLine::add_machine() {
  app_.add_option("--seed", run_.seed, "of initial weights and shuffles; the same on every rank")
      ->transform(whole(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  app_.add_option("--device", run_.device,
                  "where to compute: cpu, cuda (the GPU that is this rank's) or cuda:N")
      ->check(refuse_no_device)
      ->capture_default_str();
  app_.add_option("--threads", run_.threads,
                  "threads a rank computes with; default OMP_NUM_THREADS")
      ->transform(whole(1, kMostThreads));
  app_.add_option("--workers", run_.workers,
                  "threads a rank reads data with; 0 reads between steps")
      ->transform(whole(0, kMostThreads))
      ->capture_default_str();
}

void CommandLine::add_checkpoints() {
  auto* const folder = app_.add_option("--checkpoint-dir", run_.checkpoint_dir,
                                       "save checkpoints here, on rank 0; all ranks read them")
                           ->check(refuse_empty);
  app_.add_option("--checkpoint-every,--save-every", run_.checkpoint_every,
                  "steps between two checkpoints")
      ->transform(whole(1, kMostCounted))
      ->needs(folder)
      ->capture_default_str();
  app_.add_option("--checkpoint-keep", run_.keep, "newest checkpoints that stay")
      ->transform(whole(1, 1'000'000))
      ->needs(folder)
      ->capture_default_str();
  app_.add_flag("--resume", run_.resume,
                "go on from the newest checkpoint; begin anew if there is none yet")
      ->needs(folder);
}

void CommandLine::add_output() {
  app_.add_option("--log-every", run_.log_every, "steps between two lines")
      ->transform(whole(1, kMostCounted))
      ->capture_default_str();
  app_.add_option("--amp", run_.amp, "mixed precision: products and convolutions in bf16 or f16")
      ->check(CLI::IsMember({"off", "bf16", "f16"}))
      ->capture_default_str();
  app_.add_flag("--compile,--capture", run_.compiles,
                "compile the step: a tape on a CPU, a CUDA graph on a GPU; if it cannot, say why");
  app_.add_option("--profile", run_.profile_dir,
                  "show which operations 100 steps consist of; in DIR, a trace of each rank")
      ->type_name("[DIR]")
      ->expected(0, 1);
  app_.add_flag("--parallel-info", shows_parallel_info_,
                "print threads, libraries and environment, and do nothing else");
  app_.add_flag("--json", run_.json, "print one JSON object a step, and one at the end, on stdout");
}

void CommandLine::require(bool holds, const std::string& option, const std::string& problem) {
  if (!holds) throw CLI::ValidationError(option, problem);
}

void CommandLine::settle_optimizer() {
  const OptimizerRow& optimizer = find_optimizer(run_.optimizer);
  if (is_given("--optimizer")) {
    if (!is_given("--lr")) run_.lr = optimizer.lr;
    if (!is_given("--weight-decay")) run_.weight_decay = optimizer.weight_decay;
  }
  require(optimizer.has_momentum || !is_given("--momentum"), "--momentum",
          "is not an option of --optimizer " + run_.optimizer);
  require(run_.optimizer != "nesterov" || run_.momentum > 0, "--momentum",
          "is 0, but --optimizer nesterov needs more");
}

std::optional<int> CommandLine::parse(int argc, const char* const* argv,
                                      const std::function<void()>& settle) {
  constexpr int kBadUsage = 2;
  try {
    app_.parse(argc, argv);
    settle_optimizer();
    settle();
  } catch (const CLI::ParseError& error) {
    if (app_.exit(error) != 0) return kBadUsage;
    require_written(stdout, "standard output");
    return 0;
  }
  run_.profile = is_given("--profile");
  if (!shows_parallel_info_) return std::nullopt;
  if (run_.threads > 0) set_num_threads(run_.threads);
  std::fputs(parallel_info().c_str(), stdout);
  require_written(stdout, "standard output");
  return 0;
}

}  // namespace dl::examples
