// Element-wise operations: nodes of the same meaning, or the formula in several nodes.
#include <cmath>
#include <numbers>

#include "core/elementwise/list.h"
#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {
namespace {

using kernels::BinaryFn;
using kernels::Parameters;
using kernels::TernaryFn;
using kernels::UnaryFn;

// The node of the same name and meaning, without attributes; empty: there is none.
std::string_view node_of(UnaryFn fn) {
  switch (fn) {
    case UnaryFn::kNeg:
      return "Neg";
    case UnaryFn::kRelu:
      return "Relu";
    case UnaryFn::kSigmoid:
      return "Sigmoid";
    case UnaryFn::kTanh:
      return "Tanh";
    case UnaryFn::kSoftsign:
      return "Softsign";
    case UnaryFn::kHardswish:
      return "HardSwish";
    case UnaryFn::kExp:
      return "Exp";
    case UnaryFn::kLog:
      return "Log";
    case UnaryFn::kSqrt:
      return "Sqrt";
    case UnaryFn::kReciprocal:
      return "Reciprocal";
    case UnaryFn::kSin:
      return "Sin";
    case UnaryFn::kCos:
      return "Cos";
    case UnaryFn::kErf:
      return "Erf";
    case UnaryFn::kAbs:
      return "Abs";
    case UnaryFn::kFloor:
      return "Floor";
    case UnaryFn::kCeil:
      return "Ceil";
    case UnaryFn::kRound:
      return "Round";
    case UnaryFn::kTan:
      return "Tan";
    case UnaryFn::kAsin:
      return "Asin";
    case UnaryFn::kAcos:
      return "Acos";
    case UnaryFn::kAtan:
      return "Atan";
    case UnaryFn::kSinh:
      return "Sinh";
    case UnaryFn::kCosh:
      return "Cosh";
    case UnaryFn::kAsinh:
      return "Asinh";
    case UnaryFn::kAcosh:
      return "Acosh";
    case UnaryFn::kAtanh:
      return "Atanh";
    default:
      return "";
  }
}

// Numbers that no result of the dtype can have are left out.
Value clip(Builder& b, const Value& x, double low, double high) {
  const auto bound = [&](double number) {
    return std::isinf(number) ? std::string() : b.number(number, x.dtype).name;
  };
  return b.add("Clip", {x.name, bound(low), bound(high)}, x.sizes, x.dtype);
}

Value truncated(Builder& b, const Value& x) {
  return b.binary("Mul", b.unary("Sign", x), b.unary("Floor", b.unary("Abs", x)));
}

Value sign(Builder& b, const Value& x) {
  if (x.dtype != DType::kBool) return b.unary("Sign", x);
  return x;
}

Value softplus(Builder& b, const Value& x, double beta, double threshold) {
  const Value z = beta == 1 ? x : b.binary("Mul", x, beta);
  const Value soft = b.unary("Softplus", z);
  const Value y = beta == 1 ? soft : b.binary("Div", soft, beta);
  return b.where(b.compare("Greater", z, b.number(threshold, x.dtype)), x, y);
}

Value gelu(Builder& b, const Value& x) {
  const Value erf = b.unary("Erf", b.binary("Mul", x, std::numbers::sqrt2 / 2));
  return b.binary("Mul", b.binary("Mul", x, b.binary("Add", erf, 1)), 0.5);
}

Value gelu_tanh(Builder& b, const Value& x) {
  const Value cube = b.binary("Mul", b.binary("Mul", x, x), x);
  const Value inner = b.binary("Mul", b.binary("Add", x, b.binary("Mul", cube, 0.044715)),
                               std::sqrt(2 / std::numbers::pi));
  const Value shifted = b.binary("Add", b.unary("Tanh", inner), 1);
  return b.binary("Mul", b.binary("Mul", x, shifted), 0.5);
}

bool is_whole(DType dtype) {
  return !is_floating(dtype);
}

// What `fn` gives for numbers of one dtype; the result may have another dtype than the step's.
Value binary_value(Translation& step, BinaryFn fn, const Value& a, const Value& b,
                   const Parameters& parameters) {
  Builder& to = step.builder;
  // Comparisons and bits of bool are those of numbers, except for nodes that take bool only.
  const auto number = [&](const Value& x) {
    return x.dtype == DType::kBool ? to.cast(x, DType::kI32) : x;
  };
  const auto truth = [&](const Value& x) { return to.cast(x, DType::kBool); };
  switch (fn) {
    case BinaryFn::kAdd:
      return to.binary("Add", a, b);
    case BinaryFn::kAddScaled:
      return to.binary("Add", a, to.binary("Mul", b, to.number(parameters.a, b.dtype)));
    case BinaryFn::kSub:
      return to.binary("Sub", a, b);
    case BinaryFn::kMul:
      return to.binary("Mul", a, b);
    case BinaryFn::kDiv:
      return to.binary("Div", a, b);
    case BinaryFn::kMinimum:
      return to.binary("Min", number(a), number(b));
    case BinaryFn::kMaximum:
      return to.binary("Max", number(a), number(b));
    case BinaryFn::kEq:
      return to.compare("Equal", a, b);
    case BinaryFn::kNe: {
      const Value equal = to.compare("Equal", a, b);
      return to.unary("Not", equal);
    }
    case BinaryFn::kLt:
      return to.compare("Less", number(a), number(b));
    case BinaryFn::kLe:
      return to.compare("LessOrEqual", number(a), number(b));
    case BinaryFn::kPower:
      return to.binary("Pow", a, b);
    case BinaryFn::kHypot:
      return to.unary("Sqrt", to.binary("Add", to.binary("Mul", a, a), to.binary("Mul", b, b)));
    case BinaryFn::kLogaddexp: {
      // Equal infinities are 0 apart, not NaN.
      const Value difference =
          to.where(to.compare("Equal", a, b), to.number(0.0, a.dtype), to.binary("Sub", a, b));
      const Value apart = to.unary("Neg", to.unary("Abs", difference));
      return to.binary("Add", to.binary("Max", a, b),
                       to.unary("Log", to.binary("Add", to.unary("Exp", apart), 1)));
    }
    case BinaryFn::kXlogy: {
      const Value zero = to.number(0.0, a.dtype);
      const Value product = to.binary("Mul", a, to.unary("Log", b));
      return to.where(to.compare("Equal", a, zero), zero, product);
    }
    case BinaryFn::kHeaviside: {
      const Value zero = to.number(0.0, a.dtype);
      const Value above = to.cast(to.compare("Greater", a, zero), a.dtype);
      return to.where(to.compare("Equal", a, zero), b, above);
    }
    case BinaryFn::kFmod:
      return to.add("Mod", {a.name, b.name}, broadcast_shapes(a.sizes, b.sizes, "Mod"), a.dtype,
                    {{"fmod", std::int64_t{1}}});
    case BinaryFn::kRemainder: {
      if (is_whole(a.dtype)) return to.binary("Mod", a, b);
      const Value times = to.unary("Floor", to.binary("Div", a, b));
      return to.binary("Sub", a, to.binary("Mul", times, b));
    }
    case BinaryFn::kFloorDivide:
      if (!is_whole(a.dtype)) return to.unary("Floor", to.binary("Div", a, b));
      // Div cuts off. What Mod leaves has the sign of b.
      return to.binary("Div", to.binary("Sub", a, to.binary("Mod", a, b)), b);
    case BinaryFn::kBitwiseAnd:
    case BinaryFn::kLogicalAnd:
      if (fn == BinaryFn::kLogicalAnd || a.dtype == DType::kBool) {
        return to.compare("And", truth(a), truth(b));
      }
      break;
    case BinaryFn::kBitwiseOr:
    case BinaryFn::kLogicalOr:
      if (fn == BinaryFn::kLogicalOr || a.dtype == DType::kBool) {
        return to.compare("Or", truth(a), truth(b));
      }
      break;
    case BinaryFn::kBitwiseXor:
    case BinaryFn::kLogicalXor:
      if (fn == BinaryFn::kLogicalXor || a.dtype == DType::kBool) {
        return to.compare("Xor", truth(a), truth(b));
      }
      break;
    default:
      break;
  }
  step.refuse(facts(fn).name);
}

}  // namespace

Value unary_value(Builder& b, UnaryFn fn, const Value& x, const Parameters& parameters) {
  if (const std::string_view node = node_of(fn); !node.empty()) return b.unary(node, x);
  const double p = parameters.a;
  const double q = parameters.b;
  switch (fn) {
    case UnaryFn::kSilu:
      return b.binary("Mul", x, b.unary("Sigmoid", x));
    case UnaryFn::kMish:
      return b.binary("Mul", x, b.unary("Tanh", b.unary("Softplus", x)));
    case UnaryFn::kLogSigmoid:
      return b.unary("Neg", b.unary("Softplus", b.unary("Neg", x)));
    case UnaryFn::kRelu6:
      return clip(b, x, 0, 6);
    case UnaryFn::kHardsigmoid:
      return b.unary("HardSigmoid", x, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
    case UnaryFn::kLeakyRelu:
      return b.unary("LeakyRelu", x, {{"alpha", p}});
    case UnaryFn::kElu:
      return b.unary("Elu", x, {{"alpha", p}});
    case UnaryFn::kSoftplus:
      return softplus(b, x, p, q);
    case UnaryFn::kSelu:
      return b.unary("Selu", x);
    case UnaryFn::kCelu:
      if (x.dtype == DType::kF32) return b.unary("Celu", x, {{"alpha", p}});
      return b.binary("Mul", b.unary("Elu", b.binary("Div", x, p), {{"alpha", 1.0}}), p);
    case UnaryFn::kTanhshrink:
      return b.binary("Sub", x, b.unary("Tanh", x));
    case UnaryFn::kSoftshrink:
      return b.unary("Shrink", x, {{"bias", p}, {"lambd", p}});
    case UnaryFn::kHardshrink:
      return b.unary("Shrink", x, {{"bias", 0.0}, {"lambd", p}});
    case UnaryFn::kThreshold:
      return b.where(b.compare("LessOrEqual", x, b.number(p, x.dtype)), b.number(q, x.dtype), x);
    case UnaryFn::kHardtanh:
    case UnaryFn::kClamp:
      return clip(b, x, p, q);
    case UnaryFn::kGelu:
      return gelu(b, x);
    case UnaryFn::kGeluTanh:
      return gelu_tanh(b, x);
    case UnaryFn::kSquare:
      return b.binary("Mul", x, x);
    case UnaryFn::kRsqrt:
      return b.unary("Reciprocal", b.unary("Sqrt", x));
    case UnaryFn::kExpm1:
      return b.binary("Sub", b.unary("Exp", x), 1);
    case UnaryFn::kLog1p:
      return b.unary("Log", b.binary("Add", x, 1));
    case UnaryFn::kLog2:
      return b.binary("Div", b.unary("Log", x), std::numbers::ln2);
    case UnaryFn::kLog10:
      return b.binary("Div", b.unary("Log", x), std::numbers::ln10);
    case UnaryFn::kSign:
      return sign(b, x);
    case UnaryFn::kTrunc:
      return truncated(b, x);
    case UnaryFn::kFrac:
      return b.binary("Sub", x, truncated(b, x));
    case UnaryFn::kErfc:
      return b.binary("Sub", b.number(1, x.dtype), b.unary("Erf", x));
    case UnaryFn::kExp2:
      return b.unary("Exp", b.binary("Mul", x, std::numbers::ln2));
    case UnaryFn::kDeg2rad:
      return b.binary("Mul", x, std::numbers::pi / 180);
    case UnaryFn::kRad2deg:
      return b.binary("Mul", x, 180 / std::numbers::pi);
    case UnaryFn::kPow:
      return b.binary("Pow", x, p);
    default:
      throw_error(ErrorKind::kNotImplemented, "opset 17 of ONNX has no operation for '{}'",
                  facts(fn).name);
  }
}

void write_unary(Translation& step) {
  const auto fn = step.argument<UnaryFn>();
  // onnxruntime has no Relu of int64.
  if (fn == UnaryFn::kRelu && is_whole(step.operand(0).dtype)) {
    const Value x = step.in(0);
    return step.out(1, step.builder.binary("Max", x, step.builder.number(0, x.dtype)));
  }
  const bool is_rounding = fn == UnaryFn::kFloor || fn == UnaryFn::kCeil || fn == UnaryFn::kRound ||
                           fn == UnaryFn::kTrunc;
  if (is_rounding && is_whole(step.operand(0).dtype)) return step.out(1, step.in(0));
  step.out(1, unary_value(step.builder, fn, step.in(0), step.argument<Parameters>()));
}

void write_binary(Translation& step) {
  // A number may be float32 beside a tensor of float16.
  Value a = step.narrow_in(0);
  Value b = step.narrow_in(1);
  if (a.dtype != b.dtype) {
    Value& number = a.sizes.empty() ? a : b;
    number = step.builder.cast(number, a.sizes.empty() ? b.dtype : a.dtype);
  }
  const Value result =
      binary_value(step, step.argument<BinaryFn>(), a, b, step.argument<Parameters>());
  step.out(2, step.builder.expand(result, step.operand(2).sizes));
}

void write_ternary(Translation& step) {
  Builder& b = step.builder;
  const auto fn = step.argument<TernaryFn>();
  const Parameters& parameters = step.argument<Parameters>();
  const Value x = step.narrow_in(0);
  const Value y = step.narrow_in(1);
  const Value z = step.narrow_in(2);
  const auto scaled = [&](const Value& value) {
    if (parameters.a == 1) return value;
    return b.binary("Mul", value, b.number(parameters.a, value.dtype));
  };
  Value result;
  switch (fn) {
    case TernaryFn::kWhere:
      result = b.where(b.cast(x, DType::kBool), b.cast(y, step.operand(3).dtype),
                       b.cast(z, step.operand(3).dtype));
      break;
    case TernaryFn::kLerp:
      result = b.binary("Add", x, b.binary("Mul", z, b.binary("Sub", y, x)));
      break;
    case TernaryFn::kAddcmul:
      result = b.binary("Add", x, scaled(b.binary("Mul", y, z)));
      break;
    case TernaryFn::kAddcdiv:
      result = b.binary("Add", x, scaled(b.binary("Div", y, z)));
      break;
    case TernaryFn::kBetween:
      result = b.binary("Min", b.binary("Max", x, y), z);
      break;
  }
  step.out(3, b.expand(result, step.operand(3).sizes));
}

void write_copy(Translation& step) {
  step.out(1, step.in(0));
}

void write_fill(Translation& step) {
  const tape::Operand& operand = step.operand(0);
  step.out(0, step.builder.filled(operand.sizes, step.argument<Scalar>(), operand.dtype));
}

// Dropout by a mask: the result is input * scale if the mask is true, else 0.
void write_mask_scale(Translation& step) {
  Builder& b = step.builder;
  const Value x = step.in(0);
  const auto scale = step.argument<double>();
  const Value scaled = scale == 1 ? x : b.binary("Mul", x, scale);
  step.out(2, b.where(step.in(1), scaled, b.number(0, x.dtype)));
}

}  // namespace dl::onnx
