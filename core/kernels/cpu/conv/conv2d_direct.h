// Convolution by its definition, term by term: recomputes the few results that a faster algorithm
// got wrong. The mend functions take any number of groups, DirectConv2d only one.
//
// An algorithm that adds before it multiplies, or that multiplies the padding's zeros, turns an
// infinity into NaN and large numbers into infinities. All wrong results are therefore not finite,
// and the caller recomputes those here. Padding contributes nothing and sums are f64, so a result
// that is not finite here is not finite by the definition either. Shapes and layouts as in
// core/kernels/cpu/conv/conv2d.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/kernels/cpu/conv/conv2d.h"

namespace dl::kernels {

// Layout of a convolution's weights: the number for output channel o, input channel c and tap ky *
// kw + kx is origin[o * by_output + c * by_input + tap * by_tap].
struct Filters {
  const float* origin;
  std::int64_t by_output, by_input, by_tap;
};

// y = convolution + bias (which may be null), with `relu` max(0, .), one pixel at a time. Any
// thread may call.
class DirectConv2d {
 public:
  static constexpr std::int64_t kChannels = 16;

  DirectConv2d(const Conv2dShape& s, const float* x, const Filters& filters, const float* bias,
               bool relu, float* y)
      : s_(s), x_(x), filters_(filters), bias_(bias), relu_(relu), y_(y) {}

  // Writes channels [o, o + kChannels) of a pixel, as far as they exist; o is a multiple of
  // kChannels.
  void write_pixel(std::int64_t n, std::int64_t oy, std::int64_t ox, std::int64_t o);
  void write_all();

 private:
  void pack();

  Conv2dShape s_;
  const float* x_;
  Filters filters_;
  const float* bias_;
  bool relu_;
  float* y_;
  std::once_flag packed_once_;
  std::vector<double> packed_;  // [block of kChannels][tap][c_in][kChannels], zero beyond c_out
};

template <typename T>
bool all_finite(const T* values, std::int64_t count) noexcept {
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) finite &= std::isfinite(static_cast<float>(values[i]));
  return finite;
}

// Recomputes the elements of dweight that are not finite.
void direct_conv2d_mend_weights(const Conv2dShape& s, const float* x, const float* dy,
                                float* dweight);

// After an algorithm that multiplies the padding's zeros: 0 times a NaN or an infinity is NaN, in
// results to which the padding contributes nothing by the definition. Recomputes the elements of y
// that are not finite and whose window reaches into the padding; without ReLU.
void direct_conv2d_mend_border(const Conv2dShape& s, const float* x, const float* weight,
                               const float* bias, float* y);

}  // namespace dl::kernels
