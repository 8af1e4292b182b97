// bench_train: how long a training step takes, alone or on every rank of a job, timed as PyTorch's
// steps are timed, so that both can be compared in one run.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/version.h"
#include "core/device/parallel.h"
#include "core/random/tensor_random.h"
#include "examples/bench_train/options.h"
#include "nn/losses/losses.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"

namespace bench_train {
namespace {

std::unique_ptr<dl::optim::Optimizer> make_optimizer(const std::string& name,
                                                     const std::vector<dl::Tensor>& params) {
  if (name == "adam") return std::make_unique<dl::optim::Adam>(params);
  return std::make_unique<dl::optim::SGD>(params,
                                          dl::optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // Linux counts KiB
}

struct Result {
  std::int64_t parameters;
  std::vector<double> sorted_ms;
};

Result train(const Options& options) {
  dl::set_num_threads(options.threads);
  dl::manual_seed(options.seed);
  dl::nn::Sequential model = options.work.make();
  dl::Shape shape = options.work.sample;
  shape.insert(0, options.batch);
  const dl::Tensor x = dl::randn(shape);
  const dl::Tensor y = dl::randint(0, options.work.classes, {options.batch});
  const auto opt = make_optimizer(options.optim, model.parameters());
  const auto step = [&] {
    opt->zero_grad();
    dl::nn::functional::cross_entropy(model(x), y).backward();
    opt->step();
  };
  for (int i = 0; i < options.warmup; ++i) step();
  std::vector<double> times;
  for (int i = 0; i < options.steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
  }
  std::ranges::sort(times);
  return {model.count_parameters(), std::move(times)};
}

void print(const Options& options, const Result& result) {
  const std::vector<double>& ms = result.sorted_ms;
  const std::size_t n = ms.size();
  const double median = n % 2 == 1 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  const double p10 = ms[n / 10];
  const double p90 = ms[n * 9 / 10];
  const int world = 1;
  const double samples_per_s = static_cast<double>(options.batch * world) / median * 1e3;
  if (options.json) {
    const nlohmann::ordered_json object = {{"work", options.work.name},
                                           {"parameters", result.parameters},
                                           {"batch", options.batch},
                                           {"world", world},
                                           {"threads", options.threads},
                                           {"mode", "eager"},
                                           {"dtype", "f32"},
                                           {"device", "cpu"},
                                           {"optim", options.optim},
                                           {"channels_last", false},
                                           {"median_ms", median},
                                           {"p10_ms", p10},
                                           {"p90_ms", p90},
                                           {"samples_per_s", samples_per_s},
                                           {"peak_mib", peak_mib()},
                                           {"dlrun", dl::kVersion}};
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print(
      "{} {} parameters, batch {} x {} ranks, {} threads, eager f32 cpu: {:.3f} ms a step (p10 "
      "{:.3f}, p90 {:.3f}), {:.0f} samples/s, peak {:.0f} MiB\n",
      options.work.name, result.parameters, options.batch, world, options.threads, median, p10, p90,
      samples_per_s, peak_mib());
}

}  // namespace
}  // namespace bench_train

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = bench_train::parse(argc, argv, exit_code);
  if (!options) return exit_code;
  bench_train::print(*options, bench_train::train(*options));
}
