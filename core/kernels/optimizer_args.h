// What the optimizers' kernels are told. Formulas are those of torch.optim.SGD, Adam and AdamW.
#pragma once

#include <cstdint>

namespace dl::kernels {

// What a captured step has to read on the device, where it may change between two replays. All are
// device pointers; all null on the CPU.
struct OptimizerScalars {
  const double* lr = nullptr;        // in place of the step's own
  const float* found_inf = nullptr;  // not 0: nothing changes, step counts included; null: 0
};

// Pointers are to memory of the parameters' device and of their dtype, f32 or f64.
struct SgdTensor {
  std::int64_t n;
  void* parameter;
  const void* gradient;
  void* momentum;   // null without momentum
  bool first_step;  // the momentum buffer is not filled yet: it becomes the gradient itself
};

struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};

struct AdamTensor {
  std::int64_t n;
  void* parameter;
  const void* gradient;
  void* mean;    // exp_avg
  void* square;  // exp_avg_sq
  float* step;   // CUDA: the parameter's own count, which the kernel raises first; null on the CPU
};

struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false;  // weight_decay shrinks the parameter, and is not part of the gradient
  std::int64_t step = 1;   // counted from 1; CUDA reads AdamTensor::step
};

}  // namespace dl::kernels
