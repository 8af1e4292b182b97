#include "core/kernels/declared/elementwise.h"

#include <array>

#include "core/kernels/cpu/elementwise/loops.h"
#include "core/kernels/cpu/elementwise/rows.h"

namespace dl::kernels::cpu {

void unary(UnaryFn fn, const Tensor& input, const Parameters& parameters, const Tensor& out) {
  run_rows(rows_of(fn), std::array{&input}, parameters, out);
}

void unary_backward(UnaryFn fn, const Tensor& grad, const Tensor& saved,
                    const Parameters& parameters, const Tensor& out) {
  run_rows(gradient_rows_of(fn), std::array{&grad, &saved}, parameters, out);
}

void binary(BinaryFn fn, const Tensor& a, const Tensor& b, const Parameters& parameters,
            const Tensor& out) {
  run_rows(rows_of(fn), std::array{&a, &b}, parameters, out);
}

PartWork unary_in_parts(UnaryFn fn, const Tensor& input, const Parameters& parameters,
                        const Tensor& out) {
  return rows_in_parts(rows_of(fn), std::array{&input}, parameters, out);
}

PartWork unary_backward_in_parts(UnaryFn fn, const Tensor& grad, const Tensor& saved,
                                 const Parameters& parameters, const Tensor& out) {
  return rows_in_parts(gradient_rows_of(fn), std::array{&grad, &saved}, parameters, out);
}

PartWork binary_in_parts(BinaryFn fn, const Tensor& a, const Tensor& b,
                         const Parameters& parameters, const Tensor& out) {
  return rows_in_parts(rows_of(fn), std::array{&a, &b}, parameters, out);
}

void ternary(TernaryFn fn, const Tensor& a, const Tensor& b, const Tensor& c,
             const Parameters& parameters, const Tensor& out) {
  const bool chooses = fn == TernaryFn::kWhere && a.dtype() == DType::kBool &&
                       b.dtype() == out.dtype() && c.dtype() == out.dtype();
  if (chooses) return where(a, b, c, out);
  run_rows(rows_of(fn), std::array{&a, &b, &c}, parameters, out);
}

}  // namespace dl::kernels::cpu
