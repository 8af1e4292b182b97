#include "core/kernels/declared/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/kernels/formulas/scalars.h"
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
      std::vector<OptimizerTensor> tensors;
      for (std::size_t i = 0; i < p.size(); ++i) {
        tensors.push_back({.n = kSizes[i],
                           .parameter = p[i].data(),
                           .gradient = g[i].data(),
                           .state = {step.momentum != 0 ? m[i].data() : nullptr},
                           .first_step = first});
      }
      cpu::optimizer_step({}, kDTypeOf<T>, tensors, OptimizerStep(step), {});
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
    const AdamStep step{
        .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = weight_decay};
    std::vector<float> steps(p.size());
    for (int n = 1; n <= 3; ++n) {
      std::vector<OptimizerTensor> tensors;
      for (std::size_t i = 0; i < p.size(); ++i) {
        tensors.push_back({.n = kSizes[i],
                           .parameter = p[i].data(),
                           .gradient = g[i].data(),
                           .state = {m[i].data(), v[i].data()},
                           .counts = {&steps[i]}});
      }
      cpu::optimizer_step({}, kDTypeOf<T>, tensors, OptimizerStep(step), {});
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

// Every kind of step against its rule applied to one double after the other; the formulas
// themselves are compared with PyTorch's in tests/nn/optim.
TYPED_TEST(OptimizerOf, VectorsOfEveryRuleAgreeWithNumbers) {
  using T = TypeParam;
  const AdamStep adam{.lr = 0.01, .beta1 = 0.4, .beta2 = 0.6, .eps = 1e-3, .weight_decay = 0.01};
  AdamStep amsgrad = adam;
  amsgrad.amsgrad = true;
  AdamStep decoupled = adam;
  decoupled.decoupled = true;
  const NAdamStep nadam{.lr = 0.01,
                        .beta1 = 0.9,
                        .beta2 = 0.6,
                        .eps = 1e-3,
                        .weight_decay = 0.01,
                        .momentum_decay = 0.1};
  // It scales the steps of the tensors that have taken some.
  const RAdamStep radam{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.8, .eps = 1e-3, .weight_decay = 0.01};
  const RMSpropStep rmsprop{.lr = 0.01, .alpha = 0.8, .eps = 1e-3};
  const RMSpropStep centered{.lr = 0.01,
                             .alpha = 0.3,
                             .eps = 0.1,
                             .weight_decay = 0.01,
                             .momentum = 0.9,
                             .centered = true};
  const AdagradStep adagrad{.lr = 0.01, .lr_decay = 0.1, .eps = 1e-3, .weight_decay = 0.01};
  const SgdStep sgd{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01};
  for (const OptimizerStep& any :
       {OptimizerStep(sgd), OptimizerStep(adam), OptimizerStep(amsgrad), OptimizerStep(decoupled),
        OptimizerStep(nadam), OptimizerStep(radam), OptimizerStep(rmsprop), OptimizerStep(centered),
        OptimizerStep(adagrad)}) {
    std::visit(
        [&]<typename Step>(const Step& step) {
          using Rule = formulas::RuleOf<Step>;
          std::vector<std::vector<T>> p;
          std::vector<std::vector<T>> g;
          std::vector<std::vector<T>> state;
          std::vector<float> counts;
          for (std::size_t i = 0; i < std::size(kSizes); ++i) {
            p.push_back(random_values<T>(kSizes[i], 1));
            g.push_back(random_values<T>(kSizes[i], 2));
            for (int k = 0; k < Step::kState; ++k) {
              state.emplace_back(static_cast<std::size_t>(kSizes[i]), T{0});
            }
            // Tensors have taken unlike numbers of steps.
            counts.insert(counts.end(), {i < 2 ? 0.0f : 8.0f, 0.5f});
          }
          const auto start = p;
          const auto start_counts = counts;
          for (const bool first : {true, false}) {
            std::vector<OptimizerTensor> tensors;
            for (std::size_t i = 0; i < p.size(); ++i) {
              OptimizerTensor t{.n = kSizes[i],
                                .parameter = p[i].data(),
                                .gradient = g[i].data(),
                                .first_step = first};
              for (std::size_t k = 0; k < Step::kState; ++k) {
                t.state[k] = state[i * Step::kState + k].data();
              }
              for (std::size_t k = 0; k < Step::kCounts; ++k) t.counts[k] = &counts[2 * i + k];
              tensors.push_back(t);
            }
            cpu::optimizer_step({}, kDTypeOf<T>, tensors, any, {});
          }
          double off = 0;
          for (std::size_t t = 0; t < p.size(); ++t) {
            for (std::size_t i = 0; i < p[t].size(); ++i) {
              float count[] = {start_counts[2 * t], start_counts[2 * t + 1]};
              float* const own[] = {&count[0], &count[1]};
              double x = start[t][i];
              double s[Step::kState] = {};
              for (const bool first : {true, false}) {
                formulas::raise_counts(step, own);
                const auto f =
                    Rule::template factors<double>(step, step.lr, formulas::counts_of<Step>(own));
                Rule::update(f, first, x, static_cast<double>(g[t][i]), s);
              }
              off = std::max(off, std::abs(p[t][i] - x));
              for (std::size_t k = 0; k < Step::kState; ++k) {
                off = std::max(off, std::abs(state[t * Step::kState + k][i] - s[k]));
              }
            }
          }
          EXPECT_LE(off, 8 * this->kUnit) << "step of kind " << any.index();
        },
        any);
  }
}

}  // namespace
}  // namespace dl::kernels
