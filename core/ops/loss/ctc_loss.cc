#include <algorithm>
#include <limits>

#include "core/kernels/declared/loss.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/logic/logic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/loss/loss_reduction.h"

namespace dl {
namespace {

constexpr std::string_view kCtcName = "ctc_loss";

// Input: log probabilities [T, N, C]. Saved: these, the labels, the lengths, alpha and the losses.
struct CtcLossBackward final : Node {
  std::string_view name() const noexcept override { return kCtcName; }
  void backward(BackwardContext& context) override {
    const Tensor d = empty_like(saved(0));
    call<Op::kCtcLossBackward>(d.device(), laid_out(context.grad_output()), saved(0), saved(1),
                               saved(2), saved(3), saved(4), blank, zero_infinity, d);
    context.give(0, d);
  }
  std::int64_t blank = 0;
  bool zero_infinity = false;
};

// Each vector has a number for each sample.
struct Lengths {
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> first;  // index of its first label

  // As the kernel wants them, [3, N].
  Tensor on(Device device) const {
    std::vector<std::int64_t> all;
    for (const auto& each : {steps, labels, first}) all.insert(all.end(), each.begin(), each.end());
    return tensor(all, {.dtype = DType::kI64})
        .view({3, static_cast<std::int64_t>(steps.size())})
        .to(device);
  }
};

std::vector<std::int64_t> lengths_in(const Tensor& lengths, std::int64_t samples,
                                     std::int64_t longest, std::string_view argument) {
  check_defined(lengths, kCtcName, argument);
  if (is_floating(lengths.dtype())) refuse_dtype(kCtcName, lengths.dtype(), "integers as lengths");
  DL_CHECK(lengths.dim() <= 1 && lengths.numel() == samples, kShape,
           "{}: {} have shape {}, wanted [{}], one for each sample", kCtcName, argument,
           lengths.sizes().str(), samples);
  const Tensor whole = lengths.detach().cpu().to(DType::kI64).contiguous();
  const auto* const begin = whole.data<std::int64_t>();
  std::vector<std::int64_t> result(begin, begin + samples);
  for (std::size_t i = 0; i < result.size(); ++i) {
    DL_CHECK(result[i] >= 0 && result[i] <= longest, kInvalidArgument,
             "{}: {}[{}] is {}, wanted 0 to {}", kCtcName, argument, i, result[i], longest);
  }
  return result;
}

void check_labels(const Tensor& labels, const Lengths& lengths, std::int64_t classes) {
  for (std::size_t i = 0; i < lengths.first.size(); ++i) {
    for (std::int64_t k = 0; k < lengths.labels[i]; ++k) {
      const std::int64_t label = labels.data<std::int64_t>()[lengths.first[i] + k];
      DL_CHECK(label >= 0 && label < classes, kIndex,
               "{}: label {} of sample {} is {}, wanted a class in [0, {})", kCtcName, k, i, label,
               classes);
    }
  }
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossOptions& options) {
  if (const auto cast = autocast_of<Op::kCtcLoss>(log_probs)) {
    return ctc_loss(cast(log_probs), targets, input_lengths, target_lengths, options);
  }
  check_defined(log_probs, kCtcName, "the log probabilities");
  check_defined(targets, kCtcName, "the targets");
  if (log_probs.dtype() != DType::kF32 && log_probs.dtype() != DType::kF64) {
    refuse_dtype(kCtcName, log_probs.dtype(), "float32 or float64");
  }
  if (is_floating(targets.dtype())) refuse_dtype(kCtcName, targets.dtype(), "integers as targets");
  DL_CHECK(log_probs.dim() == 2 || log_probs.dim() == 3, kShape,
           "{}: the log probabilities have shape {}, wanted [T, N, C] or [T, C]", kCtcName,
           log_probs.sizes().str());
  check_reduction(options.reduction, kCtcName);
  const bool batched = log_probs.dim() == 3;
  const Tensor input = batched ? log_probs : log_probs.unsqueeze(1);
  const Tensor x = laid_out(input);
  const std::int64_t samples = x.size(1);
  const std::int64_t classes = x.size(2);
  DL_CHECK(options.blank >= 0 && options.blank < classes, kInvalidArgument,
           "{}: blank is {}, wanted a class in [0, {})", kCtcName, options.blank, classes);
  const bool padded = targets.dim() == 2;
  DL_CHECK((padded && targets.size(0) == samples) || targets.dim() == 1, kShape,
           "{}: the targets have shape {}, wanted [{}, S], or [n] with all labels one after "
           "another",
           kCtcName, targets.sizes().str(), samples);
  const Tensor labels = targets.detach().cpu().to(DType::kI64).reshape({-1}).contiguous();
  Lengths lengths{.steps = lengths_in(input_lengths, samples, x.size(0), "input_lengths"),
                  .labels = lengths_in(target_lengths, samples,
                                       padded ? targets.size(1) : labels.numel(), "target_lengths"),
                  .first = {}};
  std::int64_t longest = 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < lengths.labels.size(); ++i) {
    lengths.first.push_back(padded ? static_cast<std::int64_t>(i) * targets.size(1) : total);
    longest = std::max(longest, lengths.labels[i]);
    total += lengths.labels[i];
  }
  DL_CHECK(padded || total == labels.numel(), kShape,
           "{}: the targets have {} labels, target_lengths {} in sum", kCtcName, labels.numel(),
           total);
  check_labels(labels, lengths, classes);

  const TensorOptions wide{.dtype = DType::kF64, .device = x.device()};
  const Tensor alpha = empty({samples, x.size(0), 2 * longest + 1}, wide);
  const Tensor exact = empty({samples}, wide);
  const Tensor labels_there = labels.to(x.device());
  const Tensor lengths_there = lengths.on(x.device());
  call<Op::kCtcLoss>(x.device(), x, labels_there, lengths_there, options.blank, alpha, exact);
  Tensor losses = promoted_to(exact, x.dtype());
  if (auto* node = record<CtcLossBackward>(losses, input)) {
    node->blank = options.blank;
    node->zero_infinity = options.zero_infinity;
    node->save(x);
    node->save(labels_there);
    node->save(lengths_there);
    node->save(alpha);
    node->save(exact);
  }
  if (options.zero_infinity) {
    losses = where(eq(losses, std::numeric_limits<double>::infinity()), 0.0, losses);
  }
  if (options.reduction == Reduction::kMean) {
    std::vector<std::int64_t> divisors = lengths.labels;
    for (std::int64_t& each : divisors) each = std::max<std::int64_t>(1, each);
    losses = div(losses, tensor(divisors, {.dtype = x.dtype(), .device = x.device()}));
  }
  if (!batched && options.reduction == Reduction::kNone) {
    return detail::finish_composed(losses.view({}), log_probs, "SqueezeBackward1");
  }
  return reduced(losses, options.reduction);
}

}  // namespace dl
