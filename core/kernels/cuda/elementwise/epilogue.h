// What cuBLASLt computes in the last pass of a product, and where dlrun asks it to: rules on plain
// data, which a test holds without a device.
//
// They come from cublasLt.h, and from three promises: f16 and bf16 are summed in f32, f32 is not
// rounded to anything shorter unless the user allows TF32, and a fused result differs from the
// unfused one by rounding only.
//  - f64 has no epilogues.
//  - GELU is fused in its tanh form, the only one that cuBLASLt has, and for f16 and bf16, which do
//    not show that its tanh is the hardware's approximation. What it was applied to is kept in rows
//    that must be a multiple of 8 elements long.
//  - A ReLU is not fused with the product in front of it: cuBLASLt's makes 0 of NaN, and its mask
//    lets a gradient through at exactly 0. Its gradient is, by a mask of our own, in rows of a
//    multiple of 128 bits.
//  - A gradient of a single term, or of a single row, is not fused: cuBLASLt knows no k of 1 there.
//  - The columns' sums of dy are taken from a product for f16 and bf16 only: of f32 they would be
//    sums of TF32 where that is allowed, and f32 where our own are f64.
//  - Epilogues that read or write a second matrix are asked for from sm_90 on. On older GPUs they
//    have been seen to choose slower products than the pass that they save (llm.c, pull request
//    338, whose default follows the same line).
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
  kGeluKeep,  // and writes what GELU was applied to
  kBiasGeluKeep,
  kReluGradient,  // times the slope of a ReLU, by its mask
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

// activation(product + bias), or a part of it. `keeps`: what backward wants of the activation is to
// be written too.
constexpr Epilogue forward_epilogue(const EpilogueCase& c, bool bias, Activation activation,
                                    bool keeps) noexcept {
  if (c.dtype == DType::kF64) return Epilogue::kNone;
  if (activation == Activation::kGeluTanh && fuses_gelu(c)) {
    if (keeps) return bias ? Epilogue::kBiasGeluKeep : Epilogue::kGeluKeep;
    return bias ? Epilogue::kBiasGelu : Epilogue::kGelu;
  }
  return bias ? Epilogue::kBias : Epilogue::kNone;
}

// What to ask for where cuBLASLt has no algorithm for an epilogue; kNone is always there.
constexpr Epilogue simpler(Epilogue epilogue) noexcept {
  switch (epilogue) {
    case Epilogue::kBiasGelu:
    case Epilogue::kBiasGeluKeep:
      return Epilogue::kBias;
    default:
      return Epilogue::kNone;
  }
}

// product times the slope of the activation that made the matrix which this is the gradient of.
// `terms`: the length of the product's sums. `has_mask`: of a ReLU, there is a mask.
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
// The length of a row of that matrix in its elements, of a mask in bits.
constexpr std::int64_t second_stride(Epilogue e, std::int64_t columns) noexcept {
  return e == Epilogue::kReluGradient ? 8 * relu_mask_bytes(columns) : columns;
}

}  // namespace dl::kernels::cuda
