#include "examples/book/chapters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/device/parallel.h"
#include "core/profiler/profile.h"
#include "core/random/generator.h"
#include "core/tensor/factories.h"
#include "examples/book/cnn.h"
#include "examples/book/images.h"
#include "examples/book/training.h"
#include "nn/data/data_loader.h"
#include "nn/data/datasets/combine.h"
#include "nn/onnx/export.h"

namespace dl::examples::book {
namespace {

// Trains on CIFAR-10 in the order of its files: the book's loaders do not shuffle it.
Trained train_on_cifar10(const Options& options, const Recipe& chapter,
                         Preparation preparation = Preparation::kToTensor) {
  const Images images = load_images(options, Set::kCifar10, preparation);
  const Recipe recipe = with_options(chapter, options);
  CNN model(images.model);
  model.to(recipe.device);
  Trained trained =
      train(model, data::DataLoader(images.train, loading(recipe, /*shuffle=*/false)), recipe);
  test(model, data::DataLoader(images.test, loading(recipe, /*shuffle=*/false)), recipe);
  return trained;
}

// Prints the operations of one forward pass over a batch, by self time.
void profile_forward(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe) {
  const Tensor images = (*loader.begin())[0].to(recipe.device);
  const NoGradGuard no_grad;
  model(images);  // the first pass allocates
  profiler::Profile profile;
  profile.run([&] { model(images); });
  fmt::print("{}", profile.key_averages().short_table({.row_limit = 10}));
}

// The figure of chapter 1: the network as a file for other programs, for batches of any size.
void export_onnx(CNN& model, const CNNOptions& images, const std::string& path) {
  model.to(Device{});
  onnx::export_model(model, zeros({1, images.channels, images.size, images.size}), path,
                     {.input_names = {"images"},
                      .output_names = {"logits"},
                      .dynamic_axes = {{"images", {{0, "batch"}}}}});
  fmt::print("Exported to {}\n", path);
}

}  // namespace

void chapter1(const Options& options) {
  const Images images = load_images(options, Set::kFashionMnist);
  const Recipe recipe = with_options({.shows_time = false}, options);
  CNN model(images.model);
  fmt::print("{} parameters\n", model.count_parameters());
  model.to(recipe.device);
  // The book holds out a tenth of the training set.
  const auto parts = data::random_split(images.train, {0.9, 0.1});
  const data::DataLoader loader(parts[0], loading(recipe, /*shuffle=*/true));
  profile_forward(model, loader, recipe);
  train(model, loader, recipe);
  test(model, data::DataLoader(images.test, loading(recipe, /*shuffle=*/false)), recipe);
  if (!options.onnx.empty()) export_onnx(model, images.model, options.onnx);
}

void chapter2(const Options& options) {
  struct Mode {
    const char* name;
    std::int64_t batch_size;
    bool bias;
  };
  constexpr Mode kModes[] = {{"batch 64", 64, true},
                             {"no bias", 64, false},
                             {"batch 128", 128, true},
                             {"batch 256", 256, true}};
  const Images images = load_images(options, Set::kFashionMnist);
  const auto parts = data::random_split(images.train, {0.9, 0.1});
  std::string table = fmt::format("{:<10} {:>10} {:>8} {:>8} {:>10}\n", "run", "parameters",
                                  "seconds", "loss", "accuracy");
  for (const Mode& mode : kModes) {
    Recipe recipe = with_options({.shows_time = false}, options);
    recipe.batch_size = mode.batch_size;
    CNNOptions model_options = images.model;
    model_options.bias = mode.bias;
    manual_seed(kSeed);  // all runs begin alike
    CNN model(model_options);
    fmt::print("{}:\n", mode.name);
    model.to(recipe.device);
    const Trained trained =
        train(model, data::DataLoader(parts[0], loading(recipe, /*shuffle=*/true)), recipe);
    const double percent =
        test(model, data::DataLoader(images.test, loading(recipe, /*shuffle=*/false)), recipe);
    table += fmt::format("{:<10} {:>10} {:>8.2f} {:>8.4f} {:>8.2f} %\n", mode.name,
                         model.count_parameters(), trained.seconds, trained.last_loss, percent);
  }
  fmt::print("{}", table);
}

void chapter3(const Options& options) {
  fmt::print("Backends: {}\n", fmt::join(compiler::list_backends(), ", "));
  const Trained trained = train_on_cifar10(options, {.backend = options.backend});
  // The first epoch holds the capture.
  std::vector<double> later(trained.epoch_seconds.begin() + 1, trained.epoch_seconds.end());
  std::ranges::sort(later);
  fmt::print("First epoch: {:.2f} seconds", trained.epoch_seconds.front());
  if (!later.empty()) {
    const std::size_t middle = later.size() / 2;
    const double median =
        later.size() % 2 == 1 ? later[middle] : (later[middle - 1] + later[middle]) / 2;
    fmt::print("; median of the later {}: {:.2f} seconds", later.size(), median);
  }
  fmt::print("\n{}: {}\n", options.backend, trained.summary.str());
}

void chapter4(const Options& options) {
  fmt::print("{}", parallel_info());
  train_on_cifar10(options, {});
}

void chapter5(const Options& options) {
  train_on_cifar10(options, {.batch_size = 128, .workers = 8}, Preparation::kAugmented);
}

void chapter7(const Options& options) {
  const bool on_gpu = with_options({}, options).device.type == DeviceType::kCUDA;
  train_on_cifar10(options, {.half = on_gpu ? DType::kF16 : DType::kBF16});
}

}  // namespace dl::examples::book
