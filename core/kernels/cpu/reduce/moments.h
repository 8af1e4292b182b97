// The mean and the squared distances from it, for numbers that arrive in blocks (Chan, Golub and
// LeVeque 1983).
#pragma once

#include <cmath>
#include <limits>

namespace dl::kernels::cpu {

// True if a float32 sum of n squared distances may be inaccurate because squares overflow or
// underflow. `eps` will be added to the mean square.
inline bool is_too_narrow(double squares, double n, double eps) {
  constexpr double kLeast = 0x1p-100;  // underflow loses up to 2^-126 of each square
  return !std::isfinite(squares) || (eps < kLeast && squares < n * kLeast);
}

// True if a gradient has to be computed in float64, because it multiplies by this 1 / deviation
// three times.
inline bool is_extreme_scale(float scale) {
  return std::isfinite(scale) && (scale < 0x1p-32F || scale > 0x1p32F);
}

struct Moments {
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  double count = 0;
  double mean = 0;
  double squares = 0;  // of the distances from the mean

  // The moments of `n` elements, from the sums of their distances from a rounded mean.
  static Moments about(double near_mean, double n, double distances, double squared_distances) {
    if (!std::isfinite(near_mean)) return {n, near_mean, kNaN};
    return {n, near_mean + distances / n, squared_distances - distances * distances / n};
  }
  void join(const Moments& other) {
    if (other.count == 0) return;
    const double both = count + other.count;
    // Distances between infinite means are undefined.
    if (!std::isfinite(mean) || !std::isfinite(other.mean)) {
      *this = {both, mean + other.mean, kNaN};
      return;
    }
    const double delta = other.mean - mean;
    mean += delta * (other.count / both);
    squares += other.squares + delta * delta * (count * other.count / both);
    count = both;
  }
};

}  // namespace dl::kernels::cpu
