#include "examples/bench_train/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/number.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"

namespace bench_train {
namespace {

// A value that PyTorch's counterpart knows and this program does not is refused with what there is.
CLI::Validator one_of(std::vector<std::string> known, const std::string& what) {
  return CLI::Validator(
      [known = std::move(known), what](std::string& value) -> std::string {
        if (std::ranges::find(known, value) != known.end()) return {};
        std::string list;
        for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
        return what + " \"" + value + "\" is not there; there is: " + list;
      },
      "");
}

CLI::Validator from_to(std::int64_t least, std::uint64_t most) {
  return {dl::whole_number(least, most), ""};
}

}  // namespace

std::optional<Options> parse(int argc, char** argv, int& exit_code) {
  CLI::App app(
      "Times one training step: zero_grad, forward, cross entropy, backward, optimizer step, on "
      "one "
      "batch of synthetic data. Prints median, p10 and p90 in milliseconds, samples/s and peak "
      "memory (of the GPU, on a GPU). Under dlrun every rank trains its own batch with "
      "DistributedDataParallel.",
      "bench_train");
  std::vector<std::string> names;
  std::string list;
  std::string batches;
  for (const Work& work : works()) {
    names.push_back(work.name);
    list += (list.empty() ? "" : ", ") + work.name;
    batches += fmt::format("{}{} {}", batches.empty() ? "" : ", ", work.name, work.batch);
  }

  constexpr std::uint64_t kMost = 1'000'000'000;
  std::string work;
  std::string matmul = "ieee";
  std::string conv = "tf32";
  Options options{.work = {},
                  .batch = 0,
                  .threads = dl::num_threads(),
                  .device = "cpu",
                  .mode = "eager",
                  .dtype = "f32",
                  .matmul_tf32 = false,
                  .conv_tf32 = true,
                  .benchmark = false,
                  .channels_last = false,
                  .optim = "sgd",
                  .warmup = 5,
                  .steps = 30,
                  .per_sync = 1,
                  .no_sync = false,
                  .profile = false,
                  .losses = false,
                  .seed = 123,
                  .json = false};
  app.add_option("work", work, list)->required()->check(one_of(names, "the work"));
  app.add_option("--batch", options.batch, "samples of one rank's step (" + batches + ")")
      ->transform(from_to(1, kMost));
  app.add_option("--threads", options.threads, "OpenMP threads (OMP_NUM_THREADS, or all cores)")
      ->transform(from_to(1, dl::kMostThreads));
  app.add_option("--device", options.device, "cpu, cuda (the GPU that is this rank's) or cuda:N")
      ->check(CLI::Validator(
          [](std::string& value) -> std::string {
            try {
              dl::cuda::parse_device(value);
              return {};
            } catch (const dl::Error& error) {
              return error.what();
            }
          },
          ""));
  app.add_option("--mode", options.mode,
                 "eager; compile: a tape of the step, on cpu; or captured: a CUDA graph of it "
                 "(eager); a step that cannot be repeated so is an error")
      ->check(one_of({"eager", "compile", "captured"}, "the mode"));
  app.add_option("--dtype", options.dtype,
                 "f32, or what autocast computes in: bf16 or f16, which scales its gradients (f32)")
      ->check(one_of({"f32", "bf16", "f16"}, "the dtype"));
  app.add_option("--matmul", matmul, "f32 products on cuda: ieee or tf32 (ieee)")
      ->check(one_of({"ieee", "tf32"}, "the arithmetic"));
  app.add_option("--conv", conv, "f32 convolutions on cuda: ieee or tf32 (tf32)")
      ->check(one_of({"ieee", "tf32"}, "the arithmetic"));
  app.add_flag("--benchmark", options.benchmark, "cuDNN times its algorithms and takes the best");
  app.add_flag("--channels-last", options.channels_last,
               "images come channels-last; layers choose the order of the rest");
  app.add_option("--optim", options.optim,
                 "sgd (lr 0.01, momentum 0.9), adam or adamw (lr 0.001) (sgd)")
      ->check(one_of({"sgd", "adam", "adamw"}, "the optimizer"));
  app.add_option("--warmup", options.warmup, "steps that are not timed (5)")
      ->transform(from_to(0, kMost));
  app.add_option("--steps", options.steps, "steps that are timed (30)")
      ->transform(from_to(1, kMost));
  app.add_option("--per-sync", options.per_sync,
                 "steps between two waits for the GPU; more than 1 measures throughput (1)")
      ->transform(from_to(1, kMost));
  app.add_flag("--no-sync", options.no_sync,
               "several ranks: a barrier instead of the all-reduce, the control for DDP's cost");
  app.add_flag("--profile", options.profile,
               "record a profile of the timed steps, and print it unless --json is given");
  app.add_flag("--losses", options.losses,
               "print the loss of each of the --steps, trained without dropout, and no times: on "
               "all devices the same up to rounding");
  app.add_option("--seed", options.seed, "of weights and data (123)")->transform(from_to(0, kMost));
  app.add_flag("--json", options.json, "print one JSON object");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
    if (exit_code == 0) dl::require_written(stdout, "standard output");
    return std::nullopt;
  }
  options.matmul_tf32 = matmul == "tf32";
  options.conv_tf32 = conv == "tf32";
  const bool is_cpu = options.device == "cpu";
  if ((options.mode == "captured" && is_cpu) || (options.mode == "compile" && !is_cpu)) {
    std::fputs(is_cpu ? "--mode captured needs a GPU: --device cuda\n"
                      : "--mode compile is for --device cpu; a GPU has --mode captured\n",
               stderr);
    exit_code = 2;
    return std::nullopt;
  }
  options.work = *std::ranges::find(works(), work, &Work::name);
  if (options.batch == 0) options.batch = options.work.batch;
  return options;
}

}  // namespace bench_train
