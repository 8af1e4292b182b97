// Matrix products and linear layers.
#include "core/args/linear_args.h"
#include "nn/onnx/nodes/translation.h"

namespace dl::onnx {

// A product of two matrices, or of batches of them.
void write_matmul(Translation& step) {
  Builder& b = step.builder;
  const Value left = step.narrow_in(0);
  const Value right = step.narrow_in(1);
  const tape::Operand& out = step.operand(2);
  // MatMul broadcasts all dimensions but the last two; a repeated matrix has them in full.
  const auto matrices = [&](const Value& narrow, std::size_t i) {
    const std::size_t rank = narrow.sizes.size();
    const Shape& full = step.operand(i).sizes;
    const bool is_whole =
        narrow.sizes[rank - 1] == full[rank - 1] && narrow.sizes[rank - 2] == full[rank - 2];
    return is_whole ? narrow : b.expand(narrow, full);
  };
  const Value product =
      b.add("MatMul", {matrices(left, 0).name, matrices(right, 1).name}, out.sizes, left.dtype);
  const bool* const accumulate = step.find<bool>();
  const bool is_added = accumulate != nullptr && *accumulate;
  step.out(2, is_added ? b.binary("Add", step.in(2), product) : product);
}

void write_linear(Translation& step) {
  constexpr std::size_t kOut = 4;
  Builder& b = step.builder;
  const Value x = step.in(0);
  const Value weight = step.in(1);
  const std::string bias = step.has(2) ? step.in(2).name : "";
  Value y = b.add("Gemm", {x.name, weight.name, bias}, step.operand(kOut).sizes, x.dtype,
                  {{"transB", std::int64_t{1}}});
  const auto activation = step.argument<kernels::Activation>();
  if (activation != kernels::Activation::kNone) {
    y = unary_value(b, kernels::unary_of(activation), y, {});
  }
  step.out(kOut, y);
}

}  // namespace dl::onnx
