// Weighted sums along one axis of plain memory: core/args/axis_taps.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/kernels/fast_divisor.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// The taps of some neighbouring outputs. They travel with the launch, so that a graph keeps them.
struct TapsPart {
  static constexpr int kOutputs = 64;
  static constexpr int kTaps = 240;

  std::uint32_t first_output = 0;
  std::uint32_t outputs = 0;
  bool accumulate = false;  // earlier taps of the (only) output are in y
  std::uint16_t first[kOutputs + 1] = {};
  std::uint32_t index[kTaps] = {};
  double weight[kTaps] = {};
};

// y [outer, outputs, inner] = sums over x [outer, inputs, inner].
struct TapsArgs {
  const void* x = nullptr;
  DType x_dtype = DType::kF32;
  void* y = nullptr;
  DType y_dtype = DType::kF32;
  std::uint32_t outer = 0, inputs = 0, outputs = 0;
  FastDivisor by_inner;
};
void taps_launch(const TapsArgs& args, const TapsPart& part, cudaStream_t stream);

}  // namespace dl::kernels::cuda
