#include "core/kernels/cuda/elementwise.h"

#include "core/kernels/cuda/elementwise_kernels.h"
#include "core/kernels/cuda/launch.h"
#include "core/kernels/cuda/strided.h"

namespace dl::kernels::cuda {
namespace {

// The value of a CPU tensor without dimensions, which has the operands' dtype, or is float32 beside
// float16 and bfloat16.
BinaryOperand host_value(const Tensor& tensor) {
  return visit_all(tensor.dtype(), [&]<typename T>() {
    const T value = *static_cast<const T*>(tensor.data_ptr());
    return BinaryOperand{.one = true,
                         .floating = convert<double>(value),
                         .integer = static_cast<std::int64_t>(convert<std::uint64_t>(value))};
  });
}

bool on_host(const Tensor& tensor) noexcept {
  return tensor.device().type == DeviceType::kCPU;
}

BinaryOperand operand_of(const Tensor& tensor) {
  if (on_host(tensor)) return host_value(tensor);
  return {.data = tensor.data_ptr(), .one = tensor.numel() == 1};
}

const void* moved(const void* data, std::int64_t elements, DType dtype) {
  if (data == nullptr) return nullptr;
  return static_cast<const char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}
void* moved(void* data, std::int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

enum class Takes : std::uint8_t { kAll, kNumbers, kFloating };

void check_dtype(DType dtype, Takes takes, std::string_view op) {
  if (takes == Takes::kFloating && !is_floating(dtype)) {
    refuse_dtype(op, dtype, "a floating dtype");
  }
  if (takes == Takes::kNumbers && dtype == DType::kBool) refuse_dtype(op, dtype, "a number");
}

void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out, std::string_view name,
            Takes takes, BinaryFactor factor = {}) {
  const DType dtype = (on_host(a) ? b : a).dtype();
  check_dtype(dtype, takes, name);
  if (out.numel() == 0) return;
  const Launch launch;
  const BinaryOperand left = operand_of(a);
  const BinaryOperand right = operand_of(b);
  const bool flat = (left.one || lie_alike(a, out)) && (right.one || lie_alike(b, out)) &&
                    (out.is_contiguous() || out.is_channels_last());
  if (!flat ||
      !binary_flat(op, dtype, left, right, factor, out.data_ptr(), out.numel(), launch.stream())) {
    const Shape& shape = out.sizes();
    const auto loop =
        make_loop<3>(shape, {out.strides(), strides_in(a, shape), strides_in(b, shape)});
    for_each_part(loop, [&](const OffsetMap<3>& map, const std::array<std::int64_t, 3>& first) {
      BinaryOperand part_a = left;
      BinaryOperand part_b = right;
      part_a.data = moved(left.data, first[1], dtype);
      part_b.data = moved(right.data, first[2], dtype);
      binary_strided(op, dtype, part_a, part_b, factor,
                     moved(out.data_ptr(), first[0], out.dtype()), map, launch.stream());
    });
  }
  DL_CUDA_LAUNCHED("binary");
}

void unary(UnaryOp op, const Tensor& input, const Tensor& out, std::string_view name, Takes takes,
           double parameter = 0) {
  const DType dtype = out.dtype();
  check_dtype(dtype, takes, name);
  if (out.numel() == 0) return;
  const Launch launch;
  if (!lie_alike(input, out) || !unary_flat(op, dtype, input.data_ptr(), parameter, out.data_ptr(),
                                            out.numel(), launch.stream())) {
    const Shape& shape = out.sizes();
    const auto loop = make_loop<2>(shape, {out.strides(), strides_in(input, shape)});
    for_each_part(loop, [&](const OffsetMap<2>& map, const std::array<std::int64_t, 2>& first) {
      unary_strided(op, dtype, moved(static_cast<const void*>(input.data_ptr()), first[1], dtype),
                    parameter, moved(out.data_ptr(), first[0], dtype), map, launch.stream());
    });
  }
  DL_CUDA_LAUNCHED("unary");
}

}  // namespace

void add(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kAdd, a, b, out, "add", Takes::kNumbers);
}
void add_scaled(const Tensor& a, const Tensor& b, Scalar alpha, const Tensor& out) {
  binary(BinaryOp::kAddScaled, a, b, out, "add", Takes::kNumbers,
         {.floating = alpha.as_double(),
          .integer = static_cast<std::int64_t>(alpha.to<std::uint64_t>())});
}
void sub(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kSub, a, b, out, "sub", Takes::kNumbers);
}
void mul(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kMul, a, b, out, "mul", Takes::kNumbers);
}
void div(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kDiv, a, b, out, "div", Takes::kFloating);
}
void minimum(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kMinimum, a, b, out, "minimum", Takes::kAll);
}
void maximum(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kMaximum, a, b, out, "maximum", Takes::kAll);
}

void eq(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kEqual, a, b, out, "eq", Takes::kAll);
}
void ne(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kNotEqual, a, b, out, "ne", Takes::kAll);
}
void lt(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kLess, a, b, out, "lt", Takes::kAll);
}
void le(const Tensor& a, const Tensor& b, const Tensor& out) {
  binary(BinaryOp::kLessEqual, a, b, out, "le", Takes::kAll);
}

void neg(const Tensor& input, const Tensor& out) {
  unary(UnaryOp::kNeg, input, out, "neg", Takes::kNumbers);
}
void relu(const Tensor& input, const Tensor& out) {
  unary(UnaryOp::kRelu, input, out, "relu", Takes::kNumbers);
}
void exp(const Tensor& input, const Tensor& out) {
  unary(UnaryOp::kExp, input, out, "exp", Takes::kFloating);
}
void log(const Tensor& input, const Tensor& out) {
  unary(UnaryOp::kLog, input, out, "log", Takes::kFloating);
}
void sqrt(const Tensor& input, const Tensor& out) {
  unary(UnaryOp::kSqrt, input, out, "sqrt", Takes::kFloating);
}
void tanh(const Tensor& input, const Tensor& out) {
  unary(UnaryOp::kTanh, input, out, "tanh", Takes::kFloating);
}
void sigmoid(const Tensor& input, const Tensor& out) {
  unary(UnaryOp::kSigmoid, input, out, "sigmoid", Takes::kFloating);
}
void pow(const Tensor& base, double exponent, const Tensor& out) {
  unary(UnaryOp::kPow, base, out, "pow", Takes::kFloating, exponent);
}
void gelu(const Tensor& input, bool tanh_form, const Tensor& out) {
  unary(tanh_form ? UnaryOp::kGeluTanh : UnaryOp::kGelu, input, out, "gelu", Takes::kFloating);
}

void relu_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  binary(BinaryOp::kReluBackward, grad, output, out, "relu_backward", Takes::kFloating);
}
void tanh_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  binary(BinaryOp::kTanhBackward, grad, output, out, "tanh_backward", Takes::kFloating);
}
void sigmoid_backward(const Tensor& grad, const Tensor& output, const Tensor& out) {
  binary(BinaryOp::kSigmoidBackward, grad, output, out, "sigmoid_backward", Takes::kFloating);
}
void gelu_backward(const Tensor& grad, const Tensor& input, bool tanh_form, const Tensor& out) {
  binary(tanh_form ? BinaryOp::kGeluTanhBackward : BinaryOp::kGeluBackward, grad, input, out,
         "gelu_backward", Takes::kFloating);
}

}  // namespace dl::kernels::cuda
