// Listing A.5: a toy data set of two classes.
#pragma once

#include "core/tensor/tensor.h"

namespace dl::examples::appendix_a {

struct SmallData {
  Tensor X_train, y_train;  // [5, 2], [5]
  Tensor X_test, y_test;    // [2, 2], [2]
};
SmallData make_small_data();

}  // namespace dl::examples::appendix_a
