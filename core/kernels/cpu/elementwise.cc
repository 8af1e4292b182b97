#include "core/kernels/cpu/elementwise.h"

#include "core/kernels/cpu/elementwise_loops.h"
#include "core/kernels/cpu/vector_math.h"
#include "core/kernels/functors.h"

namespace dl::kernels::cpu {
namespace {

template <typename F>
constexpr Rows<BinaryRow> kFloating{&binary_row<F, float, float>, &binary_row<F, double, double>,
                                    nullptr, nullptr};
template <typename F>
constexpr Rows<BinaryRow> kNumeric{&binary_row<F, float, float>, &binary_row<F, double, double>,
                                   &binary_row<F, std::int64_t, std::int64_t>, nullptr};
// Where the order of large uint64 matters.
template <typename F>
constexpr Rows<BinaryRow> kOrdered{&binary_row<F, float, float>, &binary_row<F, double, double>,
                                   &binary_row<F, std::int64_t, std::int64_t>,
                                   &binary_row<F, std::uint64_t, std::uint64_t>};
template <typename F>
constexpr Rows<BinaryRow> kComparison{&binary_row<F, float, bool>, &binary_row<F, double, bool>,
                                      &binary_row<F, std::int64_t, bool>,
                                      &binary_row<F, std::uint64_t, bool>, true};
template <typename F>
constexpr Rows<UnaryRow> kUnaryNumeric{&unary_row<F, float>, &unary_row<F, double>,
                                       &unary_row<F, std::int64_t>, &unary_row<F, std::uint64_t>};

void refuse_bool(const Tensor& out, std::string_view op) {
  if (out.dtype() == DType::kBool) refuse_dtype(op, out.dtype(), "a number");
}

template <typename T>
void add_scaled_row(const void* a, std::int64_t a_step, const void* b, std::int64_t b_step,
                    void* out, std::int64_t out_step, std::int64_t length, const Scalar& alpha) {
  binary_run<T, T>(AddScaled<T>{alpha.to<T>()}, a, a_step, b, b_step, out, out_step, length);
}

template <typename T>
void pow_row(const void* input, std::int64_t in_step, void* output, std::int64_t out_step,
             std::int64_t length, double exponent) {
  const auto* in = static_cast<const T*>(input);
  auto* out = static_cast<T*>(output);
  if (exponent == 2.0) {
    for (std::int64_t i = 0; i < length; ++i) out[i * out_step] = in[i * in_step] * in[i * in_step];
    return;
  }
  for (std::int64_t i = 0; i < length; ++i) {
    out[i * out_step] = std::pow(in[i * in_step], static_cast<T>(exponent));
  }
}

}  // namespace

void add(const Tensor& a, const Tensor& b, const Tensor& out) {
  refuse_bool(out, "add");
  binary_loop(kNumeric<Add>, a, b, out, "add");
}
void add_scaled(const Tensor& a, const Tensor& b, Scalar alpha, const Tensor& out) {
  refuse_bool(out, "add");
  binary_loop({&add_scaled_row<float>, &add_scaled_row<double>, &add_scaled_row<std::int64_t>}, a,
              b, out, "add", alpha);
}
void sub(const Tensor& a, const Tensor& b, const Tensor& out) {
  refuse_bool(out, "sub");
  binary_loop(kNumeric<Sub>, a, b, out, "sub");
}
void mul(const Tensor& a, const Tensor& b, const Tensor& out) {
  refuse_bool(out, "mul");
  binary_loop(kNumeric<Mul>, a, b, out, "mul");
}
void div(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary_loop(kFloating<Div>, a, b, out, "div");
}
void minimum(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary_loop(kOrdered<Minimum>, a, b, out, "minimum");
}
void maximum(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary_loop(kOrdered<Maximum>, a, b, out, "maximum");
}

void eq(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary_loop(kComparison<Equal>, a, b, out, "eq");
}
void ne(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary_loop(kComparison<NotEqual>, a, b, out, "ne");
}
void lt(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary_loop(kComparison<Less>, a, b, out, "lt");
}
void le(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary_loop(kComparison<LessEqual>, a, b, out, "le");
}

void neg(const Tensor& input, const Tensor& out) {
  refuse_bool(out, "neg");
  unary_loop(kUnaryNumeric<Neg>, input, out, "neg");
}
void relu(const Tensor& input, const Tensor& out) {
  refuse_bool(out, "relu");
  unary_loop(kUnaryNumeric<Relu>, input, out, "relu");
}
void exp(const Tensor& input, const Tensor& out) {
  unary_loop({&exp_f32, &unary_row<Exp, double>}, input, out, "exp");
}
void log(const Tensor& input, const Tensor& out) {
  unary_loop({&log_f32, &unary_row<Log, double>}, input, out, "log");
}
void sqrt(const Tensor& input, const Tensor& out) {
  unary_loop({&unary_row<Sqrt, float>, &unary_row<Sqrt, double>}, input, out, "sqrt");
}
void tanh(const Tensor& input, const Tensor& out) {
  unary_loop({&tanh_f32, &unary_row<Tanh, double>}, input, out, "tanh");
}
void sigmoid(const Tensor& input, const Tensor& out) {
  unary_loop({&sigmoid_f32, &unary_row<Sigmoid, double>}, input, out, "sigmoid");
}
void pow(const Tensor& base, double exponent, const Tensor& out) {
  unary_loop({&pow_row<float>, &pow_row<double>, nullptr, nullptr}, base, out, "pow", exponent);
}
void gelu(const Tensor& input, bool tanh_form, const Tensor& out) {
  if (tanh_form) {
    return unary_loop({&unary_row<GeluTanh, float>, &unary_row<GeluTanh, double>}, input, out,
                      "gelu");
  }
  unary_loop({&unary_row<Gelu, float>, &unary_row<Gelu, double>}, input, out, "gelu");
}

void relu_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  binary_loop(kFloating<ReluBackward>, grad, output, out, "relu_backward");
}
void tanh_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  binary_loop(kFloating<TanhBackward>, grad, output, out, "tanh_backward");
}
void sigmoid_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  binary_loop(kFloating<SigmoidBackward>, grad, output, out, "sigmoid_backward");
}
void gelu_backward(const Tensor& grad, const Tensor& input, bool tanh_form, const Tensor& out) {
  binary_loop(tanh_form ? kFloating<GeluTanhBackward> : kFloating<GeluBackward>, grad, input, out,
              "gelu_backward");
}

}  // namespace dl::kernels::cpu
