#include "core/ops/norm/sync_batch_norm.h"

#include <algorithm>
#include <string>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/layout.h"
#include "core/ops/norm/batch_norm_plan.h"

namespace dl {
namespace {

constexpr TensorOptions kWide{.dtype = DType::kF64};

// Inputs: input, weight, bias. Saved: input, statistics, weight if defined.
struct SyncBatchNormBackward final : Node {
  std::string_view name() const noexcept override { return "sync_batch_norm"; }
  std::string grad_fn_name() const override { return "SyncBatchNormBackward"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output(), plan.format);
    const Tensor& x = saved(0);
    const Tensor weight = has_weight ? saved(2) : Tensor();
    const Tensor sums = empty({2, plan.args.channels}, kWide);
    call<Op::kBatchNormBackward>(x.device(), plan.args, grad, x, weight, saved(1), Tensor(),
                                 sums[1], sums[0]);
    if (context.needs(1)) context.give(1, sums[1].to(weight.dtype()));
    if (context.needs(2)) context.give(2, sums[0].to(bias_dtype));
    if (!context.needs(0)) return;
    // The gradients of weight and bias are this rank's part; the input's gradient needs the sums
    // over all ranks.
    const Tensor all = sums.clone();
    ranks->add_up(all);
    BatchNormArgs args = plan.args;
    args.rows_of_all = rows_of_all;
    args.sums_of_all = {all.data<double>(), static_cast<std::size_t>(all.numel())};
    const Tensor dx = plan.empty_result(x);
    call<Op::kBatchNormBackward>(x.device(), args, grad, x, weight, saved(1), dx, Tensor(),
                                 Tensor());
    context.give(0, plan.result_over(dx));
  }
  BatchNormPlan plan;
  Ref<BatchRanks> ranks;
  std::int64_t rows_of_all = 0;
  bool has_weight = false;
  DType bias_dtype = DType::kF32;
};

// The statistics of each channel over all ranks.
struct WholeBatch {
  std::int64_t count = 0;
  Tensor mean;      // [C] float64
  Tensor variance;  // [C] float64, with divisor count
};

// Merges the ranks' moments (Chan, Golub and LeVeque 1983) in the order of ranks, so that all ranks
// get the same bits.
WholeBatch whole_batch(const BatchNormArgs& args, const Tensor& x, BatchRanks& ranks) {
  const std::int64_t channels = args.channels;
  const Tensor moments = empty({2, channels}, kWide);
  call<Op::kBatchMoments>(x.device(), args, x, moments);
  const Tensor mine = empty({2 * channels + 1}, kWide);
  mine.data<double>()[0] = static_cast<double>(args.samples * args.positions);
  std::copy_n(moments.data<double>(), 2 * channels, mine.data<double>() + 1);
  const Tensor all = ranks.gather(mine);
  WholeBatch whole{.mean = zeros({channels}, kWide), .variance = zeros({channels}, kWide)};
  auto* const mean = whole.mean.data<double>();
  auto* const squares = whole.variance.data<double>();
  double count = 0;
  for (std::int64_t r = 0; r < all.size(0); ++r) {
    const double* const of_rank = all.data<double>() + r * (2 * channels + 1);
    if (of_rank[0] == 0) continue;
    const double both = count + of_rank[0];
    for (std::int64_t c = 0; c < channels; ++c) {
      const double delta = of_rank[1 + c] - mean[c];
      mean[c] += delta * (of_rank[0] / both);
      squares[c] += of_rank[1 + channels + c] + delta * delta * (count * of_rank[0] / both);
    }
    count = both;
  }
  whole.count = static_cast<std::int64_t>(count);
  whole.variance.div_(std::max(count, 1.0));
  return whole;
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
  DL_CHECK(!input.is_cuda(), kInvalidArgument, "sync_batch_norm: the input is on {}, wanted cpu",
           input.device().str());
  const Tensor x = laid_out(input, plan.format);
  const Tensor w = weight.defined() ? laid_out(weight) : weight;
  const WholeBatch whole = whole_batch(plan.args, x, *ranks);
  check_enough_to_train(whole.count, input);
  if (running_mean.defined() && whole.count > 0) {
    const NoGradGuard no_grad;
    const auto n = static_cast<double>(whole.count);
    move_running(running_mean, whole.mean, options.momentum);
    move_running(running_var, whole.variance * (n / (n - 1)), options.momentum);
  }
  const Tensor memory = plan.empty_result(x);
  const Tensor stats = empty({3, plan.args.channels},
                             {.dtype = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32});
  BatchNormArgs by_given = plan.args;
  by_given.batch_statistics = false;
  call<Op::kBatchNorm>(x.device(), by_given, x, w, bias.defined() ? laid_out(bias) : bias,
                       whole.mean, whole.variance, memory, stats);
  Tensor y = plan.result_over(memory);
  if (auto* node = record<SyncBatchNormBackward>(y, input, weight, bias)) {
    node->plan = plan;
    node->ranks = ranks;
    node->rows_of_all = whole.count;
    node->save(x);
    node->save(stats);
    node->has_weight = w.defined();
    if (w.defined()) node->save(w);
    if (bias.defined()) node->bias_dtype = bias.dtype();
  }
  return y;
}

}  // namespace dl
