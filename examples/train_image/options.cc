#include "examples/train_image/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/number.h"
#include "core/base/version.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"
#include "examples/support/training/choices/optimizers.h"
#include "examples/support/training/choices/rows.h"
#include "examples/support/training/choices/schedules.h"
#include "examples/train_image/choices/augment.h"
#include "examples/train_image/choices/models.h"
#include "examples/train_image/choices/task.h"

namespace dl::examples {
namespace {

// Refuses an empty name: it usually means an unset variable in the calling script.
std::string refuse_empty(const std::string& name) {
  return name.empty() ? "an empty name; leave it out" : std::string();
}

CLI::Validator whole(std::int64_t least, std::uint64_t most) {
  return {whole_number(least, most), ""};
}

CLI::Validator real(double least, double most) {
  return {real_number(least, most), ""};
}

std::string refuse_no_device(const std::string& text) {
  if (text == "cuda") return {};  // whether there is one is asked later
  try {
    cuda::parse_device(text);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

// Refuses values that do not go together, and sets what depends on --optimizer.
class Agreement {
 public:
  Agreement(const CLI::App& app, Options& options) : app_(app), o_(options) {}

  void settle() {
    const OptimizerRow& optimizer = find_optimizer(o_.optimizer);
    if (is_given("--optimizer")) {
      if (!is_given("--lr")) o_.lr = optimizer.lr;
      if (!is_given("--weight-decay")) o_.weight_decay = optimizer.weight_decay;
    }
    require(optimizer.has_momentum || !is_given("--momentum"), "--momentum",
            "is not an option of --optimizer " + o_.optimizer);
    require(o_.optimizer != "nesterov" || o_.momentum > 0, "--momentum",
            "is 0, but --optimizer nesterov needs more");
    const ScheduleRow& schedule = find_schedule(o_.schedule);
    require(schedule.warms_up || o_.warmup_epochs == 0, "--warmup-epochs",
            "needs --schedule step or cosine");
    require(o_.warmup_epochs == 0 || o_.warmup_epochs < o_.epochs, "--warmup-epochs",
            "leaves no epoch of --epochs " + std::to_string(o_.epochs));
    require(o_.schedule == "step" || !(is_given("--step-epochs") || is_given("--gamma")),
            is_given("--gamma") ? "--gamma" : "--step-epochs", "needs --schedule step");
    const ModelRow& model = find_model(o_.model);
    require(o_.image_size == 0 || o_.image_size >= model.least_side, "--image-size",
            "is too small: --model " + o_.model + " takes images from " +
                std::to_string(model.least_side) + " pixels a side on");
  }

 private:
  bool is_given(const char* option) const { return app_.count(option) > 0; }
  static void require(bool holds, const std::string& option, const std::string& problem) {
    if (!holds) throw CLI::ValidationError(option, problem);
  }

  const CLI::App& app_;
  Options& o_;
};

}  // namespace

std::variant<Options, int> parse_options(const Program& program, int argc,
                                         const char* const* argv) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  constexpr int kBadUsage = 2;
  Options o = program.defaults;
  o.program = program.name;
  CLI::App app(std::string(program.about), o.program);
  app.set_version_flag("--version", fmt::format("{} {}", program.name, kVersion));
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
  app.add_option("--epochs", o.epochs, "passes over the training set; 0 only evaluates")
      ->transform(whole(0, kMost))
      ->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "samples a step on each rank")
      ->transform(whole(1, kMost))
      ->capture_default_str();
  app.add_option("--optimizer", o.optimizer, "what changes the parameters")
      ->check(CLI::IsMember(names_of(optimizers())))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate; 0.05 of sgd, others have their own default")
      ->transform(real(0, 1e9));
  app.add_option("--momentum", o.momentum, "momentum of sgd, nesterov and rmsprop")
      ->transform(real(0, 1))
      ->capture_default_str();
  app.add_option("--weight-decay", o.weight_decay, "default: 0, and 0.01 of adamw")
      ->transform(real(0, 1e9));
  app.add_option("--schedule", o.schedule, "how the learning rate changes from step to step")
      ->check(CLI::IsMember(names_of(schedules())))
      ->capture_default_str();
  app.add_option("--warmup-epochs", o.warmup_epochs,
                 "epochs in which the rate rises, before --schedule step or cosine")
      ->transform(whole(0, kMost))
      ->capture_default_str();
  app.add_option("--step-epochs", o.step_epochs,
                 "epochs between two steps of --schedule step; default: a third of --epochs")
      ->transform(whole(1, kMost));
  app.add_option("--gamma", o.gamma, "what --schedule step multiplies the rate by")
      ->transform(real(0, 1))
      ->capture_default_str();
  app.add_option("--label-smoothing", o.label_smoothing, "share of a target that all classes get")
      ->transform(real(0, 1))
      ->capture_default_str();
  app.add_option("--clip-norm", o.clip_norm, "largest norm of the gradients; 0: any")
      ->transform(real(0, 1e9))
      ->capture_default_str();
  app.add_option("--ema", o.ema,
                 "evaluate and save a moving average of the parameters with this decay; 0: none")
      ->transform(real(0, 1))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of initial weights and shuffles; the same on every rank")
      ->transform(whole(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  app.add_option("--device", o.device,
                 "where to compute: cpu, cuda (the GPU that is this rank's) or cuda:N")
      ->check(refuse_no_device)
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads a rank computes with; default OMP_NUM_THREADS")
      ->transform(whole(1, kMostThreads));
  app.add_option("--workers", o.workers, "threads a rank reads data with; 0 reads between steps")
      ->transform(whole(0, kMostThreads))
      ->capture_default_str();
  app.add_option("--save", o.save, "write the trained parameters to this safetensors file")
      ->check(refuse_empty);
  app.add_option("--load", o.load, "begin with the parameters of this safetensors file")
      ->check(refuse_empty);
  auto* const checkpoint_dir =
      app.add_option("--checkpoint-dir", o.checkpoint_dir,
                     "save checkpoints here, on rank 0; all ranks read them")
          ->check(refuse_empty);
  app.add_option("--checkpoint-every,--save-every", o.checkpoint_every,
                 "steps between two checkpoints")
      ->transform(whole(1, kMost))
      ->needs(checkpoint_dir)
      ->capture_default_str();
  app.add_option("--checkpoint-keep", o.keep, "newest checkpoints that stay")
      ->transform(whole(1, 1'000'000))
      ->needs(checkpoint_dir)
      ->capture_default_str();
  app.add_flag("--resume", o.resume,
               "go on from the newest checkpoint; begin anew if there is none yet")
      ->needs(checkpoint_dir);
  app.add_option("--eval-every", o.eval_every,
                 "epochs between two evaluations; 0: at the end only. With --checkpoint-dir, the "
                 "best model is kept there as best.safetensors")
      ->transform(whole(0, kMost))
      ->capture_default_str();
  app.add_option("--log-every", o.log_every, "steps between two lines")
      ->transform(whole(1, kMost))
      ->capture_default_str();
  app.add_option("--amp", o.amp, "mixed precision: products and convolutions in bf16 or f16")
      ->check(CLI::IsMember({"off", "bf16", "f16"}))
      ->capture_default_str();
  app.add_flag("--compile,--capture", o.compiles,
               "compile the step: a tape on a CPU, a CUDA graph on a GPU; if it cannot, say why");
  auto* const profile =
      app.add_option("--profile", o.profile_dir,
                     "show which operations 100 steps consist of; in DIR, a trace of each rank")
          ->type_name("[DIR]")
          ->expected(0, 1);
  bool shows_parallel_info = false;
  app.add_flag("--parallel-info", shows_parallel_info,
               "print threads, libraries and environment, and do nothing else");
  app.add_flag("--json", o.json, "print one JSON object a step, and one at the end, on stdout");
  try {
    app.parse(argc, argv);
    Agreement(app, o).settle();
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kBadUsage;
    require_written(stdout, "standard output");
    return 0;
  }
  o.profile = profile->count() > 0;
  if (shows_parallel_info) {
    if (o.threads > 0) set_num_threads(o.threads);
    std::fputs(parallel_info().c_str(), stdout);
    require_written(stdout, "standard output");
    return 0;
  }
  return o;
}

}  // namespace dl::examples
