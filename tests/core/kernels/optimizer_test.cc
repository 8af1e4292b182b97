#include "core/kernels/cpu/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/dtype_types.h"
#include "tests/core/kernels/random_values.h"

namespace dl::kernels {
namespace {

template <typename T>
class OptimizerOf : public testing::Test {
 protected:
  static constexpr double kUnit = sizeof(T) == 4 ? 1e-6 : 1e-14;
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(OptimizerOf, Types);

// Three tensors: shorter than a vector, ragged, and enough for several threads.
constexpr std::int64_t kSizes[] = {3, 0, 37, 70001};

TYPED_TEST(OptimizerOf, SgdFollowsPyTorchsFormula) {
  using T = TypeParam;
  for (const SgdStep step : {SgdStep{.lr = 0.1}, SgdStep{.lr = 0.1, .weight_decay = 0.01},
                             SgdStep{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                             SgdStep{.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
                             SgdStep{.lr = 0.1, .momentum = 0.9, .nesterov = true}}) {
    std::vector<std::vector<T>> p;
    std::vector<std::vector<T>> g;
    std::vector<std::vector<T>> m;
    for (const std::int64_t n : kSizes) {
      p.push_back(random_values<T>(n, 1));
      g.push_back(random_values<T>(n, 2));
      m.emplace_back(static_cast<std::size_t>(n), T{99});
    }
    const auto start = p;
    for (const bool first : {true, false}) {
      std::vector<SgdTensor> tensors;
      for (std::size_t i = 0; i < p.size(); ++i) {
        tensors.push_back({.n = kSizes[i],
                           .parameter = p[i].data(),
                           .gradient = g[i].data(),
                           .momentum = step.momentum != 0 ? m[i].data() : nullptr,
                           .first_step = first});
      }
      cpu::sgd_step({}, kDTypeOf<T>, tensors, step, {});
    }
    for (std::size_t t = 0; t < p.size(); ++t) {
      for (std::size_t i = 0; i < p[t].size(); ++i) {
        double x = start[t][i];
        double buffer = 0;
        for (const bool first : {true, false}) {
          double d = g[t][i] + step.weight_decay * x;
          if (step.momentum != 0) {
            buffer = first ? d : step.momentum * buffer + (1 - step.dampening) * d;
            d = step.nesterov ? d + step.momentum * buffer : buffer;
          }
          x -= step.lr * d;
        }
        ASSERT_NEAR(p[t][i], x, 2 * this->kUnit) << "tensor " << t << " at " << i;
      }
    }
  }
}

TYPED_TEST(OptimizerOf, AdamFollowsPyTorchsFormula) {
  using T = TypeParam;
  for (const double weight_decay : {0.0, 0.01}) {
    std::vector<std::vector<T>> p;
    std::vector<std::vector<T>> g;
    std::vector<std::vector<T>> m;
    std::vector<std::vector<T>> v;
    for (const std::int64_t n : kSizes) {
      p.push_back(random_values<T>(n, 1));
      g.push_back(random_values<T>(n, 2));
      m.emplace_back(static_cast<std::size_t>(n), T{0});
      v.emplace_back(static_cast<std::size_t>(n), T{0});
    }
    const auto start = p;
    AdamStep step{.lr = 0.01,
                  .beta1 = 0.9,
                  .beta2 = 0.999,
                  .eps = 1e-8,
                  .weight_decay = weight_decay,
                  .step = 1};
    for (; step.step <= 3; ++step.step) {
      std::vector<AdamTensor> tensors;
      for (std::size_t i = 0; i < p.size(); ++i) {
        tensors.push_back({kSizes[i], p[i].data(), g[i].data(), m[i].data(), v[i].data(), nullptr});
      }
      cpu::adam_step({}, kDTypeOf<T>, tensors, step, {});
    }
    for (std::size_t t = 0; t < p.size(); ++t) {
      for (std::size_t i = 0; i < p[t].size(); ++i) {
        double x = start[t][i];
        double mean = 0;
        double square = 0;
        for (int n = 1; n <= 3; ++n) {
          const double d = g[t][i] + weight_decay * x;
          mean = 0.9 * mean + 0.1 * d;
          square = 0.999 * square + 0.001 * d * d;
          const double root = std::sqrt(square) / std::sqrt(1 - std::pow(0.999, n));
          x -= 0.01 / (1 - std::pow(0.9, n)) * mean / (root + 1e-8);
        }
        ASSERT_NEAR(p[t][i], x, 4 * this->kUnit) << "tensor " << t << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace dl::kernels
