// What the kernel of the optimizers' steps is told. The rules, one for each kind of step, stand in
// optimizer_rules-inl.h.
#pragma once

#include <cstdint>
#include <variant>

namespace dl::kernels {

// What a captured step has to read on the device, where it may change between two replays. All are
// device pointers; all null on the CPU.
struct OptimizerScalars {
  const double* lr = nullptr;        // in place of the step's own
  const float* found_inf = nullptr;  // not 0: nothing changes, step counts included; null: 0
};

inline constexpr int kMaxOptimizerState = 3;
inline constexpr int kMaxOptimizerCounts = 2;

// One parameter. Pointers are to memory of the parameters' device. Parameter and gradient have one
// floating dtype; the state has it too, but is f32 beside f16 and bf16.
struct OptimizerTensor {
  std::int64_t n = 0;
  void* parameter = nullptr;
  const void* gradient = nullptr;
  void* state[kMaxOptimizerState] = {};  // in the rule's order; null where the step does without it
  float* counts[kMaxOptimizerCounts] = {};  // of the parameter's own steps; the kernel raises them
  bool first_step = false;  // `state` is not filled yet, for rules that begin otherwise
};

// The kinds of steps; with `maximize` they go up the gradient. kState and kCounts: how much of an
// OptimizerTensor the rule uses.
struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  static constexpr int kState = 1;  // momentum buffer
  static constexpr int kCounts = 0;
};

struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false;  // weight_decay shrinks the parameter, and is not part of the gradient
  bool amsgrad = false;
  bool maximize = false;
  static constexpr int kState = 3;  // means of the gradient and of its square; the largest of these
  static constexpr int kCounts = 1;  // steps
};

struct NAdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, momentum_decay = 0;
  bool decoupled = false;
  bool maximize = false;
  static constexpr int kState = 2;   // means of the gradient and of its square
  static constexpr int kCounts = 2;  // steps; the product of all momenta so far
};

struct RMSpropStep {
  double lr = 0, alpha = 0, eps = 0, weight_decay = 0, momentum = 0;
  bool centered = false;
  bool maximize = false;
  static constexpr int kState = 3;  // means of the gradient's square and of itself; momentum buffer
  static constexpr int kCounts = 1;
};

struct AdagradStep {
  double lr = 0, lr_decay = 0, eps = 0, weight_decay = 0;
  bool maximize = false;
  static constexpr int kState = 1;  // sum of the gradient's squares
  static constexpr int kCounts = 1;
};

using OptimizerStep = std::variant<SgdStep, AdamStep, NAdamStep, RMSpropStep, AdagradStep>;

}  // namespace dl::kernels
