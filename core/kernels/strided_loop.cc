#include "core/kernels/strided_loop.h"

#include <cstddef>

namespace dl::kernels::detail {
namespace {

// True if dimension `outer` continues dimension `inner` in memory for every operand.
bool joins(const Dims& shape, const Dims* strides, std::size_t count, std::size_t outer,
           std::size_t inner) {
  for (std::size_t k = 0; k < count; ++k) {
    if (strides[k][outer] != strides[k][inner] * shape[inner]) return false;
  }
  return true;
}

// True if `a` should be outside of `b`: the first operand with different strides decides.
bool outside(const Dims* strides, std::size_t count, std::size_t a, std::size_t b) {
  for (std::size_t k = 0; k < count; ++k) {
    if (strides[k][a] == 0 || strides[k][b] == 0) continue;
    if (strides[k][a] != strides[k][b]) return strides[k][a] > strides[k][b];
  }
  return true;
}

void swap_dims(Dims& shape, Dims* strides, std::size_t count, std::size_t a, std::size_t b) {
  std::swap(shape[a], shape[b]);
  for (std::size_t k = 0; k < count; ++k) std::swap(strides[k][a], strides[k][b]);
}

}  // namespace

void plan(Dims& shape, Dims* strides, std::size_t count) {
  std::size_t kept = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    shape[kept] = shape[d];
    for (std::size_t k = 0; k < count; ++k) strides[k][kept] = strides[k][d];
    ++kept;
  }
  // Insertion sort: stable, and the dimensions are nearly always sorted already.
  for (std::size_t i = 1; i < kept; ++i) {
    for (std::size_t j = i; j > 0 && !outside(strides, count, j - 1, j); --j) {
      swap_dims(shape, strides, count, j - 1, j);
    }
  }
  std::size_t last = 0;
  for (std::size_t d = 1; d < kept; ++d) {
    if (joins(shape, strides, count, last, d)) {
      shape[last] *= shape[d];
      for (std::size_t k = 0; k < count; ++k) strides[k][last] = strides[k][d];
    } else {
      ++last;
      shape[last] = shape[d];
      for (std::size_t k = 0; k < count; ++k) strides[k][last] = strides[k][d];
    }
  }
  const std::size_t size = kept == 0 ? 1 : last + 1;
  shape.resize(size);
  for (std::size_t k = 0; k < count; ++k) strides[k].resize(size);
  if (kept == 0) {
    shape[0] = 1;
    for (std::size_t k = 0; k < count; ++k) strides[k][0] = 1;
  }
}

void walk(const Dims& shape, const Dims* strides, std::size_t count, std::int64_t begin,
          std::int64_t end, RunBody call, const void* body) {
  if (begin >= end) return;
  const std::size_t inner = shape.size() - 1;
  const std::int64_t row = shape[inner];
  Dims index(inner, 0);
  std::array<std::int64_t, kMaxOperands> offsets{};
  std::int64_t rest = begin / row;
  for (std::size_t d = inner; d-- > 0;) {
    index[d] = rest % shape[d];
    rest /= shape[d];
    for (std::size_t k = 0; k < count; ++k) offsets[k] += index[d] * strides[k][d];
  }
  std::int64_t column = begin % row;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t length = std::min(row - column, end - at);
    std::array<std::int64_t, kMaxOperands> first = offsets;
    for (std::size_t k = 0; k < count; ++k) first[k] += column * strides[k][inner];
    call(body, first.data(), length);
    at += length;
    column = 0;
    for (std::size_t d = inner; d-- > 0;) {
      for (std::size_t k = 0; k < count; ++k) offsets[k] += strides[k][d];
      if (++index[d] < shape[d]) break;
      for (std::size_t k = 0; k < count; ++k) offsets[k] -= index[d] * strides[k][d];
      index[d] = 0;
    }
  }
}

}  // namespace dl::kernels::detail
