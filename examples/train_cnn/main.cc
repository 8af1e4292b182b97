// train_cnn: trains a small convolutional network on images, on one process or on many.
//
//     train_cnn                              # alone, on the digits that come with dlrun
//     dlrun --nproc-per-node 2 train_cnn     # the same network, on two ranks
//
// Copy this file and train_image to begin a program of your own: choices/task.h says what is
// learned, train.h how, report/reporter.h what is shown.
#include <fmt/core.h>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"
#include "core/random/generator.h"
#include "examples/train_image/checks.h"
#include "examples/train_image/choices/task.h"
#include "examples/train_image/options.h"
#include "examples/train_image/report/fingerprint.h"
#include "examples/train_image/report/profiling.h"
#include "examples/train_image/report/reporter.h"
#include "examples/train_image/train.h"
#include "nn/models/book.h"
#include "nn/serialize/safetensors.h"

namespace dl::examples {
namespace {

void run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  const Device device = cuda::choose_device(options.device);
  const Task task = load_task(options.dataset, options.data_dir);
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
  nn::Sequential model = nn::models::book_cnn(task.model);
  if (!options.load.empty()) {
    model.load_state_dict(nn::load_safetensors(options.load));
  }
  model.to(device);
  reporter.note(fmt::format(
      "{}: {} training and {} test images, {} parameters, {} rank{} with {} "
      "thread{} each{}",
      options.dataset, task.train.size(), task.test.size(), model.count_parameters(), group->size(),
      group->size() == 1 ? "" : "s", num_threads(), num_threads() == 1 ? "" : "s",
      device.type == DeviceType::kCUDA ? " on " + device.str() : ""));

  Profiling profiling(options);
  const Trained trained = train(model, task.train, options, device, group, reporter, profiling);
  Result result{.test_accuracy = accuracy(model, task.test, options, device, *group),
                .samples_per_s = trained.samples_per_s(),
                .parameters = model.count_parameters(),
                .world_size = group->size()};
  const Sha256 hash = fingerprint(model.named_parameters());
  require_equal_on_all_ranks(hash, *group);
  result.parameters_sha256 = hex(hash);
  if (first && !options.save.empty()) {
    nn::save_safetensors(options.save, model.state_dict(), {{"dataset", options.dataset}});
  }
  profiling.finish(reporter);
  reporter.finish(result);
  destroy_process_group();
}

}  // namespace
}  // namespace dl::examples

int main(int argc, char** argv) {
  const auto options = dl::examples::parse_options(argc, argv);
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  dl::examples::run(std::get<dl::examples::Options>(options));  // an Error ends with its text and 1
}
