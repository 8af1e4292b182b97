// Losses of classes on plain memory: the negative log likelihood, and CTC.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/elementwise/losses.h"
#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/runtime/fault.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// Target i has the classes at i / positions * classes * positions + i % positions and every
// `positions` elements from there.
struct NllOperands {
  DType dtype = DType::kF32;
  std::int64_t count = 0;  // targets
  std::int64_t classes = 0;
  std::int64_t positions = 1;
  const std::int64_t* target = nullptr;
  const void* weight = nullptr;  // null: 1
  NllArgs args{};
  Lines lines{};  // of the classes of a target
};
// `partial`: 2 * kNllParts doubles; out and sums as of nll_loss() in core/kernels/declared/loss.h.
// A target that is not a class is reported, and its loss is NaN.
inline constexpr int kNllParts = 256;
void nll_loss_launch(const NllOperands& in, const void* log_probabilities, double* partial,
                     void* out, double* sums, dl::cuda::FaultPlace fault, cudaStream_t stream);
void nll_loss_gradient_launch(const NllOperands& in, const void* grad, const double* sums, void* d,
                              cudaStream_t stream);

// Operands of ctc_loss() and ctc_loss_backward() in core/kernels/declared/loss.h.
struct CtcOperands {
  DType dtype = DType::kF32;
  std::int64_t steps = 0;    // T
  std::int64_t samples = 0;  // N
  std::int64_t classes = 0;  // C
  std::int64_t width = 0;    // places of the longest sample
  std::int64_t blank = 0;
  const void* log_probs = nullptr;
  const std::int64_t* labels = nullptr;
  const std::int64_t* lengths = nullptr;  // [3, N]
};
void ctc_loss_launch(const CtcOperands& in, double* alpha, double* losses, cudaStream_t stream);
// `beta` has the size of alpha.
void ctc_loss_gradient_launch(const CtcOperands& in, const void* grad, const double* alpha,
                              const double* losses, double* beta, bool zero_infinity, void* d,
                              cudaStream_t stream);

}  // namespace dl::kernels::cuda
