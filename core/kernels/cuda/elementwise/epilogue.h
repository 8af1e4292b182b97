// Which operations dlrun lets cuBLASLt fuse into a matrix product (epilogues): rules on plain data,
// tested without a device.
//
// They follow from cublasLt.h and from three guarantees: f16 and bf16 are summed in f32; f32 is not
// rounded to fewer bits unless the user allows TF32; a fused result differs from the unfused one by
// rounding only.
//  - f64 has no epilogues.
//  - GELU is fused in its tanh form, the only one that cuBLASLt has, and only for f16 and bf16,
//    whose precision hides the hardware's approximate tanh. Its saved input needs rows of a
//    multiple of 8 elements.
//  - A ReLU is not fused into the product before it: cuBLASLt's turns NaN into 0, and its mask
//    passes a gradient at exactly 0. The ReLU's gradient is fused, with dlrun's own mask in rows of
//    a multiple of 128 bits.
//  - A gradient with a single term, or of a single row, is not fused: cuBLASLt does not support
//    k = 1 there.
//  - The column sums of dy are fused for f16 and bf16 only: for f32 cuBLASLt would sum in TF32 (if
//    allowed) or f32, dlrun's own kernel in f64.
//  - Epilogues that read or write a second matrix are used from sm_90 on. On older GPUs they may
//    select slower products than the pass that they save (llm.c, pull request 338, has the same
//    default).
#pragma once

#include <cstdint>

#include "core/args/linear_args.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

enum class Epilogue : std::int32_t {
  kNone,
  kBias,
  kGelu,
  kBiasGelu,
  kGeluKeep,  // and writes GELU's input
  kBiasGeluKeep,
  kReluGradient,  // times a ReLU's derivative, by its mask
  kGeluGradient,
  kBiasGradient,  // and writes the sums of the right operand's columns
};

inline constexpr int kSecondMatrixFrom = 90;  // the compute capability

// A product [rows, columns], row-major.
struct EpilogueCase {
  DType dtype;
  int compute_capability;
  std::int64_t columns;
};

constexpr bool is_short(DType dtype) noexcept {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}
constexpr bool fuses_second_matrix(const EpilogueCase& c) noexcept {
  return c.dtype != DType::kF64 && c.compute_capability >= kSecondMatrixFrom;
}
constexpr bool fuses_gelu(const EpilogueCase& c) noexcept {
  return is_short(c.dtype) && fuses_second_matrix(c) && c.columns % 8 == 0;
}

// activation(product + bias), or a part of it. `keeps`: also write what the activation's backward
// needs.
constexpr Epilogue forward_epilogue(const EpilogueCase& c, bool bias, Activation activation,
                                    bool keeps) noexcept {
  if (c.dtype == DType::kF64) return Epilogue::kNone;
  if (activation == Activation::kGeluTanh && fuses_gelu(c)) {
    if (keeps) return bias ? Epilogue::kBiasGeluKeep : Epilogue::kGeluKeep;
    return bias ? Epilogue::kBiasGelu : Epilogue::kGelu;
  }
  return bias ? Epilogue::kBias : Epilogue::kNone;
}

// The epilogue to try if cuBLASLt has no algorithm for `epilogue`; kNone always works.
constexpr Epilogue simpler(Epilogue epilogue) noexcept {
  switch (epilogue) {
    case Epilogue::kBiasGelu:
    case Epilogue::kBiasGeluKeep:
      return Epilogue::kBias;
    default:
      return Epilogue::kNone;
  }
}

// dX = (dY W) * activation'(X), fused. `terms`: the length of the product's sums. `has_mask`: a
// ReLU's mask was saved.
constexpr Epilogue input_gradient_epilogue(const EpilogueCase& c, std::int64_t terms,
                                           Activation activation, bool has_mask) noexcept {
  if (terms == 1) return Epilogue::kNone;
  if (activation == Activation::kRelu && has_mask && fuses_second_matrix(c)) {
    return Epilogue::kReluGradient;
  }
  if (activation == Activation::kGeluTanh && fuses_gelu(c)) return Epilogue::kGeluGradient;
  return Epilogue::kNone;
}

constexpr Epilogue weight_gradient_epilogue(const EpilogueCase& c, std::int64_t rows,
                                            bool writes_bias) noexcept {
  const bool fuses = is_short(c.dtype) && fuses_second_matrix(c) && rows > 1;
  return writes_bias && fuses ? Epilogue::kBiasGradient : Epilogue::kNone;
}

constexpr bool adds_bias(Epilogue e) noexcept {
  return e == Epilogue::kBias || e == Epilogue::kBiasGelu || e == Epilogue::kBiasGeluKeep;
}
constexpr bool writes_gelu_input(Epilogue e) noexcept {
  return e == Epilogue::kGeluKeep || e == Epilogue::kBiasGeluKeep;
}
constexpr bool applies_gelu(Epilogue e) noexcept {
  return e == Epilogue::kGelu || e == Epilogue::kBiasGelu || writes_gelu_input(e);
}

constexpr bool has_second_matrix(Epilogue e) noexcept {
  return writes_gelu_input(e) || e == Epilogue::kReluGradient || e == Epilogue::kGeluGradient;
}
// The row length of the second matrix in elements, or of a mask in bits.
constexpr std::int64_t second_stride(Epilogue e, std::int64_t columns) noexcept {
  return e == Epilogue::kReluGradient ? 8 * relu_mask_row_bytes(columns) : columns;
}

}  // namespace dl::kernels::cuda
