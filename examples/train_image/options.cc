#include "examples/train_image/options.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "examples/support/training/choices/rows.h"
#include "examples/support/training/choices/schedules.h"
#include "examples/support/training/command_line.h"
#include "examples/train_image/choices/augment.h"
#include "examples/train_image/choices/models.h"
#include "examples/train_image/choices/task.h"

namespace dl::examples {
namespace {

// Refuses values that do not go together.
void settle(const CommandLine& line, const Options& o) {
  const auto require = CommandLine::require;
  const ScheduleRow& schedule = find_schedule(o.run.schedule);
  require(schedule.warms_up || o.warmup_epochs == 0, "--warmup-epochs",
          "needs --schedule step or cosine");
  require(o.warmup_epochs == 0 || o.warmup_epochs < o.run.epochs, "--warmup-epochs",
          "leaves no epoch of --epochs " + std::to_string(o.run.epochs));
  require(o.run.schedule == "step" || !(line.is_given("--step-epochs") || line.is_given("--gamma")),
          line.is_given("--gamma") ? "--gamma" : "--step-epochs", "needs --schedule step");
  const ModelRow& model = find_model(o.model);
  require(o.image_size == 0 || o.image_size >= model.least_side, "--image-size",
          "is too small: --model " + o.model + " takes images from " +
              std::to_string(model.least_side) + " pixels a side on");
}

}  // namespace

std::variant<Options, int> parse_options(const Program& program, int argc,
                                         const char* const* argv) {
  Options o = program.defaults;
  CommandLine line(program.name, program.about, o.run);
  CLI::App& app = line.app();
  app.add_option("--model", o.model, "the network to train")
      ->check(CLI::IsMember(names_of(models())))
      ->capture_default_str();
  app.add_option(
         "--dataset", o.dataset,
         "what to learn: digits (comes with dlrun), a downloaded set, or a folder of images")
      ->check(CLI::IsMember(dataset_names()))
      ->capture_default_str();
  app.add_option("--data-dir", o.data_dir, "folder with the files of the set")->check(refuse_empty);
  app.add_option("--image-size", o.image_size,
                 "pixels a side to resize images to; default: as the set and the model have it")
      ->transform(whole(4, 4096));
  app.add_option("--augment", o.augment, "change training images at random")
      ->check(CLI::IsMember(names_of(augmentations())))
      ->capture_default_str();
  line.add_epochs();
  app.add_option("--batch-size", o.run.batch_size, "samples a step on each rank")
      ->transform(whole(1, kMostCounted))
      ->capture_default_str();
  line.add_optimizer();
  app.add_option("--warmup-epochs", o.warmup_epochs,
                 "epochs in which the rate rises, before --schedule step or cosine")
      ->transform(whole(0, kMostCounted))
      ->capture_default_str();
  app.add_option("--step-epochs", o.step_epochs,
                 "epochs between two steps of --schedule step; default: a third of --epochs")
      ->transform(whole(1, kMostCounted));
  app.add_option("--gamma", o.gamma, "what --schedule step multiplies the rate by")
      ->transform(real(0, 1))
      ->capture_default_str();
  app.add_option("--label-smoothing", o.label_smoothing, "share of a target that all classes get")
      ->transform(real(0, 1))
      ->capture_default_str();
  line.add_clip_norm();
  app.add_option("--ema", o.ema,
                 "evaluate and save a moving average of the parameters with this decay; 0: none")
      ->transform(real(0, 1))
      ->capture_default_str();
  line.add_machine();
  app.add_option("--save", o.run.save, "write the trained parameters to this safetensors file")
      ->check(refuse_empty);
  app.add_option("--load", o.run.load, "begin with the parameters of this safetensors file")
      ->check(refuse_empty);
  line.add_checkpoints();
  app.add_option("--eval-every", o.eval_every,
                 "epochs between two evaluations; 0: at the end only. With --checkpoint-dir, the "
                 "best model is kept there as best.safetensors")
      ->transform(whole(0, kMostCounted))
      ->capture_default_str();
  line.add_output();
  if (const auto exit_code = line.parse(argc, argv, [&] { settle(line, o); })) return *exit_code;
  return o;
}

std::string settings_of_steps(const Options& options) {
  // Checkpoints hold this text, so an option that came later is in it only if it is used.
  std::string text =
      fmt::format("--dataset {} --batch-size {} --lr {} --momentum {} --seed {} --amp {}",
                  options.dataset, options.run.batch_size, options.run.lr, options.run.momentum,
                  options.run.seed, options.run.amp);
  const Options unused{};
  const auto add = [&](const char* option, const auto& value, const auto& default_value) {
    if (value != default_value) text += fmt::format(" {} {}", option, value);
  };
  add("--model", options.model, unused.model);
  add("--image-size", options.image_size, unused.image_size);
  add("--augment", options.augment, unused.augment);
  add("--optimizer", options.run.optimizer, unused.run.optimizer);
  add("--weight-decay", options.run.weight_decay, unused.run.weight_decay);
  if (options.run.schedule != unused.run.schedule) {
    text += fmt::format(" --schedule {} --epochs {} --warmup-epochs {}", options.run.schedule,
                        options.run.epochs, options.warmup_epochs);
  }
  if (options.run.schedule == "step") {
    text += fmt::format(" --step-epochs {} --gamma {}", options.step_epochs, options.gamma);
  }
  add("--label-smoothing", options.label_smoothing, unused.label_smoothing);
  add("--clip-norm", options.run.clip_norm, unused.run.clip_norm);
  add("--ema", options.ema, unused.ema);
  return text;
}

}  // namespace dl::examples
