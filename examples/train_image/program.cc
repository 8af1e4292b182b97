#include "examples/train_image/program.h"

#include <fmt/core.h>

#include <memory>
#include <string>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"
#include "core/random/generator.h"
#include "examples/support/training/checks.h"
#include "examples/support/training/report/fingerprint.h"
#include "examples/support/training/report/profiling.h"
#include "examples/support/training/report/reporter.h"
#include "examples/train_image/choices/models.h"
#include "examples/train_image/choices/task.h"
#include "examples/train_image/train.h"
#include "nn/serialize/safetensors.h"

namespace dl::examples {
namespace {

void run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const Device device = cuda::choose_device(options.device);
  const Task task = load_task(options);
  init_process_group();
  const Ref<collectives::ProcessGroup> group = default_group();
  const bool first = group->rank() == 0;
  if (first && !options.save.empty()) require_writable(options.save);
  if (first && !options.checkpoint_dir.empty()) {
    require_writable_folder("--checkpoint-dir", options.checkpoint_dir);
  }
  if (!options.profile_dir.empty()) require_writable_folder("--profile", options.profile_dir);
  require_equal_settings(options, *group);
  Reporter reporter({.speaks = first,
                     .json = options.json,
                     .log_every = options.log_every,
                     .progress_width = terminal_width()});

  manual_seed(options.seed);
  const ModelRow& row = find_model(options.model);
  const std::unique_ptr<nn::Module> model = row.make(task.input);
  if (!options.load.empty()) {
    model->load_state_dict(nn::load_safetensors(options.load));
  }
  model->to(device);
  std::unique_ptr<nn::Module> average;
  if (options.ema > 0) {
    average = row.make(task.input);
    average->to(device);
  }
  reporter.note(fmt::format(
      "{}: {} training and {} test images, {} parameters, {} rank{} with {} "
      "thread{} each{}",
      options.dataset, task.train->size(), task.test->size(), model->count_parameters(),
      group->size(), group->size() == 1 ? "" : "s", num_threads(), num_threads() == 1 ? "" : "s",
      device.type == DeviceType::kCUDA ? " on " + device.str() : ""));

  Profiling profiling(options);
  const Trained trained = train({.model = *model,
                                 .average = average.get(),
                                 .task = task,
                                 .options = options,
                                 .device = device,
                                 .group = group,
                                 .reporter = reporter,
                                 .profiling = profiling});
  nn::Module& result_model = average ? *average : *model;
  Result result{.samples_per_s = trained.samples_per_s(),
                .parameters = model->count_parameters(),
                .world_size = group->size()};
  result.test_accuracy = trained.test_accuracy
                             ? *trained.test_accuracy
                             : accuracy(result_model, *task.test, options, device, *group);
  const Sha256 hash = fingerprint(result_model.named_parameters());
  require_equal_on_all_ranks(hash, *group);
  result.parameters_sha256 = hex(hash);
  if (first && !options.save.empty()) {
    nn::save_safetensors(options.save, result_model.state_dict(), {{"dataset", options.dataset}});
  }
  profiling.finish(reporter);
  reporter.finish(result);
  destroy_process_group();
}

}  // namespace

int run_program(const Program& program, int argc, const char* const* argv) {
  const auto options = parse_options(program, argc, argv);
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  run(std::get<Options>(options));
  return 0;
}

}  // namespace dl::examples
