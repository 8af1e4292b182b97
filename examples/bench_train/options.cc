#include "examples/bench_train/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "core/device/parallel.h"
#include "nn/models/book_cnn.h"
#include "nn/models/mlp.h"

namespace bench_train {
namespace {

std::vector<Work> works() {
  using namespace dl::nn::models;
  return {{"mlp", mlp, {50}, 3, 8},
          {"cnn", [] { return book_cnn(); }, {1, 28, 28}, 10, 64},
          {"cnn-cifar", [] { return book_cnn({.channels = 3, .size = 32}); }, {3, 32, 32}, 10, 64}};
}

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

// CLI11's own texts for ranges end in 309 digits.
CLI::Validator at_least(std::int64_t least) {
  return CLI::Validator(
      [least](std::string& value) -> std::string {
        std::int64_t number = 0;
        if (CLI::detail::lexical_cast(value, number) && number >= least) return {};
        return value + " is not a whole number of at least " + std::to_string(least);
      },
      "");
}

}  // namespace

std::optional<Options> parse(int argc, char** argv, int& exit_code) {
  CLI::App app(
      "Times one training step: zero_grad, forward, cross entropy, backward, optimizer step, on "
      "one "
      "batch of synthetic data. Prints median, p10 and p90 in milliseconds, samples/s and peak "
      "memory. Under dlrun every rank trains its own batch with DistributedDataParallel.",
      "bench_train");
  std::vector<std::string> names;
  for (const Work& work : works()) names.push_back(work.name);

  std::string work;
  std::string mode = "eager";
  std::string dtype = "f32";
  std::string device = "cpu";
  Options options{.work = {},
                  .batch = 0,
                  .threads = dl::num_threads(),
                  .optim = "sgd",
                  .warmup = 5,
                  .steps = 30,
                  .no_sync = false,
                  .seed = 123,
                  .json = false};
  app.add_option("work", work, "mlp, cnn or cnn-cifar")
      ->required()
      ->check(one_of(names, "the work"));
  app.add_option("--batch", options.batch, "samples of one rank's step (mlp 8, cnn 64)")
      ->check(at_least(1));
  app.add_option("--threads", options.threads, "OpenMP threads (OMP_NUM_THREADS, or all cores)")
      ->check(at_least(1));
  app.add_option("--mode", mode, "eager")->check(one_of({"eager"}, "the mode"));
  app.add_option("--dtype", dtype, "f32")->check(one_of({"f32"}, "the dtype"));
  app.add_option("--device", device, "cpu")->check(one_of({"cpu"}, "the device"));
  app.add_option("--optim", options.optim, "sgd (lr 0.01, momentum 0.9) or adam (lr 0.001)")
      ->check(one_of({"sgd", "adam"}, "the optimizer"));
  app.add_option("--warmup", options.warmup, "steps that are not timed (5)")->check(at_least(0));
  app.add_option("--steps", options.steps, "steps that are timed (30)")->check(at_least(1));
  app.add_flag("--no-sync", options.no_sync,
               "several ranks: a barrier instead of the all-reduce, the control for DDP's cost");
  app.add_option("--seed", options.seed, "of weights and data (123)");
  app.add_flag("--json", options.json, "print one JSON object");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  }
  const std::vector<Work> all = works();
  options.work = *std::ranges::find(all, work, &Work::name);
  if (options.batch == 0) options.batch = options.work.batch;
  return options;
}

}  // namespace bench_train
