// What methods of Tensor take beside their tensors: of reductions, functions of order and others.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>

#include "core/tensor/dims.h"

namespace dl {

// One number or a list: the dimensions that are reduced, as in x.sum(1), x.sum({0, -1}) and
// x.sum(), which is over all; shifts, as in x.roll({1, 2}, {0, 1}). Dimensions below 0 count from
// the end. A function that takes either has one parameter of this class, and no overload for a
// number: clang warns if a list of one, {1}, is taken for a number.
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
  double correction = 1;  // the divisor is the number of elements less this, and at least 0
  bool keepdim = false;
};

struct SortOptions {
  bool descending = false;
};

struct TopkOptions {
  bool largest = true;
};

struct UniqueOptions {
  bool return_inverse = false;
  bool return_counts = false;
};

struct ScatterReduceOptions {
  bool include_self = true;  // what is there before counts, too
};

struct MultinomialOptions {
  bool replacement = false;
};

struct AddmmOptions {
  double beta = 1;
  double alpha = 1;
};

}  // namespace dl
