// The networks of the book: its convolutional network, and the multilayer perceptron of its
// appendix.
#pragma once

#include <cstdint>

#include "nn/module/sequential.h"

namespace dl::nn::models {

struct BookCNNOptions {
  std::int64_t channels = 1;  // of the input image
  std::int64_t size = 28;     // its height and width; at least 4
  std::int64_t classes = 10;
};

// Two blocks of a 3x3 convolution, ReLU and 2x2 max pooling, then two linear layers.
// Input [N, channels, size, size] -> logits [N, classes]. 1,630,090 parameters for 1x28x28,
// 2,122,186 for 3x32x32.
Sequential book_cnn(BookCNNOptions options = {});

// 50 inputs, layers of 30 and 20, 3 classes. Input [N, 50] -> logits [N, 3]; 2,213 parameters.
Sequential mlp();

}  // namespace dl::nn::models
