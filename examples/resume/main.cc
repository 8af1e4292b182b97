// resume: a training run that continues after a failure.
//
//     dlrun --nproc-per-node 4 --max-restarts 3 resume --checkpoint fit.safetensors --steps 2000
//
// Fits a small network to a function. Every --save-every steps rank 0 writes model and step to the
// checkpoint; each attempt begins with what it finds there. A step's batch follows from the step's
// number, and SGD without momentum keeps nothing, so that a run that was interrupted ends with the
// same parameters, bit for bit, as one that was not. If dlrun is asked to make room (--preempt),
// the checkpoint is that of the last step.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "collectives/compose/objects.h"
#include "collectives/init/checkpoint/checkpoint.h"
#include "collectives/init/init.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/number.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"
#include "nn/serialize/safetensors.h"

namespace {

using namespace dl;

struct Options {
  std::string checkpoint;
  std::int64_t steps = 1000;
  std::int64_t save_every = 50;
  std::int64_t die_at = -1;  // step of the first attempt at which the last rank kills itself
};

constexpr std::int64_t kInputs = 8;
constexpr std::int64_t kBatch = 32;  // of a rank
constexpr const char* kStepKey = "step";

// Rank 0's file counts, so that the ranks need no common file system: it says the step, and
// DistributedDataParallel copies its parameters to the others.
std::int64_t load(const Options& options, nn::Module& model, collectives::ProcessGroup& group) {
  std::string step = "0";
  if (group.rank() == 0 && std::filesystem::exists(options.checkpoint)) {
    const nn::Safetensors found = nn::load_safetensors(options.checkpoint);
    model.load_state_dict(found);
    const auto entry = found.metadata.find(kStepKey);
    step = entry == found.metadata.end() ? "" : entry->second;
  }
  const std::string agreed = collectives::broadcast_bytes(group, step, /*root=*/0);
  const std::optional<std::int64_t> number = read_number<std::int64_t>(agreed);
  DL_CHECK(number && *number >= 0, kParse, "{}: its {} is '{}', wanted a step's number",
           options.checkpoint, kStepKey, agreed);
  return *number;
}

double train(const Options& options) {
  init_process_group();
  const Ref<collectives::ProcessGroup> group = default_group();
  const bool first = group->rank() == 0;
  const bool dies =
      group->rank() == group->size() - 1 && env::get_int(env::Var::kTorchRestartCount) == 0;

  manual_seed(1);
  nn::Sequential model{nn::Linear(kInputs, 32), nn::ReLU(), nn::Linear(32, 1)};
  const std::int64_t begin = load(options, model, *group);
  if (first) fmt::print("attempt begins at step {}\n", begin);
  std::fflush(stdout);
  nn::parallel::DistributedDataParallel ddp(model, group);
  optim::SGD optimizer(model.parameters(), {.lr = 0.05});

  double loss = 0;
  Generator numbers;
  for (std::int64_t step = begin; step < options.steps; ++step) {
    numbers.manual_seed(static_cast<std::uint64_t>(step * group->size() + group->rank()));
    const Tensor input = randn({kBatch, kInputs}, {}, numbers);
    const Tensor target = tanh(dl::sum(input, {1}, {.keepdim = true}));
    optimizer.zero_grad();
    const Tensor error = nn::functional::mse_loss(ddp(input), target);
    error.backward();
    optimizer.step();
    loss = error.item<double>();
    const bool makes_room = should_checkpoint();
    if (first && (makes_room || (step + 1) % options.save_every == 0)) {
      nn::save_safetensors(options.checkpoint, model.state_dict(),
                           {{kStepKey, std::to_string(step + 1)}});
    }
    if (makes_room) {
      if (first) fmt::print("makes room after step {}\n", step + 1);
      destroy_process_group();
      return loss;
    }
    if (dies && step + 1 == options.die_at) ::kill(::getpid(), SIGKILL);
  }
  double sum = 0;
  for (const auto& [name, tensor] : model.state_dict()) sum += dl::sum(tensor).item<double>();
  if (first) fmt::print("done: step {}, loss {:.6f}, checksum {:.9g}\n", options.steps, loss, sum);
  destroy_process_group();
  return loss;
}

CLI::Validator steps_from(std::int64_t least) {
  return {whole_number(least, 1'000'000'000), ""};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Fits a small network, and goes on from its checkpoint when it is started again.",
               "resume"};
  app.add_option("--checkpoint", options.checkpoint, "file of rank 0: model and step")->required();
  app.add_option("--steps", options.steps, "of the whole run")->transform(steps_from(1));
  app.add_option("--save-every", options.save_every, "steps between two checkpoints")
      ->transform(steps_from(1));
  app.add_option("--die-at", options.die_at,
                 "the last rank of the first attempt kills itself after this step")
      ->transform(steps_from(1));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return 2;
    require_written(stdout, "standard output");
    return 0;
  }
  train(options);
}
