// bench_train: how long a training step takes, alone or on every rank of a job, timed as PyTorch's
// steps are timed, so that both can be compared in one run.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "collectives/init.h"
#include "core/base/version.h"
#include "core/device/parallel.h"
#include "core/random/tensor_random.h"
#include "examples/bench_train/options.h"
#include "nn/losses/losses.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/parallel/distributed.h"

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
  std::optional<dl::nn::parallel::OverlapStats> overlap;  // of the timed steps; DDP only
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
  std::optional<dl::nn::parallel::DistributedDataParallel> ddp;
  if (dl::world_size() > 1 && !options.no_sync) ddp.emplace(model, dl::default_group());
  const auto step = [&] {
    opt->zero_grad();
    dl::nn::functional::cross_entropy(ddp ? ddp->forward(x) : model(x), y).backward();
    opt->step();
    if (dl::world_size() > 1 && !ddp) dl::default_group()->barrier()->wait();
  };
  for (int i = 0; i < options.warmup; ++i) step();
  if (ddp) ddp->reset_overlap();
  std::vector<double> times;
  for (int i = 0; i < options.steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
  }
  std::ranges::sort(times);
  return {model.count_parameters(), std::move(times),
          ddp ? std::optional(ddp->overlap()) : std::nullopt};
}

void print(const Options& options, const Result& result) {
  const std::vector<double>& ms = result.sorted_ms;
  const std::size_t n = ms.size();
  const double median = n % 2 == 1 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  const double p10 = ms[n / 10];
  const double p90 = ms[n * 9 / 10];
  const int world = dl::world_size();
  const double samples_per_s = static_cast<double>(options.batch * world) / median * 1e3;
  if (options.json) {
    nlohmann::ordered_json object = {{"work", options.work.name},
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
    if (result.overlap) {
      const std::chrono::duration<double, std::milli> all = result.overlap->communication;
      object["all_reduce_ms"] = all.count() / static_cast<double>(result.overlap->steps);
      object["hidden"] = result.overlap->hidden();
    }
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print(
      "{} {} parameters, batch {} x {} ranks, {} threads, eager f32 cpu: {:.3f} ms a step (p10 "
      "{:.3f}, p90 {:.3f}), {:.0f} samples/s, peak {:.0f} MiB{}\n",
      options.work.name, result.parameters, options.batch, world, options.threads, median, p10, p90,
      samples_per_s, peak_mib(), result.overlap ? ", " + result.overlap->str() : "");
}

}  // namespace
}  // namespace bench_train

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = bench_train::parse(argc, argv, exit_code);
  if (!options) return exit_code;
  dl::init_process_group();
  const bench_train::Result result = bench_train::train(*options);
  if (dl::rank() == 0) bench_train::print(*options, result);
  dl::destroy_process_group();
}
