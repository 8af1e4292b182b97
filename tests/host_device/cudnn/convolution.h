// A convolution of the host device's cuDNN: what is computed, and the computation.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>

namespace dl::host_device {

// Sizes and strides of four dimensions: images n, c, h, w; filters k, c, h, w.
struct Array {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::array<std::int64_t, 4> size{};  // zeros: not set
  std::array<std::int64_t, 4> stride{};

  bool is_set() const { return size[0] > 0; }
  std::int64_t count() const { return size[0] * size[1] * size[2] * size[3]; }
};

struct Convolution {
  std::array<std::int64_t, 2> pad{};
  std::array<std::int64_t, 2> stride{};  // zeros: not set
  std::array<std::int64_t, 2> dilation{};
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::int64_t groups = 1;
};

enum class Direction : std::uint8_t { kForward, kBackwardData, kBackwardFilter };

struct Problem {
  Direction direction;
  Array x, w, y;
  Convolution convolution;

  std::int64_t inner() const { return w.size[1]; }  // channels of x in a group
  std::int64_t outer() const { return w.size[0] / convolution.groups; }
  std::int64_t window() const { return w.size[1] * w.size[2] * w.size[3]; }
  std::int64_t pixels() const { return y.size[2] * y.size[3]; }
};

// One of x, w and y is `result`, as the direction says; it is not among the others.
struct Memory {
  const void* x;
  const void* w;
  const void* y;
  void* result;
};

struct Scale {
  float alpha;
  float beta;
};

inline std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

// Summed in f32 and rounded once; f32 with CUDNN_DEFAULT_MATH is TF32. `backwards`: in another
// order, as an algorithm may that is not deterministic.
void convolve(const Problem& problem, const Memory& memory, const Scale& scale, bool backwards);

}  // namespace dl::host_device
