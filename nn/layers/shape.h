// Modules that compute nothing: Flatten, Identity.
#pragma once

#include <cstdint>
#include <string>

#include "nn/module/module.h"

namespace dl::nn {

struct FlattenOptions {
  std::int64_t start_dim = 1;
  std::int64_t end_dim = -1;
};

// Joins dimensions start_dim to end_dim into one.
class Flatten : public Module {
 public:
  explicit Flatten(FlattenOptions given = {}) : options(given) {}

  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  FlattenOptions options;
};

class Identity : public Module {
 public:
  Tensor forward(const Tensor& input) override {
    check_not_moved("a call");
    return input;
  }
};

}  // namespace dl::nn
