// Losses of two elements on plain memory: core/elementwise/losses.def.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/elementwise/losses.h"
#include "core/kernels/cuda/runtime/fault.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

struct PairLossOperands {
  PairLoss fn{};
  DType dtype = DType::kF32;
  std::int64_t count = 0;
  const void* input = nullptr;
  const void* target = nullptr;
  const void* weight = nullptr;      // null: 1
  const void* pos_weight = nullptr;  // null: 1
  double a = 0;
};
// out[i], an operand outside [0, 1] of binary_cross_entropy is reported.
void pair_loss_launch(const PairLossOperands& in, void* out, dl::cuda::FaultPlace fault,
                      cudaStream_t stream);
// The sum over `divisor`, written to the element at `out`. `partial`: kLossParts doubles at most.
inline constexpr int kLossParts = 512;
void pair_loss_sum_launch(const PairLossOperands& in, double divisor, double* partial, void* out,
                          dl::cuda::FaultPlace fault, cudaStream_t stream);
// d[i] = grad / divisor * the slope; grad is one element if `reduced`.
void pair_loss_gradient_launch(const PairLossOperands& in, const void* grad, bool reduced,
                               double divisor, bool of_target, void* d, cudaStream_t stream);

}  // namespace dl::kernels::cuda
