// The training and test loops of all chapters, with the book's lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "examples/book/options.h"
#include "nn/compile/compile.h"
#include "nn/data/data_loader.h"
#include "nn/module/module.h"

namespace dl::examples::book {

struct Recipe {
  std::int64_t epochs = 10;
  std::int64_t batch_size = 64;
  double lr = 1e-5;
  double weight_decay = 0.005;
  int workers = 0;
  bool shows_time = true;  // print each epoch's time, as the book does from chapter 3 on
  bool prints = true;      // the lines of train()
  Device device{};
  std::optional<DType> half{};    // mixed precision in this dtype; float16 is scaled
  std::string backend = "eager";  // of dl::compile
};

// The chapter's recipe with the values that the command line gives.
Recipe with_options(Recipe recipe, const Options& options);
data::DataLoaderOptions loading(const Recipe& recipe, bool shuffle);

struct Trained {
  std::vector<double> epoch_seconds;
  CompileSummary summary;
};

// Adam and cross entropy. Prints "Epoch [1/10], Loss: 0.9136, time: 187 seconds" after each epoch,
// with the last batch's loss, and "Training time: 148 seconds".
Trained train(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe);

// The percentage of the set's images that the model recognises.
struct Accuracy {
  double percent = 0;
  std::int64_t images = 0;
};
Accuracy accuracy_of(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe);
// Prints "Accuracy of the network on the 10000 test images: 83.99 %".
void test(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe);

}  // namespace dl::examples::book
