// Inputs whose reductions are exact in every dtype, and the naive results to compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/api/process_group.h"
#include "tests/collectives/values.h"

namespace dl::collectives::testing {

// What rank `rank` puts into element i: small whole numbers, exact in every dtype and sum.
inline double element(DType dtype, int rank, std::size_t i) {
  const auto n = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5);
  return dtype == DType::kBool ? n % 2 : n + 1;
}

// The elements repeat after five, so that filling a long buffer costs a copy each.
inline Bytes filled(DType dtype, int rank, std::size_t count, std::size_t from = 0) {
  const std::size_t bytes = size_of(dtype);
  Bytes pattern(5 * bytes);
  for (std::size_t i = 0; i < 5; ++i) put(pattern, dtype, i, element(dtype, rank, from + i));
  Bytes all(count * bytes);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(all.data() + i * bytes, pattern.data() + i % 5 * bytes, bytes);
  }
  return all;
}

inline double expected(DType dtype, ReduceOp op, int size, std::size_t i) {
  double sum = element(dtype, 0, i);
  for (int r = 1; r < size; ++r) {
    const double x = element(dtype, r, i);
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) sum += x;
    if (op == ReduceOp::kMin) sum = std::min(sum, x);
    if (op == ReduceOp::kMax) sum = std::max(sum, x);
    if (op == ReduceOp::kProd) sum *= x;
    const auto a = static_cast<int>(sum);
    const auto b = static_cast<int>(x);
    if (op == ReduceOp::kBand) sum = a & b;
    if (op == ReduceOp::kBor) sum = a | b;
    if (op == ReduceOp::kBxor) sum = a ^ b;
  }
  if (dtype == DType::kBool) return sum != 0;
  if (op == ReduceOp::kAvg) sum /= size;
  if (op == ReduceOp::kAvg && !is_floating(dtype)) sum = std::trunc(sum);
  return sum;
}

// Rounded as the dtype rounds, once.
inline double rounded(DType dtype, double x) {
  Bytes one(8);
  put(one, dtype, 0, x);
  return get(one, dtype, 0);
}

inline bool allowed(DType dtype, ReduceOp op) {
  if (is_floating(dtype)) return op < ReduceOp::kBand;
  return dtype != DType::kBool || op != ReduceOp::kAvg;
}

inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kAvg,  ReduceOp::kMin,
                                       ReduceOp::kMax, ReduceOp::kProd, ReduceOp::kBand,
                                       ReduceOp::kBor, ReduceOp::kBxor};

// Of many elements some are looked at, so that the checks do not take longer than the sums; the
// step is a prime, so that every residue of a vector or slice gets its turn. Always the first and
// the last.
inline std::size_t next_look(std::size_t i, std::size_t count) {
  const std::size_t step = count > 10'000 ? 211 : count > 500 ? 41 : 1;
  return i + 1 == count ? count : std::min(i + step, count - 1);
}

// Products of many ranks leave the exact range of the small dtypes.
inline bool exact(DType dtype, ReduceOp op, int size) {
  return op != ReduceOp::kProd || size <= 3 || (is_floating(dtype) && size_of(dtype) >= 4) ||
         dtype == DType::kI64 || dtype == DType::kU64 || dtype == DType::kBool;
}

}  // namespace dl::collectives::testing
