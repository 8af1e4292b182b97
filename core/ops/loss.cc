#include "core/ops/loss.h"

#include "core/kernels/cpu/loss.h"
#include "core/ops/autocast.h"
#include "core/ops/common.h"
#include "core/ops/layout.h"

namespace dl {
namespace {

static_assert(kIgnoreIndex == kernels::kIgnoreIndex);

// Input: logits. Saved: logits (row-major), target, row_sums, how many rows count.
struct CrossEntropyBackward final : Node {
  std::string_view name() const noexcept override { return "cross_entropy"; }
  void backward(BackwardContext& context) override {
    const Tensor dlogits = empty_like(saved(0));
    call<Op::kCrossEntropyBackward>(dlogits.device(), context.grad_output(), saved(0), saved(1),
                                    saved(2), saved(3), dlogits);
    context.give(0, dlogits);
  }
};

// Inputs and saved: input, target (row-major).
struct MseLossBackward final : Node {
  std::string_view name() const noexcept override { return "mse_loss"; }
  void backward(BackwardContext& context) override {
    for (const std::size_t i : {0, 1}) {
      if (!context.needs(i)) continue;
      const Tensor d = empty_like(saved(i));
      call<Op::kMseLossBackward>(d.device(), context.grad_output(), saved(0), saved(1),
                                 i == 0 ? 1.0 : -1.0, d);
      context.give(i, d);
    }
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target) {
  if (const auto cast = autocast_of<Op::kCrossEntropy>(logits)) {
    return cross_entropy(cast(logits), target);
  }
  check_defined(logits, "cross_entropy", "the first argument");
  check_defined(target, "cross_entropy", "the target");
  check_same_device(logits, target, "cross_entropy");
  DL_CHECK(logits.dim() == 2, kShape, "cross_entropy: the logits have shape {}, wanted [N, C]",
           logits.sizes().str());
  DL_CHECK(target.dim() == 1 && target.size(0) == logits.size(0), kShape,
           "cross_entropy: the target has shape {}, wanted [{}] for logits of shape {}",
           target.sizes().str(), logits.size(0), logits.sizes().str());
  check_floating(logits, "cross_entropy");
  DL_CHECK(target.dtype() == DType::kI64, kDType,
           "cross_entropy: the target is {}, wanted int64 class numbers", name_of(target.dtype()));
  const Tensor x = laid_out(logits);
  const Tensor t = laid_out(target);
  const TensorOptions like{.dtype = logits.dtype(), .device = logits.device()};
  Tensor loss = empty({}, like);
  const Tensor row_sums = empty({logits.size(0), 2}, like);
  // On the same device, so that the host need not wait to know.
  const Tensor counted = empty({}, {.dtype = DType::kI64, .device = logits.device()});
  const std::int64_t bad = call<Op::kCrossEntropy>(logits.device(), x, t, loss, row_sums, counted);
  if (bad >= 0) {
    throw_error(
        ErrorKind::kIndex,
        "cross_entropy: target[{}] is {}, wanted a class in [0, {}) or {} for a row to ignore", bad,
        t.at<std::int64_t>({bad}), logits.size(1), kIgnoreIndex);
  }
  if (auto* node = record<CrossEntropyBackward>(loss, logits)) {
    node->save(x);
    node->save(t);
    node->save(row_sums);
    node->save(counted);
  }
  return loss;
}

Tensor mse_loss(const Tensor& input, const Tensor& target) {
  if (const auto cast = autocast_of<Op::kMseLoss>(input)) {
    return mse_loss(cast(input), cast(target));
  }
  check_defined(input, "mse_loss", "the input");
  check_defined(target, "mse_loss", "the target");
  check_same_device(input, target, "mse_loss");
  DL_CHECK(input.sizes() == target.sizes(), kShape,
           "mse_loss: the input has shape {}, the target {}; wanted one shape", input.sizes().str(),
           target.sizes().str());
  check_floating(input, "mse_loss");
  DL_CHECK(input.dtype() == target.dtype(), kDType,
           "mse_loss: the input is {}, but the target is {}", name_of(input.dtype()),
           name_of(target.dtype()));
  const Tensor x = laid_out(input);
  const Tensor t = laid_out(target);
  Tensor loss = empty({}, {.dtype = input.dtype(), .device = input.device()});
  call<Op::kMseLoss>(input.device(), x, t, loss);
  if (auto* node = record<MseLossBackward>(loss, input, target)) {
    node->save(x);
    node->save(t);
  }
  return loss;
}

}  // namespace dl
