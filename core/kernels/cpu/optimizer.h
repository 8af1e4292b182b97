// Optimizer steps over many parameters in one call, on plain f32 or f64 memory. All parameters are
// one range that the threads share out, so that a model of many small ones costs one parallel
// region (or none).
//
// Formulas are those of torch.optim.SGD and torch.optim.Adam.
#pragma once

#include <cstdint>
#include <span>

namespace dl::kernels {

template <typename T>
struct SgdTensor {
  std::int64_t n;
  T* parameter;
  const T* gradient;
  T* momentum;      // null without momentum
  bool first_step;  // the momentum buffer is not filled yet: it becomes the gradient itself
};

struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};

void sgd_step(std::span<const SgdTensor<float>> tensors, const SgdStep& step);
void sgd_step(std::span<const SgdTensor<double>> tensors, const SgdStep& step);

template <typename T>
struct AdamTensor {
  std::int64_t n;
  T* parameter;
  const T* gradient;
  T* mean;    // exp_avg
  T* square;  // exp_avg_sq
};

struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  std::int64_t step = 1;  // counted from 1
};

void adam_step(std::span<const AdamTensor<float>> tensors, const AdamStep& step);
void adam_step(std::span<const AdamTensor<double>> tensors, const AdamStep& step);

}  // namespace dl::kernels
