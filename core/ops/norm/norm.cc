#include "core/ops/norm/norm.h"

#include <limits>

#include "core/base/option.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/layout.h"
#include "core/ops/norm/batch_norm_plan.h"
#include "core/ops/norm/norm_gradient.h"

namespace dl {
namespace {

// The dtype of the statistics that are saved for backward.
// Inputs: input, weight, bias. Saved: input, statistics, weight if defined.
struct NormBackward : Node {
  // `format`: of the kernel's tensors; `in_torch`: of the input's gradient.
  template <typename Run>
  void run(BackwardContext& context, MemoryFormat format, MemoryFormat in_torch, const Run& run) {
    const Tensor grad = laid_out(context.grad_output(), format);
    const Tensor& x = saved(0);
    const Tensor weight = has_weight ? saved(2) : Tensor();
    const Tensor dx = context.needs(0)
                          ? empty(x.sizes(), format, {.dtype = x.dtype(), .device = x.device()})
                          : Tensor();
    const auto of_channels = [&](std::size_t input) {
      return context.needs(input)
                 ? empty(channel_shape,
                         {.dtype = input == 1 ? weight.dtype() : bias_dtype, .device = x.device()})
                 : Tensor();
    };
    const Tensor dweight = of_channels(1);
    const Tensor dbias = of_channels(2);
    run(grad, x, weight, saved(1), dx, dweight, dbias);
    if (context.needs(1)) context.give(1, dweight);
    if (context.needs(2)) context.give(2, dbias);
    if (context.needs(0)) {
      context.give(0,
                   format == MemoryFormat::kChannelsLast ? with_visible_format(dx, in_torch) : dx);
    }
  }
  // Gives recorded gradients. `shape`: that in which `how` sees the input.
  void run_recorded_as(BackwardContext& context, const Shape& shape, const Shape& weight_shape,
                       const Normalised& how) {
    const Tensor& x = saved(0);
    const DType wide = stats_dtype(x);
    const Tensor weight = has_weight ? saved(2).to(wide).reshape(weight_shape) : Tensor();
    const NormGradients to = norm_gradients(how, x.to(wide).reshape(shape),
                                            context.grad_output().to(wide).reshape(shape), weight);
    if (context.needs(1)) context.give(1, to.weight.reshape(channel_shape).to(saved(2).dtype()));
    if (context.needs(2)) context.give(2, to.bias.reshape(channel_shape).to(bias_dtype));
    if (context.needs(0)) context.give(0, to.input.reshape(x.sizes()).to(x.dtype()));
  }
  // Saves tensors in a node that was just made.
  void keep(const Tensor& x, const Tensor& stats, const Tensor& weight, const Tensor& bias) {
    save_input(0, x);
    save_constant(stats);
    has_weight = weight.defined();
    if (has_weight) save_input(1, weight);
    if (has_weight || bias.defined()) channel_shape = (has_weight ? weight : bias).sizes();
    if (bias.defined()) bias_dtype = bias.dtype();
  }
  bool has_weight = false;
  Shape channel_shape;
  DType bias_dtype = DType::kF32;
};

struct RowNormBackward final : NormBackward {
  std::string_view name() const noexcept override { return args.op; }
  std::string grad_fn_name() const override {
    if (!args.centered) return half ? "ToCopyBackward0" : "MulBackward0";
    return args.op == "group_norm" ? "NativeGroupNormBackward0" : "NativeLayerNormBackward0";
  }
  void backward(BackwardContext& context) override {
    constexpr auto kRows = MemoryFormat::kContiguous;
    run(context, kRows, kRows, [this](const Tensor& grad, const auto&... others) {
      call<Op::kRowNormBackward>(grad.device(), args, grad, others...);
    });
  }
  void backward_recorded(BackwardContext& context) override {
    run_recorded_as(context, {args.rows / args.groups, args.groups, args.channels, args.inner},
                    {1, args.groups, args.channels, 1},
                    {.over = {2, 3}, .shared = {0, 3}, .centered = args.centered, .eps = args.eps});
  }
  RowNormArgs args;
  bool half = false;  // float16 or bfloat16
};

struct BatchNormBackward final : NormBackward {
  std::string_view name() const noexcept override { return "batch_norm"; }
  std::string grad_fn_name() const override { return "NativeBatchNormBackward0"; }
  void backward(BackwardContext& context) override {
    run(context, format, in_torch,
        [this](const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& stats,
               const auto&... results) {
          call<Op::kBatchNormBackward>(grad.device(), args, grad, x, weight, stats, Tensor(),
                                       results...);
        });
  }
  void backward_recorded(BackwardContext& context) override {
    const Shape of_channels{1, args.channels, 1};
    Normalised how{.over = {0, 2}, .shared = {0, 2}, .eps = args.eps};
    if (!args.batch_statistics) {
      how.mean = saved(1).select(0, 0).reshape(of_channels);
      how.rstd = saved(1).select(0, 1).reshape(of_channels);
    }
    run_recorded_as(context, {args.samples, args.channels, args.positions}, of_channels, how);
  }
  BatchNormArgs args;
  MemoryFormat format = MemoryFormat::kContiguous;
  MemoryFormat in_torch = MemoryFormat::kContiguous;
};

void check_input(const Tensor& input, std::string_view op) {
  check_defined(input, op, "the input");
  check_floating(input, op);
}

void check_of_channels(const Tensor& tensor, const Tensor& input, const Shape& shape,
                       std::string_view op, std::string_view what) {
  if (!tensor.defined()) return;
  check_same_device(input, tensor, op);
  DL_CHECK(tensor.sizes() == shape, kShape, "{}: the {} has shape {}, wanted {}", op, what,
           tensor.sizes().str(), shape.str());
  DL_CHECK(tensor.dtype() == input.dtype() || tensor.dtype() == stats_dtype(input), kDType,
           "{}: the {} is {}, wanted {}", op, what, name_of(tensor.dtype()),
           name_of(input.dtype()));
}

// Arguments are checked.
Tensor row_norm(const RowNormArgs& args, const Tensor& input, const Tensor& weight,
                const Tensor& bias, MemoryFormat format = MemoryFormat::kContiguous) {
  const Tensor x = laid_out(input);
  const Tensor w = laid_out_or_none(weight);
  Tensor y = empty(x.sizes(), format, {.dtype = x.dtype(), .device = x.device()});
  const Tensor stats = empty({args.rows, 3}, {.dtype = stats_dtype(x), .device = x.device()});
  through_row_major(y, [&](const Tensor& out) {
    call<Op::kRowNorm>(x.device(), args, x, w, laid_out_or_none(bias), out, stats);
  });
  if (auto* node = record<RowNormBackward>(y, input, weight, bias)) {
    node->args = args;
    node->half = x.dtype() != stats_dtype(x);
    node->keep(x, stats, w, bias);
  }
  return y;
}

// The number of elements of the last dimensions `shape` of the input.
std::int64_t check_last_dims(const Tensor& input, const Shape& shape, std::string_view op) {
  const std::size_t rank = input.sizes().size();
  bool fits = !shape.empty() && shape.size() <= rank;
  std::int64_t width = 1;
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = shape[d] == input.sizes()[rank - shape.size() + d];
    width *= shape[d];
  }
  DL_CHECK(fits, kShape, "{}: the input has shape {}, wanted last dimensions {}", op,
           input.sizes().str(), shape.str());
  return width;
}

RowNormArgs args_of_last_dims(const Tensor& input, const Shape& shape, std::string_view op) {
  const std::int64_t width = check_last_dims(input, shape, op);
  return {.op = op, .rows = width == 0 ? 0 : input.numel() / width, .channels = width};
}

// The machine epsilon of the dtype in which a norm is computed.
double epsilon_of(const Tensor& input) {
  return stats_dtype(input) == DType::kF64
             ? std::numeric_limits<double>::epsilon()
             : static_cast<double>(std::numeric_limits<float>::epsilon());
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Shape& shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  if (const auto cast = autocast_of<Op::kRowNorm>(input)) {
    return layer_norm(cast(input), shape, cast(weight), cast(bias), eps);
  }
  check_input(input, "layer_norm");
  require_not_negative("layer_norm", "eps", eps);
  RowNormArgs args = args_of_last_dims(input, shape, "layer_norm");
  args.eps = eps;
  check_of_channels(weight, input, shape, "layer_norm", "weight");
  check_of_channels(bias, input, shape, "layer_norm", "bias");
  return row_norm(args, input, weight, bias);
}

Tensor rms_norm(const Tensor& input, const Shape& shape, const Tensor& weight,
                std::optional<double> eps) {
  if (const auto cast = autocast_of<Op::kRowNorm>(input)) {
    return rms_norm(cast(input), shape, cast(weight), eps);
  }
  check_input(input, "rms_norm");
  require_not_negative("rms_norm", "eps", eps.value_or(0));
  RowNormArgs args = args_of_last_dims(input, shape, "rms_norm");
  args.eps = eps.value_or(epsilon_of(input));
  args.centered = false;
  check_of_channels(weight, input, shape, "rms_norm", "weight");
  return row_norm(args, input, weight, {}, torch_format(input));
}

Tensor group_norm(const Tensor& input, std::int64_t groups, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (const auto cast = autocast_of<Op::kRowNorm>(input)) {
    return group_norm(cast(input), groups, cast(weight), cast(bias), eps);
  }
  check_input(input, "group_norm");
  require_not_negative("group_norm", "eps", eps);
  DL_CHECK(input.dim() >= 2, kShape, "group_norm: the input has shape {}, wanted [N, C, d...]",
           input.sizes().str());
  DL_CHECK(groups > 0 && input.size(1) % groups == 0, kInvalidArgument,
           "group_norm: the input {} has {} channels, wanted a multiple of the {} groups",
           input.sizes().str(), input.size(1), groups);
  check_of_channels(weight, input, {input.size(1)}, "group_norm", "weight");
  check_of_channels(bias, input, {input.size(1)}, "group_norm", "bias");
  RowNormArgs args{.op = "group_norm",
                   .rows = input.numel() == 0 ? 0 : input.size(0) * groups,
                   .groups = groups,
                   .channels = input.size(1) / groups,
                   .eps = eps};
  for (std::int64_t d = 2; d < input.dim(); ++d) args.inner *= input.size(d);
  return row_norm(args, input, weight, bias, torch_format(input));
}

BatchNormPlan plan_batch_norm(const Tensor& input, const Tensor& running_mean,
                              const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                              const BatchNormOptions& options) {
  check_input(input, "batch_norm");
  require_finite("batch_norm", "momentum", options.momentum);
  require_not_negative("batch_norm", "eps", options.eps);
  DL_CHECK(!options.training || options.eps > 0, kInvalidArgument,
           "batch_norm: eps is {}, wanted more than 0 to train", options.eps);
  DL_CHECK(input.dim() >= 2, kShape,
           "batch_norm: the input has shape {}, wanted [N, C] or [N, C, d...]",
           input.sizes().str());
  const Shape channels{input.size(1)};
  check_of_channels(running_mean, input, channels, "batch_norm", "running_mean");
  check_of_channels(running_var, input, channels, "batch_norm", "running_var");
  check_of_channels(weight, input, channels, "batch_norm", "weight");
  check_of_channels(bias, input, channels, "batch_norm", "bias");
  DL_CHECK(options.training || (running_mean.defined() && running_var.defined()), kInvalidArgument,
           "batch_norm: without training, running_mean and running_var must be given");
  DL_CHECK(
      !running_mean.defined() ||
          (running_var.defined() && running_mean.is_contiguous() && running_var.is_contiguous()),
      kInvalidArgument, "batch_norm: running_mean and running_var must both be contiguous tensors");
  BatchNormPlan plan{.args = {.samples = input.size(0),
                              .channels = input.size(1),
                              .batch_statistics = options.training,
                              .momentum = options.momentum,
                              .eps = options.eps}};
  for (std::int64_t d = 2; d < input.dim(); ++d) plan.args.positions *= input.size(d);
  // PyTorch uses another code path for weights with gaps.
  const bool dense_weights =
      (!weight.defined() || weight.is_contiguous()) && (!bias.defined() || bias.is_contiguous());
  const auto format_of = [&](const Strides& strides) {
    const bool whole = dense_weights && is_channels_last(input.sizes(), strides) &&
                       !is_contiguous(input.sizes(), strides);
    return whole ? MemoryFormat::kChannelsLast : suggested_format(input.sizes(), strides);
  };
  plan.in_torch = format_of(input.strides());
  const StoredOrder stored(input);
  const bool image = plan.in_torch == MemoryFormat::kChannelsLast ||
                     (stored->is_channels_last() && !stored->is_contiguous());
  plan.args.channels_last = image || plan.args.positions == 1;
  if (image) plan.format = MemoryFormat::kChannelsLast;
  return plan;
}

void check_enough_to_train(std::int64_t values_a_channel, const Tensor& input) {
  DL_CHECK(input.size(1) == 0 || values_a_channel != 1, kShape,
           "batch_norm: the input has shape {}, wanted more than one value a channel to train on",
           input.sizes().str());
}

BatchNormInputs::BatchNormInputs(const BatchNormPlan& plan, const Tensor& input, const Tensor& mean,
                                 const Tensor& variance, const BatchNormOptions& options)
    : x(laid_out(input, plan.format)) {
  if (options.training) check_enough_to_train(plan.args.samples * plan.args.positions, input);
  stats = empty({3, plan.args.channels}, {.dtype = stats_dtype(x), .device = x.device()});
  moves = options.training && mean.defined() && input.numel() > 0;
  if (!moves && options.training) return;
  running_mean = mean;
  running_var = variance;
}

void BatchNormInputs::bump() const {
  if (!moves) return;
  running_mean.bump_version();
  running_var.bump_version();
}

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, const BatchNormOptions& options) {
  const BatchNormPlan plan =
      plan_batch_norm(input, running_mean, running_var, weight, bias, options);
  const BatchNormInputs in(plan, input, running_mean, running_var, options);
  const Tensor w = laid_out_or_none(weight);
  const Tensor memory = plan.empty_result(in.x);
  call<Op::kBatchNorm>(in.x.device(), plan.args, in.x, w, laid_out_or_none(bias), in.running_mean,
                       in.running_var, memory, in.stats);
  Tensor y = plan.result_over(memory);
  in.bump();
  if (auto* node = record<BatchNormBackward>(y, input, weight, bias)) {
    node->args = plan.args;
    node->format = plan.format;
    node->in_torch = plan.in_torch;
    node->keep(in.x, in.stats, w, bias);
  }
  return y;
}

}  // namespace dl
