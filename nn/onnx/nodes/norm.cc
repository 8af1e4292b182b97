// Normalisation and softmax.
#include <limits>

#include "core/args/norm_args.h"
#include "core/tensor/factories.h"
#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {
namespace {

Value mean_of(Builder& b, const Value& x, const std::vector<std::int64_t>& axes) {
  Shape sizes = x.sizes;
  for (const std::int64_t axis : axes) sizes[static_cast<std::size_t>(axis)] = 1;
  return b.add("ReduceMean", {x.name}, sizes, x.dtype,
               {{"axes", axes}, {"keepdims", std::int64_t{1}}});
}

// (x - mean) / sqrt(variance + eps); without the mean, x / sqrt(mean square + eps).
Value normalised(Builder& b, const Value& x, const std::vector<std::int64_t>& axes, double eps,
                 bool centered) {
  const Value away = centered ? b.binary("Sub", x, mean_of(b, x, axes)) : x;
  const Value variance = mean_of(b, b.binary("Mul", away, away), axes);
  return b.binary("Div", away, b.unary("Sqrt", b.binary("Add", variance, eps)));
}

// Operand i, or `instead` for each channel; in the dtype of x.
Value per_channel(Translation& step, std::size_t i, std::int64_t channels, double instead,
                  DType dtype) {
  if (step.has(i)) return step.builder.cast(step.in(i), dtype);
  return step.builder.constant(full({channels}, instead, {.dtype = dtype}));
}

Value scaled(Translation& step, Value x, const Shape& channels) {
  Builder& b = step.builder;
  if (step.has(1)) x = b.binary("Mul", x, b.cast(step.in_as(1, channels), x.dtype));
  if (step.has(2)) x = b.binary("Add", x, b.cast(step.in_as(2, channels), x.dtype));
  return x;
}

}  // namespace

void write_batch_norm(Translation& step) {
  constexpr std::size_t kOut = 5;
  Builder& b = step.builder;
  const auto& args = step.argument<BatchNormArgs>();
  const Value x = step.in(0);
  if (!args.batch_statistics) {
    const auto channel = [&](std::size_t i, double instead) {
      return per_channel(step, i, args.channels, instead, x.dtype).name;
    };
    const Value y = b.add("BatchNormalization",
                          {x.name, channel(1, 1), channel(2, 0), channel(3, 0), channel(4, 1)},
                          x.sizes, x.dtype, {{"epsilon", args.eps}});
    return step.out(kOut, y);
  }
  DL_CHECK(!step.has(3), kNotImplemented,
           "it changes running statistics, which a file of ONNX cannot; call eval()");
  const Shape form{args.samples, args.channels, args.positions};
  const Value y = normalised(b, b.reshape(x, form), {0, 2}, args.eps, true);
  step.out(kOut, scaled(step, y, {1, args.channels, 1}));
}

void write_row_norm(Translation& step) {
  constexpr std::size_t kOut = 3;
  Builder& b = step.builder;
  const auto& args = step.argument<RowNormArgs>();
  const Value x = step.in(0);
  const bool is_layer_norm = args.centered && args.groups == 1 && args.inner == 1 && step.has(1);
  if (is_layer_norm && args.op == "layer_norm") {
    const auto last = static_cast<std::int64_t>(step.operand(1).sizes.size());
    const std::string bias = step.has(2) ? b.cast(step.in(2), x.dtype).name : "";
    const Value weight = b.cast(step.in(1), x.dtype);
    return step.out(kOut, b.add("LayerNormalization", {x.name, weight.name, bias}, x.sizes, x.dtype,
                                {{"axis", -last}, {"epsilon", args.eps}}));
  }
  const Value rows = b.reshape(x, {args.rows / args.groups, args.groups, args.width()});
  const Value y = normalised(b, rows, {2}, args.eps, args.centered);
  const Shape form{args.rows / args.groups, args.groups, args.channels, args.inner};
  step.out(kOut, scaled(step, b.reshape(y, form), {1, args.groups, args.channels, 1}));
}

void write_softmax(Translation& step) {
  const Value x = step.in(0);
  step.out(1, step.builder.unary("Softmax", x, {{"axis", step.argument<std::int64_t>()}}));
}

void write_log_softmax(Translation& step) {
  const Value x = step.in(0);
  step.out(1, step.builder.unary("LogSoftmax", x, {{"axis", step.argument<std::int64_t>()}}));
}

// After a softmax: 0 in rows whose inputs are all -infinity.
void write_without_empty_rows(Translation& step) {
  Builder& b = step.builder;
  const auto dim = step.argument<std::int64_t>();
  const Value x = step.in(0);
  Shape sizes = x.sizes;
  sizes[static_cast<std::size_t>(dim)] = 1;
  const Value most =
      b.add("ReduceMax", {x.name}, sizes, x.dtype,
            {{"axes", std::vector<std::int64_t>{dim}}, {"keepdims", std::int64_t{1}}});
  const Value nothing = b.number(-std::numeric_limits<double>::infinity(), x.dtype);
  step.out(1, b.where(b.compare("Equal", most, nothing), b.number(0, x.dtype), step.in(1)));
}

}  // namespace dl::onnx
