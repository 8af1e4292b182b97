// Selecting and replacing elements by index.
#include <optional>

#include "core/args/index_args.h"
#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {
namespace {

// gather() and scatter() along a dimension: the tensor whose elements the index names, of which
// the step has those at index 0.
tape::Operand along(const tape::Operand& first, const Indexed& by) {
  tape::Operand whole = first;
  const auto d = static_cast<std::size_t>(by.dim);
  whole.numel = whole.numel / whole.sizes[d] * by.size;
  whole.sizes[d] = by.size;
  whole.strides[d] = by.step;
  return whole;
}

// The distance of each element from the first; size 1 in dimensions that all begin there.
Value distances(Builder& b, const tape::Operand& operand) {
  const std::size_t rank = operand.sizes.size();
  std::optional<Value> sum;
  for (std::size_t d = 0; d < rank; ++d) {
    if (operand.strides[d] == 0 || operand.sizes[d] == 1) continue;
    const Value count = b.reshape(b.sizes({operand.sizes[d]}), {});
    const Value zero = b.number(0, DType::kI64);
    const Value one = b.number(1, DType::kI64);
    const Value numbers =
        b.add("Range", {zero.name, count.name, one.name}, {operand.sizes[d]}, DType::kI64);
    const Value along = b.binary("Mul", numbers, b.sizes({operand.strides[d]}));
    Shape line(rank, 1);
    line[d] = operand.sizes[d];
    const Value placed = b.reshape(along, line);
    sum = sum ? b.binary("Add", *sum, placed) : placed;
  }
  return sum ? *sum : b.number(0, DType::kI64);
}

// Addresses by index: the places of the elements in `whole`, a tensor of one dimension.
Value places_in(Translation& step, const tape::Operand& whole, std::size_t base,
                std::size_t index) {
  Builder& b = step.builder;
  const tape::Operand& operand = step.operand(base);
  const auto bytes = static_cast<std::int64_t>(size_of(operand.dtype));
  const Value start = b.sizes({(operand.first - whole.first) / bytes});
  const Value moves = b.binary("Add", step.narrow_in(index), distances(b, operand));
  return b.expand(b.binary("Add", moves, start), operand.sizes);
}

// Whether the index counts elements of memory, as an index that add_offsets() makes does.
bool is_address(const Indexed& by) {
  return by.is_checked && by.step == 1;
}

}  // namespace

void write_index_select(Translation& step) {
  Builder& b = step.builder;
  const Value x = step.in(0);
  step.out(2, b.add("Gather", {x.name, step.in(1).name}, step.operand(2).sizes, x.dtype,
                    {{"axis", step.argument<std::int64_t>()}}));
}

void write_add_offsets(Translation& step) {
  Builder& b = step.builder;
  const auto& by = step.argument<Indexed>();
  Value index = step.in(0);
  if (by.from_end) {
    const Value below = b.compare("Less", index, b.number(0, DType::kI64));
    index = b.where(below, b.binary("Add", index, b.sizes({by.size})), index);
  }
  const Value moves = b.binary("Mul", index, b.sizes({by.step}));
  step.out(1, b.binary("Add", step.in(1), b.reshape(moves, step.operand(1).sizes)));
}

void write_gather(Translation& step) {
  Builder& b = step.builder;
  const auto& by = step.argument<Indexed>();
  const tape::Operand& out = step.operand(2);
  if (is_address(by)) {
    const tape::Operand whole = step.memory().around(step.operand(0));
    const Value places = places_in(step, whole, 0, 1);
    const Value flat = step.memory().read(whole);
    return step.out(2, b.add("Gather", {flat.name, places.name}, out.sizes, out.dtype,
                             {{"axis", std::int64_t{0}}}));
  }
  const Value x = step.memory().read(along(step.operand(0), by));
  step.out(2, b.add("GatherElements", {x.name, step.in(1).name}, out.sizes, out.dtype,
                    {{"axis", by.dim}}));
}

void write_scatter(Translation& step) {
  Builder& b = step.builder;
  const auto& by = step.argument<Indexed>();
  const auto how = step.argument<ScatterMode>();
  if (how == ScatterMode::kKeepLarger || how == ScatterMode::kKeepSmaller) step.refuse(by.op);
  const std::string reduction = how == ScatterMode::kAdd        ? "add"
                                : how == ScatterMode::kMultiply ? "mul"
                                                                : "none";
  const auto scatter = [&](const tape::Operand& whole, std::int64_t axis, const Value& index,
                           const Value& source) {
    const Value x = step.memory().read(whole);
    step.memory().write(
        whole, b.add("ScatterElements", {x.name, index.name, source.name}, whole.sizes, x.dtype,
                     {{"axis", axis}, {"reduction", reduction}}));
  };
  const Value source = step.in(2);
  if (!is_address(by)) return scatter(along(step.operand(0), by), by.dim, step.in(1), source);
  const tape::Operand whole = step.memory().around(step.operand(0));
  const Shape flat{step.operand(0).numel};
  const Value places = b.reshape(places_in(step, whole, 0, 1), flat);
  scatter(whole, 0, places, b.reshape(source, flat));
}

}  // namespace dl::onnx
