// The loops behind the element-wise kernels: flat where all operands lie alike, strided otherwise.
//
// A kernel is a Row function for a run of elements, made from a functor; the loops know it as a
// pointer and are compiled once. Steps are in elements, and a step of 0 is one value for all. Rows
// exist for float32, float64 and int64; other dtypes are carried through blocks of the latter two.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

using UnaryRow = void (*)(const void* in, std::int64_t in_step, void* out, std::int64_t out_step,
                          std::int64_t length, double parameter);
using BinaryRow = void (*)(const void* a, std::int64_t a_step, const void* b, std::int64_t b_step,
                           void* out, std::int64_t out_step, std::int64_t length,
                           const Scalar& parameter);

template <typename Row>
struct Rows {
  Row f32 = nullptr;
  Row f64 = nullptr;
  Row i64 = nullptr;       // null: floating dtypes only
  Row u64 = nullptr;       // null: as int64, which wraps alike
  bool give_bool = false;  // the rows of a comparison write bools, whatever the operands are
};

void unary_loop(const Rows<UnaryRow>& rows, const Tensor& input, const Tensor& output,
                std::string_view op, double parameter = 0);
// The output's dtype is the operands', or bool for rows that give bools. Beside an output of
// float16 or bfloat16 an operand of any dtype is taken as it is.
void binary_loop(const Rows<BinaryRow>& rows, const Tensor& a, const Tensor& b,
                 const Tensor& output, std::string_view op, Scalar parameter = 0);

template <typename F, typename T>
void unary_row(const void* input, std::int64_t in_step, void* output, std::int64_t out_step,
               std::int64_t length, double) {
  const auto* in = static_cast<const T*>(input);
  auto* out = static_cast<T*>(output);
  if (in_step == 1 && out_step == 1) {
    for (std::int64_t i = 0; i < length; ++i) out[i] = F()(in[i]);
  } else {
    for (std::int64_t i = 0; i < length; ++i) out[i * out_step] = F()(in[i * in_step]);
  }
}

template <typename T, typename Out, typename F>
void binary_run(const F& f, const void* left, std::int64_t a_step, const void* right,
                std::int64_t b_step, void* output, std::int64_t out_step, std::int64_t length) {
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  auto* out = static_cast<Out*>(output);
  if (a_step == 1 && b_step == 1 && out_step == 1) {
    for (std::int64_t i = 0; i < length; ++i) out[i] = f(a[i], b[i]);
  } else if (a_step == 1 && b_step == 0 && out_step == 1) {
    const T value = *b;
    for (std::int64_t i = 0; i < length; ++i) out[i] = f(a[i], value);
  } else {
    for (std::int64_t i = 0; i < length; ++i) {
      out[i * out_step] = f(a[i * a_step], b[i * b_step]);
    }
  }
}

template <typename F, typename T, typename Out>
void binary_row(const void* a, std::int64_t a_step, const void* b, std::int64_t b_step, void* out,
                std::int64_t out_step, std::int64_t length, const Scalar&) {
  binary_run<T, Out>(F(), a, a_step, b, b_step, out, out_step, length);
}

}  // namespace dl::kernels::cpu
