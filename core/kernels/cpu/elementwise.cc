#include "core/kernels/cpu/elementwise.h"

#include "core/kernels/cpu/elementwise_loops.h"
#include "core/kernels/functors.h"

namespace dl::kernels::cpu {
namespace {

template <typename F, typename T>
void run_binary(const Tensor& a, const Tensor& b, const Tensor& out, const F& f) {
  binary_loop<T, T>(a, b, out, [&](auto... run) { apply_binary(f, run...); });
}

template <typename F>
void numeric_binary(const Tensor& a, const Tensor& b, const Tensor& out, std::string_view op) {
  visit_numeric(out.dtype(), op, [&]<typename T>() { run_binary<F, T>(a, b, out, F()); });
}

template <typename F>
void floating_binary(const Tensor& a, const Tensor& b, const Tensor& out, std::string_view op) {
  visit_floating(out.dtype(), op, [&]<typename T>() { run_binary<F, T>(a, b, out, F()); });
}

template <typename F>
void comparison(const Tensor& a, const Tensor& b, const Tensor& out) {
  visit_all(a.dtype(), [&]<typename T>() {
    binary_loop<T, bool>(a, b, out, [&](auto... run) { apply_binary(F(), run...); });
  });
}

template <typename F>
void floating_unary(const Tensor& input, const Tensor& out, std::string_view op, const F& f = {}) {
  visit_floating(out.dtype(), op, [&]<typename T>() {
    unary_loop<T, T>(input, out, [&](auto... run) { apply_unary(f, run...); });
  });
}

template <typename F>
void numeric_unary(const Tensor& input, const Tensor& out, std::string_view op) {
  visit_numeric(out.dtype(), op, [&]<typename T>() {
    unary_loop<T, T>(input, out, [&](auto... run) { apply_unary(F(), run...); });
  });
}

struct Pow {
  double exponent;
  template <typename T>
  T operator()(T x) const {
    return std::pow(x, static_cast<T>(exponent));
  }
};

}  // namespace

void add(const Tensor& a, const Tensor& b, const Tensor& out) {
  numeric_binary<Add>(a, b, out, "add");
}
void sub(const Tensor& a, const Tensor& b, const Tensor& out) {
  numeric_binary<Sub>(a, b, out, "sub");
}
void mul(const Tensor& a, const Tensor& b, const Tensor& out) {
  numeric_binary<Mul>(a, b, out, "mul");
}
void div(const Tensor& a, const Tensor& b, const Tensor& out) {
  floating_binary<Div>(a, b, out, "div");
}
void minimum(const Tensor& a, const Tensor& b, const Tensor& out) {
  numeric_binary<Minimum>(a, b, out, "minimum");
}
void maximum(const Tensor& a, const Tensor& b, const Tensor& out) {
  numeric_binary<Maximum>(a, b, out, "maximum");
}

void eq(const Tensor& a, const Tensor& b, const Tensor& out) {
  comparison<Equal>(a, b, out);
}
void ne(const Tensor& a, const Tensor& b, const Tensor& out) {
  comparison<NotEqual>(a, b, out);
}
void lt(const Tensor& a, const Tensor& b, const Tensor& out) {
  comparison<Less>(a, b, out);
}
void le(const Tensor& a, const Tensor& b, const Tensor& out) {
  comparison<LessEqual>(a, b, out);
}

void neg(const Tensor& input, const Tensor& out) {
  numeric_unary<Neg>(input, out, "neg");
}
void relu(const Tensor& input, const Tensor& out) {
  numeric_unary<Relu>(input, out, "relu");
}
void exp(const Tensor& input, const Tensor& out) {
  floating_unary<Exp>(input, out, "exp");
}
void log(const Tensor& input, const Tensor& out) {
  floating_unary<Log>(input, out, "log");
}
void sqrt(const Tensor& input, const Tensor& out) {
  floating_unary<Sqrt>(input, out, "sqrt");
}
void tanh(const Tensor& input, const Tensor& out) {
  floating_unary<Tanh>(input, out, "tanh");
}
void sigmoid(const Tensor& input, const Tensor& out) {
  floating_unary<Sigmoid>(input, out, "sigmoid");
}
void pow(const Tensor& base, double exponent, const Tensor& out) {
  floating_unary(base, out, "pow", Pow{exponent});
}

void relu_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  floating_binary<ReluBackward>(grad, output, out, "relu");
}
void tanh_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  floating_binary<TanhBackward>(grad, output, out, "tanh");
}
void sigmoid_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  floating_binary<SigmoidBackward>(grad, output, out, "sigmoid");
}

}  // namespace dl::kernels::cpu
