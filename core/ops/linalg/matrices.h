// Batches of matrices in the memory that LAPACK wants, for the op functions of this folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/ops/common.h"
#include "core/ops/linalg/lapack.h"
#include "core/ops/shape/shape.h"

namespace dl::linalg {

inline void check_matrices(const Tensor& input, std::string_view op) {
  check_defined(input, op, "the input");
  if (input.dtype() != DType::kF32 && input.dtype() != DType::kF64) {
    refuse_dtype(op, input.dtype(), "float32 or float64");
  }
  DL_CHECK(input.dim() >= 2, kShape, "{}: the input has shape {}, wanted matrices [..., m, n]", op,
           input.sizes().str());
}

inline void check_square(const Tensor& input, std::string_view op) {
  check_matrices(input, op);
  DL_CHECK(input.size(-1) == input.size(-2), kShape,
           "{}: the input has shape {}, wanted square matrices [..., n, n]", op,
           input.sizes().str());
}

// The dimensions before the last `count`, followed by `rest`.
inline Shape batch_with(const Tensor& input, std::size_t count, const Shape& rest = {}) {
  Shape shape(std::span<const std::int64_t>(input.sizes()).first(input.sizes().size() - count));
  for (const std::int64_t size : rest) shape.push_back(size);
  return shape;
}

// Column-major copies of matrices on the CPU, without history: memory [..., n, m] for [..., m, n].
class Columns {
 public:
  // A copy of these matrices.
  explicit Columns(const Tensor& matrices)
      : memory_(mT(matrices.detach().cpu()).clone(MemoryFormat::kContiguous)) {}
  // Zeros, of this shape and with the dtype of `like`.
  Columns(const Shape& shape, const Tensor& like) {
    Shape turned = shape;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    memory_ = zeros(turned, {.dtype = like.dtype()});
  }

  std::int64_t rows() const { return memory_.size(-1); }
  std::int64_t columns() const { return memory_.size(-2); }
  std::int64_t count() const { return element_count(batch_with(memory_, 2), "linalg"); }
  template <typename T>
  T* at(std::int64_t matrix) const {
    return memory_.data<T>() + matrix * rows() * columns();
  }
  // The matrices on a device. They share the memory, if that is the CPU.
  Tensor on(Device device) const { return dl::detail::drop_base(mT(memory_)).to(device); }

 private:
  Tensor memory_;
};

// Calls work.operator()<T>() with the type of this dtype.
template <typename Work>
void with_type(DType dtype, const Work& work) {
  if (dtype == DType::kF32) {
    work.template operator()<float>();
  } else {
    work.template operator()<double>();
  }
}

// These are not recorded. X with A X = B, or A^T X = B, of matrices with one batch shape; throws as
// inv().
Tensor solved(const Tensor& a, const Tensor& b, bool transposed, std::string_view op);
Tensor identity_like(const Tensor& square);
inline Tensor inverse_of(const Tensor& a, std::string_view op) {
  return solved(a, identity_like(a), false, op);
}

// S alone, or all three; throws as svd(). Not recorded.
struct SvdResult;
SvdResult svd_values(const Tensor& input, bool full, bool with_vectors, std::string_view op);

}  // namespace dl::linalg
