// Arguments of the optimizer kernels. The update rules, one for each kind of step, are in
// core/kernels/formulas/optimizer_rules-inl.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <variant>

namespace dl::kernels {

// Values that a captured step reads from device memory, because they may change between two
// replays. All are device pointers; all are null on the CPU.
struct OptimizerScalars {
  const double* lr = nullptr;        // replaces the step's own lr
  const double* momentum = nullptr;  // replaces the step's own: see with_momentum()
  const float* found_inf = nullptr;  // nonzero: the step is skipped, step counts included; null: 0
};

inline constexpr int kMaxOptimizerState = 3;
inline constexpr int kMaxOptimizerCounts = 2;

// One parameter; all pointers are to its device. Parameter and gradient have one floating dtype.
// The state has that dtype, or f32 if it is f16 or bf16.
struct OptimizerTensor {
  std::int64_t n = 0;
  void* parameter = nullptr;
  const void* gradient = nullptr;
  void* state[kMaxOptimizerState] = {};     // in the rule's order; null if unused
  float* counts[kMaxOptimizerCounts] = {};  // steps of this parameter; the kernel increments them
  bool first_step = false;  // `state` is uninitialised: the rule uses its first-step form
};

// The kinds of steps; `maximize` ascends the gradient. kState and kCounts: how many entries of
// OptimizerTensor::state and ::counts the rule uses.
struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  static constexpr int kState = 1;  // momentum buffer
  static constexpr int kCounts = 0;
};

struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false;  // weight_decay multiplies the parameter instead of entering the gradient
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

struct RAdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false;
  bool maximize = false;
  static constexpr int kState = 2;   // means of the gradient and of its square
  static constexpr int kCounts = 1;  // steps
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

// All kinds: the kernels of both devices are made for each of them.
using OptimizerStep =
    std::variant<SgdStep, AdamStep, NAdamStep, RAdamStep, RMSpropStep, AdagradStep>;

// The next scale of gradient scaling: times growth_factor after growth_interval steps in a row
// without an infinity, times backoff_factor after a step with one.
struct ScaleUpdate {
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  bool operator==(const ScaleUpdate&) const = default;
};

// What a norm of order p adds up: |x|, x^2 or |x|^p; or it is the largest |x|.
enum class NormKind : std::uint8_t { kAbsolutes, kSquares, kPowers, kLargest };
inline NormKind norm_kind(double p) noexcept {
  if (std::isinf(p)) return NormKind::kLargest;
  return p == 1 ? NormKind::kAbsolutes : p == 2 ? NormKind::kSquares : NormKind::kPowers;
}

// How a list of averages takes in new values. The first values are copied.
struct AverageStep {
  enum class Kind : std::uint8_t { kMean, kMoving, kCopy };
  Kind kind = Kind::kMean;
  double decay = 0;  // kMoving: average = decay * average + (1 - decay) * value
  bool operator==(const AverageStep&) const = default;
};

}  // namespace dl::kernels
