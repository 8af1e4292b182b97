#include "core/ops/linear/linear.h"

#include <utility>

#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/layout.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

void check_alike(const Tensor& a, const Tensor& b, std::string_view op, std::string_view first,
                 std::string_view second) {
  check_defined(a, op, first);
  check_defined(b, op, second);
  check_same_device(a, b, op);
  DL_CHECK(a.dtype() == b.dtype(), kDType, "{}: {} is {}, but {} is {}", op, first,
           name_of(a.dtype()), second, name_of(b.dtype()));
}

void check_operands(const Tensor& a, const Tensor& b, std::string_view op, std::string_view first,
                    std::string_view second) {
  check_alike(a, b, op, first, second);
  check_floating(a, op);
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

// The memory for a gradient: the leaf's memory if it has some, else a new tensor; undefined if no
// gradient is needed.
class Destination {
 public:
  Destination(BackwardContext& context, std::size_t input, const Shape& shape)
      : context_(context), input_(input) {
    if (!context.needs(input)) return;
    const GradTarget target = context.target(input);
    if (target.memory.defined() && target.memory.is_contiguous()) {
      memory_ = target.memory;
      accumulate_ = target.accumulate;
      is_leafs_ = true;
      return;
    }
    const Tensor& output = context.grad_output();
    memory_ = empty(shape, {.dtype = output.dtype(), .device = output.device()});
  }

  const Tensor& memory() const noexcept { return memory_; }
  bool accumulate() const noexcept { return accumulate_; }
  // The gradient was computed in that memory.
  void give() const {
    if (is_leafs_) {
      context_.gave_in_target(input_);
    } else if (memory_.defined()) {
      context_.give(input_, memory_);
    }
  }

 private:
  BackwardContext& context_;
  std::size_t input_;
  Tensor memory_;
  bool accumulate_ = false;
  bool is_leafs_ = false;
};

// Inputs: input, weight, bias. Saved: input as rows, weight, what the activation's gradient is
// computed from (the output's rows of a ReLU, the input of GELU), and a ReLU's mask.
//
// If the input was made by another linear() with an activation and has no other user, this node
// fuses that activation's gradient into the input's, and the other node skips it.
struct LinearBackward final : Node {
  std::string_view name() const noexcept override { return "linear"; }

  void backward(BackwardContext& context) override {
    const Tensor& gradient = context.grad_output();
    const bool slope_applied = gradient.is_same(std::exchange(with_slope, Tensor()));
    Tensor grad = rows_of(laid_out(gradient));
    const Device device = grad.device();
    if (activation != Activation::kNone && !slope_applied) {
      const Tensor before = empty_like(grad);
      call<Op::kUnaryBackward>(device, unary_of(activation), grad, seen(), Parameters{}, before);
      grad = before;
    }
    // Compute the leaves first: a gradient that is final early is all-reduced early.
    if (context.needs(1) || context.needs(2)) {
      const Destination to_weight(context, 1, weight_shape);
      const Destination to_bias(context, 2, {weight_shape[0]});
      call<Op::kLinearBackwardWeight>(device, grad, saved(0), to_weight.accumulate(),
                                      to_weight.memory(), to_bias.accumulate(), to_bias.memory());
      to_bias.give();
      to_weight.give();
    }
    if (context.needs(0)) {
      const Tensor dinput = empty(input_shape, {.dtype = grad.dtype(), .device = device});
      auto* const maker = dynamic_cast<LinearBackward*>(context.only_producer(0));
      const bool with_activation = maker != nullptr && maker->activation != Activation::kNone;
      call<Op::kLinearBackwardInput>(device, grad, saved(1),
                                     with_activation ? maker->activation : Activation::kNone,
                                     with_activation ? maker->seen() : Tensor(),
                                     with_activation ? maker->mask() : Tensor(), rows_of(dinput));
      if (with_activation) maker->with_slope = dinput;
      context.give(0, dinput);
    }
  }

  void backward_recorded(BackwardContext& context) override {
    Tensor grad = context.grad_output();
    if (activation != Activation::kNone) {
      grad = unary_gradient(unary_of(activation), grad, seen_with_history(grad.sizes()), {});
    }
    const std::int64_t width = weight_shape[0];
    if (context.needs(1) || context.needs(2)) {
      const Tensor rows = grad.reshape({saved(0).size(0), width});
      if (context.needs(1)) {
        const Tensor input = detail::with_history(saved(0).view(input_shape), edges()[0]);
        context.give(1, matmul(rows.t(), input.reshape(saved(0).sizes())));
      }
      if (context.needs(2)) context.give(2, sum(rows, {0}));
    }
    if (context.needs(0)) context.give(0, matmul(grad, saved(1)));
  }

  // What the activation's gradient is computed from. The input of GELU was made by the product
  // without the activation.
  Tensor seen_with_history(const Shape& shape) const {
    if (activation == Activation::kRelu) return saved(2);
    const Ref<LinearBackward> product = make_ref<LinearBackward>();
    product->reserve_edges(edges().size());
    for (const Edge& edge : edges()) product->add_edge(edge);
    product->input_shape = input_shape;
    product->weight_shape = weight_shape;
    product->save_constant(saved(0));
    product->save_input(1, saved(1));
    return detail::with_history(saved(2).view(shape), {product, 0});
  }

  Tensor seen() const { return rows_of(saved(2)); }
  const Tensor& mask() const { return saved(3); }

  Activation activation = Activation::kNone;
  Shape input_shape;
  Shape weight_shape;
  // The gradient of the output, already multiplied by the activation's slope.
  Tensor with_slope;
};

// PyTorch's name of the node: the last operation of which it composes linear().
const char* grad_fn_of_linear(const Tensor& input, const Tensor& bias, Activation activation) {
  if (activation == Activation::kRelu) return "ReluBackward0";
  if (activation == Activation::kGeluTanh) return "GeluBackward0";
  if (input.dim() == 2) return bias.defined() ? "AddmmBackward0" : "MmBackward0";
  return input.dim() == 1 && !bias.defined() ? "SqueezeBackward4" : "UnsafeViewBackward0";
}

// Memory for what the kernel saves for the activation's backward, if anything.
Tensor room_to_keep(Activation activation, const Tensor& rows) {
  if (activation == Activation::kGeluTanh) return empty_like(rows);
  const bool has_masks = rows.device().type == DeviceType::kCUDA && rows.dtype() != DType::kF64;
  if (activation != Activation::kRelu || !has_masks) return {};
  return empty({rows.size(0), relu_mask_row_bytes(rows.size(1))},
               {.dtype = DType::kU8, .device = rows.device()});
}

// A tensor of which one of the last two dimensions has stride 1 and the other steps over whole
// rows, as kernels require.
Tensor as_matrices(const Tensor& tensor) {
  const std::int64_t rows = tensor.size(-2);
  const std::int64_t columns = tensor.size(-1);
  const StoredOrder x(tensor);
  const bool by_rows = (x->stride(-1) == 1 || columns == 1) && x->stride(-2) >= columns;
  const bool by_columns = (x->stride(-2) == 1 || rows == 1) && x->stride(-1) >= rows;
  return by_rows || by_columns ? *x : laid_out(tensor);
}

// The matrix at an index of the leading dimensions; these are broadcast to `batch`.
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

// matrix_at() for all indices of the last of these dimensions.
Tensor matrices_at(const Tensor& tensor, const Shape& batch, std::int64_t index) {
  const Tensor first = matrix_at(tensor, batch, index);
  const auto lead = static_cast<std::size_t>(tensor.dim()) - 2;
  const bool repeated = lead == 0 || tensor.sizes()[lead - 1] == 1;
  return as_strided(first, {batch.back(), first.size(0), first.size(1)},
                    {repeated ? 0 : tensor.strides()[lead - 1], first.stride(0), first.stride(1)},
                    first.storage_offset());
}

Shape batch_of(const Tensor& tensor) {
  return Shape(std::span<const std::int64_t>(tensor.sizes())
                   .first(static_cast<std::size_t>(tensor.dim()) - 2));
}

// [..., n, k] x [..., k, m]; not recorded.
Tensor product(const Tensor& a, const Tensor& b) {
  const Tensor left = as_matrices(a);
  const Tensor right = as_matrices(b);
  if (b.dim() == 2 && a.dim() > 2 && left.is_contiguous() && left.size(-1) > 0) {
    const Tensor rows = rows_of(left);
    Tensor result = product(rows, right);
    Shape shape = a.sizes();
    shape[shape.size() - 1] = b.size(-1);
    return as_strided(result, shape, contiguous_strides(shape), 0);
  }
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), "matmul");
  Shape shape = batch;
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-1));
  Tensor result = empty(shape, {.dtype = a.dtype(), .device = a.device()});
  const std::int64_t count = element_count(batch, "matmul");
  if (count > 1) {
    // The kernel computes the last dimension of the batch; the others are looped over here.
    const std::int64_t last = batch.back();
    for (std::int64_t i = 0; i < count; i += last) {
      call<Op::kMatmulBatch>(a.device(), matrices_at(left, batch, i), matrices_at(right, batch, i),
                             matrices_at(result, batch, i));
    }
    return result;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    call<Op::kMatmul>(a.device(), matrix_at(left, batch, i), matrix_at(right, batch, i), false,
                      matrix_at(result, batch, i));
  }
  return result;
}

// Inputs: a, b. Saved: the same, if the other's gradient is wanted.
struct MatmulBackward final : Node {
  std::string_view name() const noexcept override { return "matmul"; }
  void backward(BackwardContext& context) override {
    give(context, laid_out(context.grad_output()), product);
  }
  void backward_recorded(BackwardContext& context) override {
    give(context, context.grad_output(), matmul);
  }
  void give(BackwardContext& context, const Tensor& grad,
            Tensor (*times)(const Tensor&, const Tensor&)) const {
    if (context.needs(0)) {
      context.give(0, sum_to(times(grad, saved(1).transpose(-2, -1)), a_shape));
    }
    if (context.needs(1)) {
      context.give(1, sum_to(times(saved(0).transpose(-2, -1), grad), b_shape));
    }
  }
  Shape a_shape;
  Shape b_shape;
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
  const Tensor output_rows = rows_of(output);
  const bool recorded = is_recorded(input, weight, bias);
  const Tensor kept = recorded ? room_to_keep(args.activation, output_rows) : Tensor();
  const bool was_kept = call<Op::kLinear>(input.device(), rows, w, laid_out_or_none(bias),
                                          args.activation, kept, output_rows);
  if (auto* node = record<LinearBackward>(output, input, weight, bias)) {
    node->activation = args.activation;
    node->set_grad_fn_name(grad_fn_of_linear(input, bias, args.activation));
    node->input_shape = input.sizes();
    node->weight_shape = weight.sizes();
    node->save_constant(needs_grad(weight) || needs_grad(bias) ? rows : Tensor());
    node->save_input(1, needs_grad(input) ? w : Tensor());
    if (args.activation == Activation::kRelu) {
      node->save_output(output);
      node->save(was_kept ? kept : Tensor());
    } else if (args.activation == Activation::kGeluTanh) {
      node->save(kept);
      node->save(Tensor());
    }
  }
  return output;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (const auto cast = autocast_of<Op::kMatmul>(a)) return matmul(cast(a), cast(b));
  check_alike(a, b, "matmul", "the first operand", "the second operand");
  if (!is_floating(a.dtype())) {
    if (a.dtype() == DType::kBool) refuse_dtype("matmul", a.dtype(), "a number");
    if (a.dtype() != DType::kI64) {
      return matmul(a.to(DType::kI64), b.to(DType::kI64)).to(a.dtype());
    }
  }
  DL_CHECK(a.dim() >= 1 && b.dim() >= 1, kShape,
           "matmul: the operands have shapes {} and {}, wanted at least one dimension each",
           a.sizes().str(), b.sizes().str());
  if (a.dim() == 1) {
    return detail::finish_composed(matmul(a.unsqueeze(0), b).squeeze(b.dim() == 1 ? 0 : -2), a,
                                   b.dim() == 1 ? "DotBackward0" : "SqueezeBackward4");
  }
  if (b.dim() == 1) {
    return detail::finish_composed(matmul(a, b.unsqueeze(1)).squeeze(-1), a,
                                   a.dim() == 2 ? "MvBackward0" : "UnsafeViewBackward0");
  }
  DL_CHECK(a.size(-1) == b.size(-2), kShape,
           "matmul: shapes {} and {} do not fit: {} columns, but {} rows", a.sizes().str(),
           b.sizes().str(), a.size(-1), b.size(-2));
  Tensor output = product(a, b);
  if (auto* node = record<MatmulBackward>(output, a, b)) {
    node->set_grad_fn_name(a.dim() == 2 && b.dim() == 2 ? "MmBackward0" : "UnsafeViewBackward0");
    node->a_shape = a.sizes();
    node->b_shape = b.sizes();
    node->save(needs_grad(b) ? a : Tensor());
    node->save(needs_grad(a) ? b : Tensor());
  }
  return output;
}

}  // namespace dl
