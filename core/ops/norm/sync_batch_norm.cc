#include "core/ops/norm/sync_batch_norm.h"

#include <string>

#include "core/autograd/grad_mode.h"
#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/layout.h"
#include "core/ops/logic/logic.h"
#include "core/ops/norm/batch_norm_plan.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"

namespace dl {
namespace {

// Numbers that ranks exchange are float64.
TensorOptions wide_on(Device device) {
  return {.dtype = DType::kF64, .device = device};
}

std::int64_t values_a_channel(const BatchNormArgs& args) {
  return args.samples * args.positions;
}

// Two numbers for each channel, and the number of values a channel: [2 * channels + 1].
Tensor with_count(const BatchNormArgs& args, const Tensor& numbers) {
  return cat({numbers.view({-1}), full({1}, values_a_channel(args), wide_on(numbers.device()))});
}

// Inputs: input, weight, bias. Saved: input, statistics, weight if defined.
struct SyncBatchNormBackward final : Node {
  std::string_view name() const noexcept override { return "sync_batch_norm"; }
  std::string grad_fn_name() const override { return "SyncBatchNormBackward"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output(), plan.format);
    const Tensor& x = saved(0);
    const Tensor weight = has_weight ? saved(2) : Tensor();
    const Tensor sums = empty({2, plan.args.channels}, wide_on(x.device()));
    call<Op::kBatchNormBackward>(x.device(), plan.args, grad, x, weight, saved(1), Tensor(),
                                 Tensor(), sums[1], sums[0]);
    if (context.needs(1)) context.give(1, sums[1].to(weight.dtype()));
    if (context.needs(2)) context.give(2, sums[0].to(bias_dtype));
    if (!context.needs(0)) return;
    // The gradients of weight and bias are this rank's part; the input's gradient needs the sums
    // over all ranks.
    const Tensor all = with_count(plan.args, sums);
    ranks->add_up(all);
    const Tensor dx = plan.empty_result(x);
    call<Op::kBatchNormBackward>(x.device(), plan.args, grad, x, weight, saved(1), all, dx,
                                 Tensor(), Tensor());
    context.give(0, plan.result_over(dx));
  }
  BatchNormPlan plan;
  Ref<BatchRanks> ranks;
  bool has_weight = false;
  DType bias_dtype = DType::kF32;
};

// The statistics of each channel over all ranks, on the input's device.
struct WholeBatch {
  Tensor count;     // [1] float64, values a channel
  Tensor mean;      // [C] float64
  Tensor variance;  // [C] float64, with divisor count
};

// Merges the ranks' moments (Chan, Golub and LeVeque 1983). Each rank computes the same from the
// same numbers, so that all get the same bits.
WholeBatch whole_batch(const BatchNormArgs& args, const Tensor& x, BatchRanks& ranks) {
  const std::int64_t channels = args.channels;
  const Tensor moments = empty({2, channels}, wide_on(x.device()));
  call<Op::kBatchMoments>(x.device(), args, x, moments);
  const Tensor all = ranks.gather(with_count(args, moments));
  const Tensor counts = all.narrow(1, 2 * channels, 1);
  // A rank without values has no mean.
  const Tensor means = where(gt(counts, 0), all.narrow(1, 0, channels), 0.0);
  const Tensor squares = all.narrow(1, channels, channels);
  const Tensor count = sum(counts, {0});
  const Tensor divisor = clamp(count, 1.0);
  const Tensor mean = sum(counts * means, {0}) / divisor;
  const Tensor apart = means - mean;
  return {.count = count,
          .mean = mean,
          .variance = (sum(squares, {0}) + sum(counts * apart * apart, {0})) / divisor};
}

void move_running(const Tensor& running, const Tensor& value, double momentum) {
  const Tensor moved = running.to(DType::kF64) * (1 - momentum) + value * momentum;
  Tensor(running).copy_(moved);
}

}  // namespace

Tensor sync_batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias, const Ref<BatchRanks>& ranks,
                       const BatchNormOptions& options) {
  DL_CHECK(options.training, kInvalidArgument,
           "sync_batch_norm: it only trains; in evaluation call batch_norm, which needs no other "
           "rank");
  BatchNormPlan plan = plan_batch_norm(input, running_mean, running_var, weight, bias, options);
  const Tensor x = laid_out(input, plan.format);
  const Tensor w = laid_out_or_none(weight);
  std::int64_t values = values_a_channel(plan.args);
  WholeBatch whole;
  {
    const NoGradGuard no_grad;
    whole = whole_batch(plan.args, x, *ranks);
    // Two values here are enough for all, and nothing has to be read from a device.
    if (values < 2) values = static_cast<std::int64_t>(whole.count.item<double>());
    check_enough_to_train(values, input);
    if (running_mean.defined() && values > 0) {
      move_running(running_mean, whole.mean, options.momentum);
      move_running(running_var, whole.variance * (whole.count / (whole.count - 1)),
                   options.momentum);
    }
  }
  const Tensor memory = plan.empty_result(x);
  const Tensor stats =
      empty({3, plan.args.channels}, {.dtype = stats_dtype(x), .device = x.device()});
  BatchNormArgs by_given = plan.args;
  by_given.batch_statistics = false;
  call<Op::kBatchNorm>(x.device(), by_given, x, w, laid_out_or_none(bias), whole.mean,
                       whole.variance, memory, stats);
  Tensor y = plan.result_over(memory);
  if (auto* node = record<SyncBatchNormBackward>(y, input, weight, bias)) {
    node->plan = plan;
    node->ranks = ranks;
    node->save(x);
    node->save(stats);
    node->has_weight = w.defined();
    if (w.defined()) node->save(w);
    if (bias.defined()) node->bias_dtype = bias.dtype();
  }
  return y;
}

}  // namespace dl
