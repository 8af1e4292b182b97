// Listing A.6: a dataset of features and labels, and its size.
#include "examples/appendix_a/a06.h"

#include <dlrun.h>

#include <iostream>

#include "examples/appendix_a/a05.h"
#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void dataset() {
  const SmallData data = make_small_data();
  const ToyDataset train_ds(data.X_train, data.y_train);
  const ToyDataset test_ds(data.X_test, data.y_test);
  std::cout << train_ds.size() << "\n";
}

}  // namespace dl::examples::appendix_a
