// bench_train: how long a training step takes, alone or on every rank of a job, timed as PyTorch's
// steps are timed, so that both can be compared in one run.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/init/init.h"
#include "core/autocast/autocast.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/version.h"
#include "core/device/cuda/cuda.h"
#include "core/device/math_flags.h"
#include "core/device/parallel.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/profiler/profile.h"
#include "core/random/tensor_random.h"
#include "examples/bench_train/options.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/dropout.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"

namespace bench_train {
namespace {

std::unique_ptr<dl::optim::Optimizer> make_optimizer(const std::string& name,
                                                     const std::vector<dl::Tensor>& params) {
  if (name == "adam") return std::make_unique<dl::optim::Adam>(params);
  if (name == "adamw") return std::make_unique<dl::optim::AdamW>(params);
  return std::make_unique<dl::optim::SGD>(params,
                                          dl::optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
}

// On a GPU, the memory that PyTorch's max_memory_allocated() counts; on a CPU, the process's.
double peak_mib(dl::Device device) {
  if (device.type == dl::DeviceType::kCUDA) {
    return static_cast<double>(dl::cuda::max_memory_allocated(device.index)) / (1 << 20);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // Linux counts KiB
}

// The peak of the process's memory since the last reset, if the kernel can reset it.
class StepsPeak {
 public:
  void reset() {
    std::ofstream file("/proc/self/clear_refs");
    was_reset_ = static_cast<bool>(file << "5" << std::flush);
  }
  std::optional<double> mib() const {
    std::ifstream status("/proc/self/status");
    constexpr std::string_view kName = "VmHWM:";
    for (std::string line; was_reset_ && std::getline(status, line);) {
      if (line.starts_with(kName)) return std::stod(line.substr(kName.size())) / 1024;
    }
    return std::nullopt;
  }

 private:
  bool was_reset_ = false;
};

struct Batch {
  dl::Tensor input;
  dl::Tensor target;
};

Batch make_batch(const Options& options, dl::Device device) {
  const Work& work = options.work;
  dl::Shape shape = work.sample;
  shape.insert(0, options.batch);
  dl::Tensor input = work.has_words ? dl::randint(0, work.classes, shape) : dl::randn(shape);
  if (options.channels_last && input.dim() == 4) {
    input = input.contiguous(dl::MemoryFormat::kChannelsLast);
  }
  const std::int64_t targets = work.has_words ? input.numel() : options.batch;
  return {input.to(device), dl::randint(0, work.classes, {targets}).to(device)};
}

struct Result {
  std::int64_t parameters = 0;
  std::vector<double> losses;  // of all steps, if --losses is given; then nothing follows
  std::vector<double> sorted_ms;
  double peak_mib = 0;                                    // of the whole run
  std::optional<double> steps_peak_mib;                   // of the timed steps; CPU only
  std::string processor;                                  // the GPU's name; empty on a CPU
  std::optional<dl::nn::parallel::OverlapStats> overlap;  // of the timed steps; DDP only
  std::optional<dl::CompileSummary> tape;
  std::string profile;  // a table, if one was asked for
};

Result train(const Options& options, dl::Device device) {
  const bool on_gpu = device.type == dl::DeviceType::kCUDA;
  dl::set_num_threads(options.threads);
  dl::backends::cuda::matmul::allow_tf32 = options.matmul_tf32;
  dl::backends::cudnn::allow_tf32 = options.conv_tf32;
  dl::backends::cudnn::benchmark = options.benchmark;
  dl::manual_seed(options.seed);
  const std::unique_ptr<dl::nn::Module> made = options.work.make();
  dl::nn::Module& model = *made;
  if (options.losses) {
    // Each device draws other numbers.
    for (const auto& [name, module] : model.named_modules()) {
      if (auto* const dropout = dynamic_cast<dl::nn::Dropout*>(module)) dropout->eval();
    }
  }
  model.to(device);
  const auto [x, y] = make_batch(options, device);
  const auto opt = make_optimizer(options.optim, model.parameters());
  std::optional<dl::nn::parallel::DistributedDataParallel> ddp;
  if (dl::world_size() > 1 && !options.no_sync) ddp.emplace(model, dl::default_group());
  const dl::AutocastOptions mixed{
      .dtype = options.dtype == "f16" ? dl::DType::kF16 : dl::DType::kBF16,
      .enabled = options.dtype != "f32"};
  dl::amp::GradScaler scaler({.enabled = options.dtype == "f16"});
  const auto compute = [&](const dl::Tensor& input, const dl::Tensor& target) {
    opt->zero_grad();
    dl::Tensor loss;
    {
      const dl::autocast cast(device.type, mixed);
      loss = dl::nn::functional::cross_entropy(ddp ? ddp->forward(input) : model(input), target);
    }
    scaler.scale(loss).backward();
    scaler.step(*opt);
    scaler.update();
    return loss;
  };
  auto compiled = dl::compile(compute, {.enabled = options.mode != "eager", .whole = true});
  const auto step = [&] {
    compiled(x, y);
    if (dl::world_size() > 1 && !ddp) dl::default_group()->barrier()->wait();
  };
  const auto synchronize = [&] {
    if (on_gpu) dl::cuda::synchronize();
  };
  if (options.losses) {
    std::vector<double> losses;
    for (int i = 0; i < options.steps; ++i) losses.push_back(compiled(x, y).item<double>());
    Result result;
    result.losses = std::move(losses);
    return result;
  }
  // In captured mode the first step runs eagerly, and the second captures; in compile mode the
  // first records, three check, and the first replay makes the arena.
  const int least = options.mode == "captured" ? 2 : options.mode == "compile" ? 5 : 0;
  const int warmup = std::max(options.warmup, least);
  for (int i = 0; i < warmup; ++i) step();
  synchronize();
  if (ddp) ddp->reset_overlap();
  std::vector<double> times;
  dl::profiler::Profile profile;
  if (options.profile) profile.start();
  const double peak_before = peak_mib(device);  // which a reset makes lower
  StepsPeak steps_peak;
  if (!on_gpu) steps_peak.reset();
  for (int i = 0; i < options.steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < options.per_sync; ++k) step();
    synchronize();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / options.per_sync);
  }
  if (options.profile) profile.stop();
  std::ranges::sort(times);
  return {model.count_parameters(),
          {},
          std::move(times),
          std::max(peak_before, peak_mib(device)),
          steps_peak.mib(),
          on_gpu ? std::string(dl::cuda::get_device_properties(device.index).name) : std::string(),
          ddp ? std::optional(ddp->overlap()) : std::nullopt,
          options.mode == "compile" ? std::optional(compiled.summary()) : std::nullopt,
          options.profile && !options.json
              ? profile.key_averages().table({.sort_by = "self_cpu_time_total", .row_limit = 20})
              : std::string()};
}

void print_losses(const Options& options, const std::vector<double>& losses) {
  if (options.json) {
    const nlohmann::ordered_json object = {{"work", options.work.name}, {"batch", options.batch},
                                           {"mode", options.mode},      {"dtype", options.dtype},
                                           {"device", options.device},  {"losses", losses}};
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("{}\n", fmt::join(losses, "\n"));
  }
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
                                     {"mode", options.mode},
                                     {"dtype", options.dtype},
                                     {"device", options.device},
                                     {"optim", options.optim},
                                     {"channels_last", options.channels_last},
                                     {"profile", options.profile},
                                     {"median_ms", median},
                                     {"p10_ms", p10},
                                     {"p90_ms", p90},
                                     {"samples_per_s", samples_per_s},
                                     {"peak_mib", result.peak_mib},
                                     {"dlrun", dl::kVersion}};
    if (result.steps_peak_mib) object["steps_peak_mib"] = *result.steps_peak_mib;
    if (!result.processor.empty()) {
      object["gpu"] = result.processor;
      object["per_sync"] = options.per_sync;
      object["matmul"] = options.matmul_tf32 ? "tf32" : "ieee";
      object["conv"] = options.conv_tf32 ? "tf32" : "ieee";
      object["benchmark"] = options.benchmark;
    }
    if (result.tape) {
      object["tape_steps"] = result.tape->steps;
      object["arena_mib"] = static_cast<double>(result.tape->arena_bytes) / (1 << 20);
      object["capture_ms"] = result.tape->capture_ms;
    }
    if (result.overlap) {
      const std::chrono::duration<double, std::milli> all = result.overlap->communication;
      object["all_reduce_ms"] = all.count() / static_cast<double>(result.overlap->steps);
      object["hidden"] = result.overlap->hidden();
    }
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print(
      "{} {} parameters, batch {} x {} ranks, {} threads, {} {} {}: {:.3f} ms a step "
      "(p10 {:.3f}, p90 {:.3f}), {:.0f} samples/s, peak {:.0f} MiB{}{}{}\n",
      options.work.name, result.parameters, options.batch, world, options.threads, options.mode,
      options.dtype, options.device, median, p10, p90, samples_per_s, result.peak_mib,
      result.steps_peak_mib ? fmt::format(" ({:.0f} in these steps)", *result.steps_peak_mib) : "",
      result.overlap ? ", " + result.overlap->str() : "",
      result.tape ? ", " + result.tape->str() : "");
  fmt::print("{}", result.profile);
}

}  // namespace
}  // namespace bench_train

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = bench_train::parse(argc, argv, exit_code);
  if (!options) return exit_code;
  const dl::Device device = dl::cuda::choose_device(options->device);
  dl::init_process_group();
  const bench_train::Result result = bench_train::train(*options, device);
  if (dl::rank() == 0) {
    if (options->losses) {
      bench_train::print_losses(*options, result.losses);
    } else {
      bench_train::print(*options, result);
    }
    dl::require_written(stdout, "standard output");
  }
  dl::destroy_process_group();
}
