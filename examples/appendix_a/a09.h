// Listing A.9: the training loop.
#pragma once

#include <string>

#include "core/tensor/tensor.h"
#include "nn/data/data_loader.h"
#include "nn/module/module.h"

namespace dl::examples::appendix_a {

struct TrainOptions {
  int num_epochs = 3;
  double lr = 0.5;
  std::string label = "Train Loss";
  Device device{};
};
// Trains the model by SGD, and prints a line for each batch.
void train(nn::Module& model, const data::DataLoader& train_loader, const TrainOptions& options);

}  // namespace dl::examples::appendix_a
