// Padding of the last one, two or three dimensions: ConstantPad, ZeroPad, ReflectionPad,
// ReplicationPad, CircularPad, as pad() of core/ops/shape/shape.h.
//
//     nn::ZeroPad2d(1)             one on each side of both dimensions
//     nn::ConstantPad1d({1, 2}, 3.5)
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/ops/shape/shape.h"
#include "nn/module/module.h"

namespace dl::nn {

// The number of elements before and after each dimension: one number for all, or {before, after}
// for the last dimension, then for the second last, and so on.
class Padding {
 public:
  template <std::integral T>
  Padding(T each)
      : each_(static_cast<std::int64_t>(each)) {}  // NOLINT(google-explicit-constructor)
  Padding(std::initializer_list<std::int64_t> pads)
      : pads_(pads) {}  // NOLINT(google-explicit-constructor)
  // The padding for `dims` dimensions. Throws kInvalidArgument unless there are two numbers for
  // each.
  Dims of(std::size_t dims, std::string_view layer) const;

 private:
  std::int64_t each_ = 0;
  Dims pads_;
};

// The base of the padding layers.
class PadNd : public Module {
 public:
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  const Dims padding;

 protected:
  PadNd(Dims pads, PadMode mode, Scalar value, bool shows_value)
      : padding(std::move(pads)), mode_(mode), value_(value), shows_value_(shows_value) {}

 private:
  PadMode mode_;
  Scalar value_;
  bool shows_value_;
};

// One row each: name, dimensions, mode.
#define DL_PADS(row)                                                                     \
  row(ZeroPad1d, 1, kConstant) row(ZeroPad2d, 2, kConstant) row(ZeroPad3d, 3, kConstant) \
      row(ReflectionPad1d, 1, kReflect) row(ReflectionPad2d, 2, kReflect)                \
          row(ReflectionPad3d, 3, kReflect) row(ReplicationPad1d, 1, kReplicate)         \
              row(ReplicationPad2d, 2, kReplicate) row(ReplicationPad3d, 3, kReplicate)  \
                  row(CircularPad1d, 1, kCircular) row(CircularPad2d, 2, kCircular)      \
                      row(CircularPad3d, 3, kCircular)
// NOLINTBEGIN(bugprone-macro-parentheses): names of classes
#define DL_PAD(Layer, dims, mode)                                                                  \
  class Layer : public PadNd {                                                                     \
   public:                                                                                         \
    explicit Layer(const Padding& pads) : PadNd(pads.of(dims, #Layer), PadMode::mode, 0, false) {} \
  };
DL_PADS(DL_PAD)
#undef DL_PAD
#undef DL_PADS

#define DL_PAD(Layer, dims)                                                \
  class Layer : public PadNd {                                             \
   public:                                                                 \
    Layer(const Padding& pads, double value)                               \
        : PadNd(pads.of(dims, #Layer), PadMode::kConstant, value, true) {} \
  };
DL_PAD(ConstantPad1d, 1)
DL_PAD(ConstantPad2d, 2)
DL_PAD(ConstantPad3d, 3)
#undef DL_PAD
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace dl::nn
