// Listing A.7: the two datasets and their loaders.
#pragma once

#include "examples/appendix_a/a05.h"
#include "examples/appendix_a/a06.h"
#include "nn/data/data_loader.h"

namespace dl::examples::appendix_a {

struct ToyLoaders {
  SmallData data = make_small_data();
  data::DataLoader train_loader;
  data::DataLoader test_loader;

  // `drop_last` of the training loader: false in listing A.7, true from A.8 on.
  explicit ToyLoaders(bool drop_last = false);
};

// Prints "Batch 1:" and its tensors, and so on for each batch of one pass.
void print_batches(const data::DataLoader& loader);

}  // namespace dl::examples::appendix_a
