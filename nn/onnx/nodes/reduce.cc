// Reductions, sorting and cumulative sums.
#include <vector>

#include "core/reductions/list.h"
#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {
namespace {

using kernels::ReduceFn;

// How a step reduces: the axes, and the shape that keeps them with the size 1.
struct Reduction {
  Builder& b;
  std::vector<std::int64_t> axes{};
  Shape kept{};
  double count = 1;  // the elements of which one becomes

  Value run(std::string_view op, const Value& x) {
    if (axes.empty()) return x;
    const std::int64_t keep = 1;
    if (op == "ReduceSum") {
      return b.add(op, {x.name, b.sizes(Dims(axes)).name}, kept, x.dtype, {{"keepdims", keep}});
    }
    return b.add(op, {x.name}, kept, x.dtype, {{"axes", axes}, {"keepdims", keep}});
  }
};

Reduction reduction_of(Builder& b, const Value& x, const Shape& kept) {
  Reduction reduction{.b = b, .kept = kept};
  for (std::size_t d = 0; d < kept.size(); ++d) {
    if (x.sizes[d] == kept[d]) continue;
    reduction.axes.push_back(static_cast<std::int64_t>(d));
    reduction.count *= static_cast<double>(x.sizes[d]);
  }
  return reduction;
}

Value variance(Reduction& by, const Value& x, double correction) {
  Builder& b = by.b;
  const Value away = b.binary("Sub", x, by.run("ReduceMean", x));
  const Value squares = b.binary("Mul", away, away);
  if (correction == 0) return by.run("ReduceMean", squares);
  const Value sum = by.run("ReduceSum", squares);
  if (by.axes.size() < 2) return b.binary("Div", sum, by.count - correction);
  // A product of sizes is no linear function of them.
  Dims sizes;
  for (const std::int64_t axis : by.axes) sizes.push_back(x.sizes[static_cast<std::size_t>(axis)]);
  const Value count =
      b.add("ReduceProd", {b.sizes(sizes).name}, {}, DType::kI64, {{"keepdims", std::int64_t{0}}});
  return b.binary("Div", sum, b.binary("Sub", b.cast(count, x.dtype), correction));
}

// The norm of each single element, if nothing is reduced, is its magnitude.
Value norm(Reduction& by, std::string_view op, const Value& x) {
  return by.axes.empty() ? by.b.unary("Abs", x) : by.run(op, x);
}

Value is_not_zero(Builder& b, const Value& x, DType as) {
  return b.cast(x.dtype == DType::kBool ? x : b.cast(x, DType::kBool), as);
}

Value largest(Builder& b, const Value& x, Reduction& by, std::string_view op) {
  if (x.dtype != DType::kBool) return by.run(op, x);
  return b.cast(by.run(op, b.cast(x, DType::kI32)), DType::kBool);
}

Value reduced(Translation& step, ReduceFn fn, const Value& given, Reduction& by, double p) {
  Builder& b = step.builder;
  // Sums of integers are int64.
  const bool is_sum = fn == ReduceFn::kSum || fn == ReduceFn::kProd || fn == ReduceFn::kNansum;
  const Value x = is_sum && !is_floating(given.dtype) ? b.cast(given, DType::kI64) : given;
  switch (fn) {
    case ReduceFn::kSum:
      return by.run("ReduceSum", x);
    case ReduceFn::kMean:
      return by.run("ReduceMean", x);
    case ReduceFn::kProd:
      return by.run("ReduceProd", x);
    case ReduceFn::kNansum: {
      if (!is_floating(x.dtype)) return by.run("ReduceSum", x);
      const Value is_nan = b.add("IsNaN", {x.name}, x.sizes, DType::kBool);
      return by.run("ReduceSum", b.where(is_nan, b.number(0, x.dtype), x));
    }
    case ReduceFn::kAmax:
      return largest(b, x, by, "ReduceMax");
    case ReduceFn::kAmin:
      return largest(b, x, by, "ReduceMin");
    case ReduceFn::kAny:
      return b.cast(by.run("ReduceMax", is_not_zero(b, x, DType::kI32)), DType::kBool);
    case ReduceFn::kAll:
      return b.cast(by.run("ReduceMin", is_not_zero(b, x, DType::kI32)), DType::kBool);
    case ReduceFn::kCountNonzero:
      return by.run("ReduceSum", is_not_zero(b, x, DType::kI64));
    case ReduceFn::kLogsumexp:
      return by.run("ReduceLogSumExp", x);
    case ReduceFn::kVar:
      return variance(by, x, p);
    case ReduceFn::kStd:
      return b.unary("Sqrt", variance(by, x, p));
    case ReduceFn::kNorm2:
      return norm(by, "ReduceL2", x);
    case ReduceFn::kNorm1:
      return norm(by, "ReduceL1", x);
    case ReduceFn::kNorm0:
      return by.run("ReduceSum", is_not_zero(b, x, x.dtype));
    case ReduceFn::kNormLargest:
      return by.run("ReduceMax", b.unary("Abs", x));
    case ReduceFn::kNormSmallest:
      return by.run("ReduceMin", b.unary("Abs", x));
    case ReduceFn::kNormP: {
      const Value powers = b.binary("Pow", b.unary("Abs", x), p);
      return b.binary("Pow", by.run("ReduceSum", powers), 1 / p);
    }
  }
  step.refuse(facts(fn).name);
}

// The first elements in order along an axis, all of them for a sort.
void write_first(Translation& step, bool largest) {
  Builder& b = step.builder;
  const auto dim = step.argument<std::int64_t>();
  const Value x = step.in(0);
  const Shape& out = step.operand(1).sizes;
  const Value count = b.sizes({out[static_cast<std::size_t>(dim)]});
  const std::vector<Value> results = b.add_all(
      "TopK", {x.name, count.name}, {{out, x.dtype}, {out, DType::kI64}},
      {{"axis", dim}, {"largest", std::int64_t{largest ? 1 : 0}}, {"sorted", std::int64_t{1}}});
  step.out(1, results[0]);
  step.out(2, results[1]);
}

}  // namespace

void write_reduce(Translation& step) {
  const Value x = step.in(0);
  Reduction by = reduction_of(step.builder, x, step.operand(1).sizes);
  step.out(1, reduced(step, step.argument<ReduceFn>(), x, by, step.argument<double>()));
}

void write_extreme(Translation& step) {
  Builder& b = step.builder;
  const bool is_max = step.argument<kernels::ExtremeFn>() == kernels::ExtremeFn::kMax;
  const auto dim = step.argument<std::int64_t>();
  const Value x = step.in(0);
  const Shape& kept = step.operand(1).sizes;
  Reduction by = reduction_of(b, x, kept);
  step.out(1, by.run(is_max ? "ReduceMax" : "ReduceMin", x));
  step.out(2, b.add(is_max ? "ArgMax" : "ArgMin", {x.name}, kept, DType::kI64,
                    {{"axis", dim}, {"keepdims", std::int64_t{1}}}));
}

void write_cumsum(Translation& step) {
  Builder& b = step.builder;
  const tape::Operand& out = step.operand(1);
  const Value x = b.cast(step.in(0), out.dtype);
  const Value dim = b.number(step.argument<std::int64_t>(), DType::kI64);
  const std::int64_t reverse = step.argument<bool>() ? 1 : 0;
  step.out(1, b.add("CumSum", {x.name, dim.name}, out.sizes, out.dtype, {{"reverse", reverse}}));
}

void write_sort(Translation& step) {
  write_first(step, step.argument<bool>());
}

void write_topk(Translation& step) {
  write_first(step, step.argument<bool>());
}

}  // namespace dl::onnx
