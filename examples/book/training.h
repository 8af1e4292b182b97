// The training and test loops of all chapters, with the book's lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "core/tensor/tensor.h"
#include "examples/book/options.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/compile/compile.h"
#include "nn/data/data_loader.h"
#include "nn/data/sampler.h"
#include "nn/module/module.h"

namespace dl::examples::book {

// The seed of trainings that a chapter compares with each other.
constexpr std::uint64_t kSeed = 42;

struct Recipe {
  std::int64_t epochs = 10;
  std::int64_t batch_size = 64;
  double lr = 1e-5;
  double weight_decay = 0.005;
  int workers = 0;
  bool shows_time = true;  // print each epoch's time, as the book does from chapter 3 on
  Device device{};
  std::optional<DType> half{};    // mixed precision in this dtype; float16 is scaled
  std::string backend = "eager";  // of dl::compile
  bool prints = true;             // the lines of train() and test()
  // Ranks that train together, with the loader's sampler. Rank 0 prints, with "Worker 0 - ".
  Ref<collectives::ProcessGroup> group{};
  data::DistributedSampler* sampler = nullptr;
  // Rank 0 saves model and optimizer after each epoch. train() goes on after the epochs that are
  // there, with the same bits.
  const nn::CheckpointDir* checkpoints = nullptr;
};

// The chapter's recipe, on the digits with three epochs at a rate of 1e-3: they are few, so that
// the book's rate would need hundreds of epochs.
Recipe on_digits(Recipe chapter, const Options& options);
// The chapter's recipe with the values that the command line gives.
Recipe with_options(Recipe recipe, const Options& options);
data::DataLoaderOptions loading(const Recipe& recipe, bool shuffle);

struct Trained {
  std::vector<double> epoch_seconds;
  double seconds = 0;
  double last_loss = 0;
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
// Prints "Accuracy of the network on the 10000 test images: 83.99 %", and returns the percentage.
double test(nn::Module& model, const data::DataLoader& loader, const Recipe& recipe);

}  // namespace dl::examples::book
