#include "examples/book/training.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/device/cuda/cuda.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "examples/support/python_float.h"
#include "nn/amp/grad_scaler.h"
#include "nn/functional/functional.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"

namespace dl::examples::book {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Flushes after each line, so that it is seen at once in a file, too.
void print_line(const Recipe& recipe, const std::string& line) {
  if (!recipe.prints || (recipe.group && recipe.group->rank() != 0)) return;
  fmt::print("{}{}\n", recipe.group ? "Worker 0 - " : "", line);
  std::fflush(stdout);
}

// Every rank loads the last checkpoint. Returns the number of epochs that it holds.
std::int64_t load_checkpoint(const Recipe& recipe, nn::Module& model, optim::Adam& optimizer) {
  if (recipe.checkpoints == nullptr) return 0;
  const std::optional<nn::Checkpoint> last = recipe.checkpoints->load_latest();
  if (!last) return 0;
  model.load_state_dict(last->part("model"));
  optimizer.load_state_dict(last->part("optimizer"));
  print_line(recipe, fmt::format("Goes on after epoch {}", last->step));
  return last->step;
}

// Returns when the checkpoint is there for all ranks.
void save_checkpoint(const Recipe& recipe, std::int64_t epoch, const nn::Module& model,
                     const optim::Adam& optimizer) {
  if (recipe.checkpoints == nullptr) return;
  if (!recipe.group || recipe.group->rank() == 0) {
    recipe.checkpoints->save(
        {.step = epoch,
         .parts = {{"model", model.state_dict()}, {"optimizer", optimizer.state_dict()}}});
  }
  if (recipe.group) recipe.group->barrier()->wait();
}

AutocastOptions casts_of(const Recipe& recipe) {
  return {.dtype = recipe.half, .enabled = recipe.half.has_value()};
}

}  // namespace

Recipe with_options(Recipe recipe, const Options& options) {
  recipe.epochs = options.epochs.value_or(recipe.epochs);
  recipe.batch_size = options.batch_size.value_or(recipe.batch_size);
  recipe.lr = options.lr.value_or(recipe.lr);
  recipe.workers = options.workers.value_or(recipe.workers);
  recipe.device = cuda::choose_device(options.device.empty() ? "cpu" : options.device);
  return recipe;
}

Recipe on_digits(Recipe chapter, const Options& options) {
  if (!options.digits) return chapter;
  chapter.epochs = 3;
  chapter.lr = 1e-3;
  return chapter;
}

data::DataLoaderOptions loading(const Recipe& recipe, bool shuffle) {
  return {.batch_size = recipe.batch_size,
          .shuffle = shuffle,
          .num_workers = recipe.workers,
          .pin_memory = recipe.device.type == DeviceType::kCUDA};
}

Trained train(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe) {
  optim::Adam optimizer(model.parameters(), {.lr = recipe.lr, .weight_decay = recipe.weight_decay});
  const std::int64_t done = load_checkpoint(recipe, model, optimizer);
  std::optional<nn::parallel::DistributedDataParallel> ddp;
  if (recipe.group && recipe.group->size() > 1) ddp.emplace(model, recipe.group);
  amp::GradScaler scaler({.enabled = recipe.half == DType::kF16});
  const auto start = Clock::now();
  model.train();
  auto step = compile(
      [&](const Tensor& images, const Tensor& labels) {
        optimizer.zero_grad();
        Tensor loss;
        {
          const autocast mixed(recipe.device.type, casts_of(recipe));
          loss = nn::functional::cross_entropy(ddp ? (*ddp)(images) : model(images), labels);
        }
        scaler.scale(loss).backward();
        scaler.step(optimizer);
        scaler.update();
        return loss;
      },
      {.backend = recipe.backend, .device = recipe.device});
  Trained trained;
  for (std::int64_t epoch = done + 1; epoch <= recipe.epochs; ++epoch) {
    const auto epoch_start = Clock::now();
    if (recipe.sampler != nullptr) recipe.sampler->set_epoch(epoch - 1);
    Tensor loss;
    for (const auto& [images, labels] : loader) loss = step(images, labels);
    trained.last_loss = loss.item<double>();
    std::string line =
        fmt::format("Epoch [{}/{}], Loss: {:.4f}", epoch, recipe.epochs, trained.last_loss);
    trained.epoch_seconds.push_back(seconds_since(epoch_start));
    if (recipe.shows_time) {
      line += fmt::format(", time: {:.0f} seconds", std::floor(trained.epoch_seconds.back()));
    }
    print_line(recipe, line);
    save_checkpoint(recipe, epoch, model, optimizer);
  }
  trained.seconds = seconds_since(start);
  print_line(recipe, fmt::format("Training time: {:.0f} seconds", std::floor(trained.seconds)));
  trained.summary = step.summary();
  return trained;
}

Accuracy accuracy_of(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe) {
  const NoGradGuard no_grad;
  model.eval();
  std::int64_t correct = 0;
  std::int64_t total = 0;
  for (const auto& [images, labels] : loader) {
    const autocast mixed(recipe.device.type, casts_of(recipe));
    const Tensor predicted = argmax(model(images.to(recipe.device)), 1);
    correct += sum(predicted == labels.to(recipe.device)).item<std::int64_t>();
    total += labels.size(0);
  }
  return {.percent = 100.0 * static_cast<double>(correct) / static_cast<double>(total),
          .images = total};
}

double test(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe) {
  const Accuracy accuracy = accuracy_of(model, loader, recipe);
  print_line(recipe, fmt::format("Accuracy of the network on the {} test images: {} %",
                                 accuracy.images, python_float(accuracy.percent)));
  return accuracy.percent;
}

}  // namespace dl::examples::book
