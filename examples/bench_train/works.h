// What bench_train can train: networks with the shapes of their synthetic data. Names, shapes and
// batches are those of PyTorch's counterpart.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/dims.h"
#include "nn/module/module.h"

namespace bench_train {

struct Work {
  std::string name;
  std::function<std::unique_ptr<dl::nn::Module>()> make;
  dl::Shape sample;  // shape of one input
  std::int64_t classes;
  std::int64_t batch;      // the default
  bool has_words = false;  // inputs are int64 in [0, classes), and every one has a target
};

const std::vector<Work>& works();

}  // namespace bench_train
