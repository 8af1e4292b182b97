// Listing A.7: loaders with and without shuffling.
#include "examples/appendix_a/a07.h"

#include <dlrun.h>

#include <iostream>

#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

ToyLoaders::ToyLoaders(bool drop_last)
    : train_loader(ToyDataset(data.X_train, data.y_train),
                   {.batch_size = 2, .shuffle = true, .num_workers = 0, .drop_last = drop_last}),
      test_loader(ToyDataset(data.X_test, data.y_test),
                  {.batch_size = 2, .shuffle = false, .num_workers = 0}) {}

void print_batches(const data::DataLoader& loader) {
  int idx = 0;
  for (const auto& [x, y] : loader) {
    std::cout << "Batch " << ++idx << ": " << x << " " << y << "\n";
  }
}

void loaders() {
  manual_seed(123);
  const ToyLoaders toy;
  // Two passes: the appendix shows the second pass after the seed.
  print_batches(toy.train_loader);
  print_batches(toy.train_loader);
}

}  // namespace dl::examples::appendix_a
