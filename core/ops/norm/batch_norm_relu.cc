// Batch normalisation, a residual and a ReLU in one pass.
#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/norm/batch_norm_plan.h"
#include "core/ops/norm/norm.h"

namespace dl {
namespace {

// Inputs: input, weight, bias, residual.
struct BatchNormReluBackward final : Node {
  std::string_view name() const noexcept override { return "batch_norm_relu"; }
  std::string grad_fn_name() const override { return "ReluBackward0"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output(), plan.format);
    const Tensor y = laid_out(saved(0), plan.format);
    const Tensor& x = saved(1);
    const Tensor weight = has_weight ? saved(3) : Tensor();
    const auto of_batch = [&](std::size_t input) {
      return context.needs(input) ? plan.empty_result(x) : Tensor();
    };
    const auto of_channels = [&](std::size_t input, DType dtype) {
      return context.needs(input)
                 ? empty({plan.args.channels}, {.dtype = dtype, .device = x.device()})
                 : Tensor();
    };
    const Tensor dx = of_batch(0);
    const Tensor dresidual = of_batch(3);
    const Tensor dweight = of_channels(1, has_weight ? weight.dtype() : x.dtype());
    const Tensor dbias = of_channels(2, bias_dtype);
    call<Op::kBatchNormReluBackward>(x.device(), plan.args, grad, y, x, weight, saved(2), dresidual,
                                     dx, dweight, dbias);
    if (context.needs(1)) context.give(1, dweight);
    if (context.needs(2)) context.give(2, dbias);
    if (context.needs(0)) context.give(0, plan.result_over(dx));
    if (context.needs(3)) context.give(3, plan.result_over(dresidual));
  }
  BatchNormPlan plan;
  bool has_weight = false;
  DType bias_dtype = DType::kF32;
};

bool is_fused(const Tensor& input, const Tensor& residual) {
  return input.defined() && input.is_cuda() &&
         (!residual.defined() ||
          (residual.device() == input.device() && residual.dtype() == input.dtype() &&
           residual.sizes() == input.sizes()));
}

}  // namespace

Tensor batch_norm_relu(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias, const BatchNormOptions& options,
                       const Tensor& residual) {
  if (!is_fused(input, residual)) {
    const Tensor y = batch_norm(input, running_mean, running_var, weight, bias, options);
    return relu(residual.defined() ? add(y, residual) : y);
  }
  const BatchNormPlan plan =
      plan_batch_norm(input, running_mean, running_var, weight, bias, options);
  const BatchNormInputs in(plan, input, running_mean, running_var, options);
  const Tensor w = laid_out_or_none(weight);
  const Tensor added = residual.defined() ? laid_out(residual, plan.format) : residual;
  const Tensor memory = plan.empty_result(in.x);
  call<Op::kBatchNormRelu>(in.x.device(), plan.args, in.x, w, laid_out_or_none(bias),
                           in.running_mean, in.running_var, added, memory, in.stats);
  Tensor y = plan.result_over(memory);
  in.bump();
  if (auto* node = record<BatchNormReluBackward>(y, input, weight, bias, residual)) {
    node->plan = plan;
    for (const Tensor& tensor : {y, in.x, in.stats}) node->save(tensor);
    node->has_weight = w.defined();
    if (w.defined()) node->save(w);
    if (bias.defined()) node->bias_dtype = bias.dtype();
  }
  return y;
}

}  // namespace dl
