// Listing A.10: accuracies; and section A.8: the trained model in a file.
#include "examples/appendix_a/a10.h"

#include <dlrun.h>
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "examples/appendix_a/a04.h"
#include "examples/appendix_a/a07.h"
#include "examples/appendix_a/a09.h"
#include "examples/appendix_a/listings.h"
#include "examples/support/python_float.h"

namespace dl::examples::appendix_a {

double compute_accuracy(nn::Module& model, const data::DataLoader& dataloader, Device device) {
  model.eval();
  std::int64_t correct = 0;
  std::int64_t total_examples = 0;
  for (const auto& [x, y] : dataloader) {
    const Tensor features = x.to(device);
    const Tensor labels = y.to(device);
    Tensor logits;
    {
      const NoGradGuard no_grad;
      logits = model(features);
    }
    const Tensor compare = labels == argmax(logits, 1);
    correct += sum(compare).item<std::int64_t>();
    total_examples += compare.size(0);
  }
  return static_cast<double>(correct) / static_cast<double>(total_examples);
}

void accuracy() {
  const ToyLoaders toy(/*drop_last=*/true);
  manual_seed(123);
  NeuralNetwork model(2, 2);
  train(model, toy.train_loader, {});
  fmt::print("{}\n", python_float(compute_accuracy(model, toy.train_loader)));
  fmt::print("{}\n", python_float(compute_accuracy(model, toy.test_loader)));

  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("model.{}.pth", ::getpid());
  nn::save_pth(path, model.state_dict());
  NeuralNetwork loaded(2, 2);
  loaded.load_state_dict(nn::load_pth(path));
  std::filesystem::remove(path);
  fmt::print("{}\n", python_float(compute_accuracy(loaded, toy.test_loader)));
}

}  // namespace dl::examples::appendix_a
