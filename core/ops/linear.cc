#include "core/ops/linear.h"

#include "core/ops/autocast.h"
#include "core/ops/common.h"
#include "core/ops/layout.h"

namespace dl {
namespace {

void check_operands(const Tensor& a, const Tensor& b, std::string_view op, std::string_view first,
                    std::string_view second) {
  check_defined(a, op, first);
  check_defined(b, op, second);
  check_same_device(a, b, op);
  check_floating(a, op);
  DL_CHECK(a.dtype() == b.dtype(), kDType, "{}: {} is {}, but {} is {}", op, first,
           name_of(a.dtype()), second, name_of(b.dtype()));
}

void check_linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  check_operands(input, weight, "linear", "the input", "the weight");
  DL_CHECK(weight.dim() == 2, kShape, "linear: the weight has shape {}, wanted [out, in]",
           weight.sizes().str());
  DL_CHECK(input.dim() >= 1 && input.size(-1) == weight.size(1), kShape,
           "linear: the input has shape {}, wanted [..., {}] for a weight of shape {}",
           input.sizes().str(), weight.size(1), weight.sizes().str());
  if (!bias.defined()) return;
  check_operands(input, bias, "linear", "the input", "the bias");
  DL_CHECK(bias.dim() == 1 && bias.size(0) == weight.size(0), kShape,
           "linear: the bias has shape {}, wanted [{}]", bias.sizes().str(), weight.size(0));
}

// Computes a gradient in the leaf's memory where there is one, else in memory of its own:
// compute(memory, accumulate).
template <typename Compute>
void give_computed(BackwardContext& context, std::size_t input, const Shape& shape,
                   const Compute& compute) {
  const GradTarget target = context.target(input);
  if (target.memory.defined() && target.memory.is_contiguous()) {
    compute(target.memory, target.accumulate);
    context.gave_in_target(input);
    return;
  }
  const Tensor& output = context.grad_output();
  const Tensor grad = empty(shape, {.dtype = output.dtype(), .device = output.device()});
  compute(grad, false);
  context.give(input, grad);
}

Tensor transposed(const Tensor& matrix) {
  return as_strided(matrix, {matrix.size(1), matrix.size(0)}, {matrix.stride(1), matrix.stride(0)},
                    matrix.storage_offset());
}

// Inputs: input, weight, bias. Saved: input as rows, weight, and with ReLU the output.
struct LinearBackward final : Node {
  std::string_view name() const noexcept override { return "linear"; }

  void backward(BackwardContext& context) override {
    Tensor grad = rows_of(laid_out(context.grad_output()));
    const Device device = grad.device();
    if (relu) {
      const Tensor before = empty_like(grad);
      call<Op::kReluBackward>(device, grad, rows_of(saved(2)), before);
      grad = before;
    }
    const Tensor& rows = saved(0);
    const Tensor& weight = saved(1);
    // The leaves first: what is final early is sent early.
    if (context.needs(2)) {
      give_computed(context, 2, {weight.size(0)}, [&](const Tensor& to, bool accumulate) {
        call<Op::kLinearBackwardBias>(device, grad, accumulate, to);
      });
    }
    if (context.needs(1)) {
      give_computed(context, 1, weight.sizes(), [&](const Tensor& to, bool accumulate) {
        call<Op::kMatmul>(device, transposed(grad), rows, accumulate, to);
      });
    }
    if (context.needs(0)) {
      const Tensor dinput = empty(input_shape, {.dtype = grad.dtype(), .device = device});
      call<Op::kMatmul>(device, grad, weight, false, rows_of(dinput));
      context.give(0, dinput);
    }
  }

  bool relu = false;
  Shape input_shape;
};

// One of the last two dimensions has stride 1 and the other steps over whole rows, as kernels want
// it.
Tensor as_matrices(const Tensor& tensor) {
  const std::int64_t rows = tensor.size(-2);
  const std::int64_t columns = tensor.size(-1);
  const bool by_rows = (tensor.stride(-1) == 1 || columns == 1) && tensor.stride(-2) >= columns;
  const bool by_columns = (tensor.stride(-2) == 1 || rows == 1) && tensor.stride(-1) >= rows;
  return by_rows || by_columns ? tensor : laid_out(tensor);
}

// The matrix at an index of the leading dimensions `batch`, to which the tensor's are broadcast.
Tensor matrix_at(const Tensor& tensor, const Shape& batch, std::int64_t index) {
  const auto lead = static_cast<std::size_t>(tensor.dim()) - 2;
  const Dims sizes(std::span<const std::int64_t>(tensor.sizes()).first(lead));
  const Dims strides(std::span<const std::int64_t>(tensor.strides()).first(lead));
  const Strides steps = broadcast_strides(sizes, strides, batch);
  std::int64_t offset = tensor.storage_offset();
  for (std::size_t d = batch.size(); d-- > 0; index /= batch[d]) {
    offset += index % batch[d] * steps[d];
  }
  return as_strided(tensor, {tensor.size(-2), tensor.size(-1)},
                    {tensor.stride(-2), tensor.stride(-1)}, offset);
}

Shape batch_of(const Tensor& tensor) {
  return Shape(std::span<const std::int64_t>(tensor.sizes())
                   .first(static_cast<std::size_t>(tensor.dim()) - 2));
}

// [..., n, k] x [..., k, m]; not recorded.
Tensor product(const Tensor& a, const Tensor& b) {
  const Tensor left = as_matrices(a);
  const Tensor right = as_matrices(b);
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), "matmul");
  Shape shape = batch;
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  Tensor result = empty(shape, {.dtype = a.dtype(), .device = a.device()});
  const std::int64_t count = element_count(batch, "matmul");
  for (std::int64_t i = 0; i < count; ++i) {
    call<Op::kMatmul>(a.device(), matrix_at(left, batch, i), matrix_at(right, batch, i), false,
                      matrix_at(result, batch, i));
  }
  return result;
}

// Inputs and saved: a, b.
struct MatmulBackward final : Node {
  std::string_view name() const noexcept override { return "matmul"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output());
    const Tensor& a = saved(0);
    const Tensor& b = saved(1);
    if (context.needs(0)) context.give(0, sum_to(product(grad, b.transpose(-2, -1)), a.sizes()));
    if (context.needs(1)) context.give(1, sum_to(product(a.transpose(-2, -1), grad), b.sizes()));
  }
};

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const LinearArgs& args) {
  if (const auto cast = autocast_of<Op::kLinear>(input)) {
    return linear(cast(input), cast(weight), cast(bias), args);
  }
  check_linear(input, weight, bias);
  const Tensor rows = rows_of(laid_out(input));
  const Tensor w = laid_out(weight);
  Shape shape = input.sizes();
  shape[shape.size() - 1] = weight.size(0);
  Tensor output = empty(shape, {.dtype = input.dtype(), .device = input.device()});
  call<Op::kLinear>(input.device(), rows, w, bias.defined() ? laid_out(bias) : bias, args.relu,
                    rows_of(output));
  if (auto* node = record<LinearBackward>(output, input, weight, bias)) {
    node->relu = args.relu;
    node->input_shape = input.sizes();
    node->save(rows);
    node->save(w);
    if (args.relu) node->save_output(output);
  }
  return output;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast_of<Op::kMatmul>(a)) return matmul(cast(a), cast(b));
  check_operands(a, b, "matmul", "the first operand", "the second operand");
  DL_CHECK(a.dim() >= 1 && b.dim() >= 1, kShape,
           "matmul: the operands have shapes {} and {}, wanted at least one dimension each",
           a.sizes().str(), b.sizes().str());
  if (a.dim() == 1) return matmul(a.unsqueeze(0), b).squeeze(b.dim() == 1 ? 0 : -2);
  if (b.dim() == 1) return matmul(a, b.unsqueeze(1)).squeeze(-1);
  DL_CHECK(a.size(-1) == b.size(-2), kShape,
           "matmul: shapes {} and {} do not fit: {} columns, but {} rows", a.sizes().str(),
           b.sizes().str(), a.size(-1), b.size(-2));
  Tensor output = product(a, b);
  if (auto* node = record<MatmulBackward>(output, a, b)) {
    node->save(a);
    node->save(b);
  }
  return output;
}

}  // namespace dl
