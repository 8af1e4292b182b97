#include "nn/models/book.h"

#include "nn/layers/activation/activation.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/shape/shape.h"

namespace dl::nn::models {

Sequential book_cnn(BookCNNOptions options) {
  DL_CHECK(options.size >= 4, kInvalidArgument,
           "book_cnn: images of {0} x {0}, wanted at least 4 x 4", options.size);
  const std::int64_t pooled = options.size / 2 / 2;
  return {Conv2d(options.channels, 32, 3, {.padding = 1}),
          ReLU(),
          MaxPool2d(2),
          Conv2d(32, 64, 3, {.padding = 1}),
          ReLU(),
          MaxPool2d(2),
          Flatten(),
          Linear(64 * pooled * pooled, 512),
          ReLU(),
          Linear(512, options.classes)};
}

Sequential mlp() {
  return {Linear(50, 30), ReLU(), Linear(30, 20), ReLU(), Linear(20, 3)};
}

}  // namespace dl::nn::models
