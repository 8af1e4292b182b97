// Listing A.5: a toy data set of two classes. The appendix prints nothing; this program prints the
// set.
#include "examples/appendix_a/a05.h"

#include <dlrun.h>

#include <iostream>

#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

SmallData make_small_data() {
  return {
      .X_train = tensor({{-1.2, 3.1}, {-0.9, 2.9}, {-0.5, 2.6}, {2.3, -1.1}, {2.7, -1.5}}),
      .y_train = tensor({0, 0, 0, 1, 1}),
      .X_test = tensor({{-0.8, 2.8}, {2.6, -1.6}}),
      .y_test = tensor({0, 1}),
  };
}

void small_data() {
  const SmallData data = make_small_data();
  std::cout << data.X_train << "\n" << data.y_train << "\n";
  std::cout << data.X_test << "\n" << data.y_test << "\n";
}

}  // namespace dl::examples::appendix_a
