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
#include "examples/support/training/report/profiling.h"
#include "examples/support/training/report/reporter.h"
#include "examples/support/training/session.h"
#include "examples/train_image/choices/models.h"
#include "examples/train_image/choices/task.h"
#include "examples/train_image/train.h"
#include "nn/serialize/safetensors.h"

namespace dl::examples {
namespace {

// What ranks compare: also what decides how long they work together.
std::string settings_of_run(const Options& options) {
  return fmt::format(
      "{} --epochs {}{}", settings_of_steps(options), options.run.epochs,
      options.eval_every == 0 ? "" : fmt::format(" --eval-every {}", options.eval_every));
}

void run(const Options& options) {
  if (options.run.threads > 0) set_num_threads(options.run.threads);
  const Device device = cuda::choose_device(options.run.device);
  const Task task = load_task(options);
  init_process_group();
  const Ref<collectives::ProcessGroup> group = default_group();
  require_writable_places(options.run, *group);
  require_equal_settings(settings_of_run(options), options.run, *group);
  Reporter reporter(reporter_config(options.run, *group, "samples"));

  manual_seed(options.run.seed);
  const ModelRow& row = find_model(options.model);
  const std::unique_ptr<nn::Module> model = row.make(task.input);
  if (!options.run.load.empty()) {
    model->load_state_dict(nn::load_safetensors(options.run.load));
  }
  model->to(device);
  std::unique_ptr<nn::Module> average;
  if (options.ema > 0) {
    average = row.make(task.input);
    average->to(device);
  }
  reporter.note(fmt::format("{}: {} training and {} test images, {} parameters, {}",
                            options.dataset, task.train->size(), task.test->size(),
                            model->count_parameters(), describe_ranks(*group, device)));

  Profiling profiling(options.run);
  const Trained trained = train(ImageTraining{.model = *model,
                                              .average = average.get(),
                                              .task = task,
                                              .options = options,
                                              .device = device,
                                              .group = group,
                                              .reporter = reporter,
                                              .profiling = profiling});
  nn::Module& result = average ? *average : *model;
  const Scores scores =
      trained.scores ? *trained.scores : test(result, *task.test, options, device, *group).scores;
  reporter.finish(conclude({.model = result,
                            .scores = scores,
                            .per_s = trained.per_s(),
                            .metadata = {{"dataset", options.dataset}}},
                           options.run, *group, profiling, reporter));
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
