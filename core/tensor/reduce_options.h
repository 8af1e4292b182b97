// Argument types of Tensor's methods: of reductions, sorting and others.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/tensor/dims.h"

namespace dl {

// One number or a list: the dimensions to reduce, as in x.sum(1), x.sum({0, -1}) and x.sum() (all
// of them), or shifts, as in x.roll({1, 2}, {0, 1}). Negative dimensions count from the end. Such a
// function has one parameter of this class, and no overload for a number, because clang warns if
// {1} is taken for a number.
class DimList {
 public:
  DimList() noexcept = default;
  template <std::integral T>
  DimList(T dim) : dims_{static_cast<std::int64_t>(dim)} {}  // NOLINT(google-explicit-constructor)
  DimList(std::initializer_list<std::int64_t> dims)          // NOLINT(google-explicit-constructor)
      : dims_(dims) {}
  DimList(const Dims& dims) : dims_(dims) {}  // NOLINT(google-explicit-constructor)

  const Dims& dims() const noexcept { return dims_; }

 private:
  Dims dims_;
};

struct ReduceOptions {
  bool keepdim = false;  // keep reduced dimensions, with size 1
};

struct VarOptions {
  double correction = 1;  // the divisor is max(0, elements - correction)
  bool keepdim = false;
};

struct SortOptions {
  bool descending = false;
};

struct TopkOptions {
  bool largest = true;
};

struct QuantileOptions {
  bool keepdim = false;
  // Between two elements: "linear", or "lower", "higher", "midpoint" or "nearest".
  std::string_view interpolation = "linear";
};

struct UniqueOptions {
  bool return_inverse = false;
  bool return_counts = false;
};

struct ScatterReduceOptions {
  bool include_self = true;  // the elements of the destination count, too
};

struct MultinomialOptions {
  bool replacement = false;
};

struct AddmmOptions {
  double beta = 1;
  double alpha = 1;
};

}  // namespace dl
