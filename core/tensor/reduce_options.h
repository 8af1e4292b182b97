// What methods of Tensor take beside their tensors: of reductions, functions of order and others.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>

#include "core/tensor/dims.h"

namespace dl {

// The dimensions that are reduced: x.sum(1), x.sum({0, -1}); x.sum() is over all. Numbers below 0
// count from the end.
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

}  // namespace dl
