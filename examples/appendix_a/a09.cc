// Listing A.9: training a network, and its predictions on the training set.
#include "examples/appendix_a/a09.h"

#include <dlrun.h>
#include <fmt/core.h>

#include <iostream>

#include "examples/appendix_a/a04.h"
#include "examples/appendix_a/a07.h"
#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void train(nn::Module& model, const data::DataLoader& train_loader, const TrainOptions& options) {
  namespace F = nn::functional;
  optim::SGD optimizer(model.parameters(), {.lr = options.lr});
  for (int epoch = 0; epoch < options.num_epochs; ++epoch) {
    model.train();
    int batch_idx = 0;
    for (const auto& [x, y] : train_loader) {
      const Tensor features = x.to(options.device);
      const Tensor labels = y.to(options.device);
      const Tensor logits = model(features);
      const Tensor loss = F::cross_entropy(logits, labels);

      optimizer.zero_grad();
      loss.backward();
      optimizer.step();

      fmt::print("Epoch: {:03}/{:03} | Batch {:03}/{:03} | {}: {:.2f}\n", epoch + 1,
                 options.num_epochs, batch_idx++, train_loader.size(), options.label,
                 loss.item<double>());
    }
    model.eval();
  }
}

void training() {
  const ToyLoaders toy(/*drop_last=*/true);
  manual_seed(123);
  NeuralNetwork model(2, 2);
  train(model, toy.train_loader, {});

  Tensor outputs;
  {
    const NoGradGuard no_grad;
    outputs = model(toy.data.X_train);
  }
  std::cout << outputs << "\n";
  set_printoptions({.sci_mode = false});
  const Tensor probas = softmax(outputs, 1);
  std::cout << probas << "\n";
  std::cout << argmax(probas, 1) << "\n";
  const Tensor predictions = argmax(outputs, 1);
  std::cout << predictions << "\n";
  std::cout << (predictions == toy.data.y_train) << "\n";
  std::cout << sum(predictions == toy.data.y_train) << "\n";
}

}  // namespace dl::examples::appendix_a
