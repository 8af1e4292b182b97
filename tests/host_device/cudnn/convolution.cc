#include "tests/host_device/cudnn/convolution.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/tensor/half.h"

namespace dl::host_device {
namespace {

float load(cudnnDataType_t type, const void* data, std::int64_t element) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return static_cast<const Half*>(data)[element];
    case CUDNN_DATA_BFLOAT16:
      return static_cast<const BFloat16*>(data)[element];
    default:
      return static_cast<const float*>(data)[element];
  }
}

void store(cudnnDataType_t type, void* data, std::int64_t element, float value) {
  switch (type) {
    case CUDNN_DATA_HALF:
      static_cast<Half*>(data)[element] = Half(value);
      return;
    case CUDNN_DATA_BFLOAT16:
      static_cast<BFloat16*>(data)[element] = BFloat16(value);
      return;
    default:
      static_cast<float*>(data)[element] = value;
  }
}

// To TF32's 10 bits of mantissa, ties away from zero, as cvt.rna.tf32 rounds.
float as_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

// c += a b for m x depth by depth x n floats. m is a multiple of kRows, n one of kLanes; b and c
// are contiguous along n.
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kLanes = 8;
// A vector of the compilers' own, so that it is fast in builds with sanitizers too.
using Lanes
    __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias)) =
        float;

struct Factor {
  const float* data;
  std::int64_t row;
  std::int64_t column;
};

void add_product(std::int64_t m, std::int64_t n, std::int64_t depth, const Factor& a,
                 const float* b, float* c) {
  for (std::int64_t j = 0; j < n; j += kLanes) {
    for (std::int64_t i = 0; i < m; i += kRows) {
      Lanes sum[kRows] = {};
      for (std::int64_t k = 0; k < depth; ++k) {
        const Lanes line = *reinterpret_cast<const Lanes*>(b + k * n + j);
        const float* const column = a.data + i * a.row + k * a.column;
        for (std::int64_t r = 0; r < kRows; ++r) sum[r] += column[r * a.row] * line;
      }
      for (std::int64_t r = 0; r < kRows; ++r) {
        *reinterpret_cast<Lanes*>(c + (i + r) * n + j) += sum[r];
      }
    }
  }
}

// Each group as a product of matrices: the weights [outer][window], an image's windows
// [pixels][window], and its results [pixels][outer]. A window lies [kh][kw][inner].
class Computation {
 public:
  Computation(const Problem& problem, const Memory& memory, const Scale& scale, bool backwards)
      : p_(problem),
        memory_(memory),
        scale_(scale),
        backwards_(backwards),
        tf32_(p_.x.type == CUDNN_DATA_FLOAT && p_.convolution.math != CUDNN_FMA_MATH),
        window_(round_up(p_.window(), kLanes)),
        outer_(round_up(p_.outer(), kLanes)),
        pixels_(round_up(p_.pixels(), kRows)),
        weights_(floats(outer_ * window_)),
        windows_(floats(pixels_ * window_)),
        results_(floats(pixels_ * outer_)),
        image_(floats(p_.x.size[2] * p_.x.size[3] * p_.inner())) {}

  void run() {
    for (std::int64_t group = 0; group < p_.convolution.groups; ++group) {
      switch (p_.direction) {
        case Direction::kForward:
          forward(group);
          break;
        case Direction::kBackwardData:
          backward_data(group);
          break;
        case Direction::kBackwardFilter:
          backward_filter(group);
          break;
      }
    }
  }

 private:
  static std::vector<float> floats(std::int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count));
  }

  void forward(std::int64_t group) {
    // Transposed: [window][outer].
    for_each_weight(group, [&](std::int64_t o, std::int64_t k, std::int64_t at) {
      weights_[static_cast<std::size_t>(k * outer_ + o)] = read(p_.w.type, memory_.w, at);
    });
    for (std::int64_t n = 0; n < p_.x.size[0]; ++n) {
      cut_windows(n, group);
      std::ranges::fill(results_, 0.0F);
      add_product(pixels_, outer_, p_.window(), {windows_.data(), window_, 1}, weights_.data(),
                  results_.data());
      for_each_result(n, group, [&](float& value, std::int64_t at) { write(p_.y, at, value); });
    }
  }

  void backward_data(std::int64_t group) {
    for_each_weight(group, [&](std::int64_t o, std::int64_t k, std::int64_t at) {
      weights_[static_cast<std::size_t>(o * window_ + k)] = read(p_.w.type, memory_.w, at);
    });
    for (std::int64_t n = 0; n < p_.x.size[0]; ++n) {
      read_results(n, group);
      std::ranges::fill(windows_, 0.0F);
      add_product(pixels_, window_, p_.outer(), {results_.data(), outer_, 1}, weights_.data(),
                  windows_.data());
      std::ranges::fill(image_, 0.0F);
      for_each_tap([&](float* tap, float* pixel) {
        for (std::int64_t c = 0; c < p_.inner(); ++c) pixel[c] += tap[c];
      });
      for_each_pixel(n, group, [&](float& value, std::int64_t at) { write(p_.x, at, value); });
    }
  }

  void backward_filter(std::int64_t group) {
    std::ranges::fill(weights_, 0.0F);
    for (std::int64_t i = 0; i < p_.x.size[0]; ++i) {
      const std::int64_t n = backwards_ ? p_.x.size[0] - 1 - i : i;
      cut_windows(n, group);
      read_results(n, group);
      add_product(outer_, window_, p_.pixels(), {results_.data(), 1, outer_}, windows_.data(),
                  weights_.data());
    }
    for_each_weight(group, [&](std::int64_t o, std::int64_t k, std::int64_t at) {
      write(p_.w, at, weights_[static_cast<std::size_t>(o * window_ + k)]);
    });
  }

  float read(cudnnDataType_t type, const void* data, std::int64_t at) const {
    const float value = load(type, data, at);
    return tf32_ ? as_tf32(value) : value;
  }

  // If beta is 0, the result is not read: it may be anything.
  void write(const Array& array, std::int64_t at, float value) const {
    float sum = scale_.alpha * value;
    if (scale_.beta != 0) sum += scale_.beta * load(array.type, memory_.result, at);
    store(array.type, memory_.result, at, sum);
  }

  // visit(output channel, place in the window, element of the filter), within the group.
  template <typename Visit>
  void for_each_weight(std::int64_t group, const Visit& visit) const {
    const Array& w = p_.w;
    const bool flipped = p_.convolution.mode == CUDNN_CONVOLUTION;
    for (std::int64_t o = 0; o < p_.outer(); ++o) {
      std::int64_t k = 0;
      for (std::int64_t i = 0; i < w.size[2]; ++i) {
        for (std::int64_t j = 0; j < w.size[3]; ++j) {
          const std::int64_t row = flipped ? w.size[2] - 1 - i : i;
          const std::int64_t column = flipped ? w.size[3] - 1 - j : j;
          const std::int64_t tap =
              (group * p_.outer() + o) * w.stride[0] + row * w.stride[2] + column * w.stride[3];
          for (std::int64_t c = 0; c < p_.inner(); ++c) visit(o, k++, tap + c * w.stride[1]);
        }
      }
    }
  }

  // visit(place in image_, element of x).
  template <typename Visit>
  void for_each_pixel(std::int64_t n, std::int64_t group, const Visit& visit) {
    const Array& x = p_.x;
    float* place = image_.data();
    for (std::int64_t h = 0; h < x.size[2]; ++h) {
      for (std::int64_t w = 0; w < x.size[3]; ++w) {
        const std::int64_t at =
            n * x.stride[0] + group * p_.inner() * x.stride[1] + h * x.stride[2] + w * x.stride[3];
        for (std::int64_t c = 0; c < p_.inner(); ++c) visit(*place++, at + c * x.stride[1]);
      }
    }
  }

  // visit(place in results_, element of y).
  template <typename Visit>
  void for_each_result(std::int64_t n, std::int64_t group, const Visit& visit) {
    const Array& y = p_.y;
    for (std::int64_t pixel = 0; pixel < p_.pixels(); ++pixel) {
      const std::int64_t at = n * y.stride[0] + group * p_.outer() * y.stride[1] +
                              pixel / y.size[3] * y.stride[2] + pixel % y.size[3] * y.stride[3];
      float* const line = results_.data() + pixel * outer_;
      for (std::int64_t o = 0; o < p_.outer(); ++o) visit(line[o], at + o * y.stride[1]);
    }
  }

  // visit(the tap's channels in windows_, the same in image_), unless the tap is in the padding.
  template <typename Visit>
  void for_each_tap(const Visit& visit) {
    const Convolution& c = p_.convolution;
    for (std::int64_t i = 0; i < p_.pixels(); ++i) {
      const std::int64_t pixel = backwards_ ? p_.pixels() - 1 - i : i;
      const std::int64_t top = pixel / p_.y.size[3] * c.stride[0] - c.pad[0];
      const std::int64_t left = pixel % p_.y.size[3] * c.stride[1] - c.pad[1];
      float* tap = windows_.data() + pixel * window_;
      for (std::int64_t kh = 0; kh < p_.w.size[2]; ++kh) {
        for (std::int64_t kw = 0; kw < p_.w.size[3]; ++kw, tap += p_.inner()) {
          const std::int64_t row = top + kh * c.dilation[0];
          const std::int64_t column = left + kw * c.dilation[1];
          if (row < 0 || row >= p_.x.size[2] || column < 0 || column >= p_.x.size[3]) continue;
          visit(tap, image_.data() + (row * p_.x.size[3] + column) * p_.inner());
        }
      }
    }
  }

  void cut_windows(std::int64_t n, std::int64_t group) {
    for_each_pixel(n, group,
                   [&](float& value, std::int64_t at) { value = read(p_.x.type, memory_.x, at); });
    // What is in the padding stays 0.
    for_each_tap([&](float* tap, const float* pixel) { std::copy_n(pixel, p_.inner(), tap); });
  }

  void read_results(std::int64_t n, std::int64_t group) {
    for_each_result(n, group,
                    [&](float& value, std::int64_t at) { value = read(p_.y.type, memory_.y, at); });
  }

  Problem p_;
  Memory memory_;
  Scale scale_;
  bool backwards_;
  bool tf32_;
  std::int64_t window_, outer_, pixels_;  // with what add_product() wants to be added
  std::vector<float> weights_, windows_, results_, image_;
};

}  // namespace

void convolve(const Problem& problem, const Memory& memory, const Scale& scale, bool backwards) {
  Computation(problem, memory, scale, backwards).run();
}

}  // namespace dl::host_device
