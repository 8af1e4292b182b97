// CUDA's losses, without waiting for the device: a target that is not a class is reported as a
// fault (fault.h), and the loss is NaN.
#include "core/kernels/declared/loss.h"

#include "core/kernels/cuda/loss/class_loss_kernels.h"
#include "core/kernels/cuda/loss/pair_loss_kernels.h"
#include "core/kernels/cuda/reduce/reduce_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/cuda/softmax/softmax_kernels.h"

namespace dl::kernels::cuda {
namespace {

CrossEntropyArgs args_of(const Tensor& logits, const Tensor& target, const Tensor& row_sums,
                         const Tensor& counted) {
  return {.dtype = logits.dtype(),
          .rows = logits.sizes()[0],
          .classes = logits.sizes()[1],
          .logits = logits.data_ptr(),
          .target = target.data<std::int64_t>(),
          .row_sums = row_sums.data_ptr(),
          .counted = counted.data<std::int64_t>(),
          .ignore_index = kIgnoreIndex};
}

const void* data_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

NllOperands operands_of(DType dtype, const Tensor& target, const Tensor& weight,
                        std::int64_t classes, const NllArgs& args, bool reads_all_classes) {
  const std::int64_t positions = target.sizes()[1];
  return {.dtype = dtype,
          .count = target.numel(),
          .classes = classes,
          .positions = positions,
          .target = target.data<std::int64_t>(),
          .weight = data_of(weight),
          .args = args,
          .lines = lines_for(reads_all_classes ? classes : 1, positions > 1)};
}

CtcOperands operands_of(const Tensor& log_probs, const Tensor& labels, const Tensor& lengths,
                        const Tensor& alpha, std::int64_t blank) {
  return {.dtype = log_probs.dtype(),
          .steps = log_probs.sizes()[0],
          .samples = log_probs.sizes()[1],
          .classes = log_probs.sizes()[2],
          .width = alpha.sizes()[2],
          .blank = blank,
          .log_probs = log_probs.data_ptr(),
          .labels = labels.data<std::int64_t>(),
          .lengths = lengths.data<std::int64_t>()};
}

PairLossOperands operands_of(PairLoss fn, const Tensor& input, const Tensor& target,
                             const Tensor& weight, const Tensor& pos_weight,
                             const PairLossArgs& args) {
  return {.fn = fn,
          .dtype = input.dtype(),
          .count = input.numel(),
          .input = input.data_ptr(),
          .target = target.data_ptr(),
          .weight = data_of(weight),
          .pos_weight = data_of(pos_weight),
          .a = args.a};
}

}  // namespace

std::int64_t cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                           const Tensor& row_sums, const Tensor& counted) {
  const Launch launch;
  cross_entropy_launch(args_of(logits, target, row_sums, counted), loss.data_ptr(), launch.fault(),
                       launch.stream());
  DL_CUDA_LAUNCHED("cross_entropy");
  return -1;
}

void cross_entropy_backward(const Tensor& grad, const Tensor& logits, const Tensor& target,
                            const Tensor& row_sums, const Tensor& counted, const Tensor& dlogits) {
  if (logits.numel() == 0) return;
  const Launch launch;
  cross_entropy_backward_launch(args_of(logits, target, row_sums, counted), grad.data_ptr(),
                                dlogits.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("cross_entropy_backward");
}

void mse_loss(const Tensor& input, const Tensor& target, const Tensor& loss) {
  const Launch launch;
  const Workspace partial(sizeof(double) * kSquareParts, launch.stream());
  mean_square_launch(input.dtype(), input.data_ptr(), target.data_ptr(), input.numel(),
                     partial.as<double>(), loss.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("mse_loss");
}

void mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, double sign,
                       const Tensor& d) {
  if (d.numel() == 0) return;
  const Launch launch;
  mse_backward_launch(input.dtype(), grad.data_ptr(), input.data_ptr(), target.data_ptr(), sign,
                      input.numel(), d.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("mse_loss_backward");
}

// A value that is no probability is reported as a fault, and its loss is NaN.
std::int64_t pair_loss(PairLoss fn, const Tensor& input, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, const PairLossArgs& args, const Tensor& out) {
  const PairLossOperands in = operands_of(fn, input, target, weight, pos_weight, args);
  const Launch launch;
  if (args.reduced) {
    const Workspace partial(sizeof(double) * kLossParts, launch.stream());
    pair_loss_sum_launch(in, args.divisor, partial.as<double>(), out.data_ptr(), launch.fault(),
                         launch.stream());
  } else if (in.count > 0) {
    pair_loss_launch(in, out.data_ptr(), launch.fault(), launch.stream());
  }
  DL_CUDA_LAUNCHED("pair_loss");
  return -1;
}

void pair_loss_backward(PairLoss fn, const Tensor& grad, const Tensor& input, const Tensor& target,
                        const Tensor& weight, const Tensor& pos_weight, const PairLossArgs& args,
                        bool of_target, const Tensor& d) {
  if (d.numel() == 0) return;
  const Launch launch;
  pair_loss_gradient_launch(operands_of(fn, input, target, weight, pos_weight, args),
                            grad.data_ptr(), args.reduced, args.divisor, of_target, d.data_ptr(),
                            launch.stream());
  DL_CUDA_LAUNCHED("pair_loss_backward");
}

std::int64_t nll_loss(const Tensor& log_probabilities, const Tensor& target, const Tensor& weight,
                      const NllArgs& args, const Tensor& out, const Tensor& sums) {
  const Launch launch;
  const Workspace partial(sizeof(double) * 2 * kNllParts, launch.stream());
  nll_loss_launch(operands_of(log_probabilities.dtype(), target, weight,
                              log_probabilities.sizes()[1], args, args.smoothing != 0),
                  log_probabilities.data_ptr(), partial.as<double>(), out.data_ptr(),
                  sums.data<double>(), launch.fault(), launch.stream());
  DL_CUDA_LAUNCHED("nll_loss");
  return -1;
}

void nll_loss_backward(const Tensor& grad, const Tensor& target, const Tensor& weight,
                       const Tensor& sums, const NllArgs& args, const Tensor& d) {
  if (d.numel() == 0) return;
  const Launch launch;
  nll_loss_gradient_launch(operands_of(d.dtype(), target, weight, d.sizes()[1], args, true),
                           grad.data_ptr(), sums.data<double>(), d.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("nll_loss_backward");
}

void ctc_loss(const Tensor& log_probs, const Tensor& labels, const Tensor& lengths,
              std::int64_t blank, const Tensor& alpha, const Tensor& losses) {
  if (losses.numel() == 0) return;
  const Launch launch;
  ctc_loss_launch(operands_of(log_probs, labels, lengths, alpha, blank), alpha.data<double>(),
                  losses.data<double>(), launch.stream());
  DL_CUDA_LAUNCHED("ctc_loss");
}

void ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& labels,
                       const Tensor& lengths, const Tensor& alpha, const Tensor& losses,
                       std::int64_t blank, bool zero_infinity, const Tensor& d) {
  if (d.numel() == 0) return;
  const Launch launch;
  const Workspace beta(sizeof(double) * static_cast<std::size_t>(alpha.numel()), launch.stream());
  ctc_loss_gradient_launch(operands_of(log_probs, labels, lengths, alpha, blank), grad.data_ptr(),
                           alpha.data<double>(), losses.data<double>(), beta.as<double>(),
                           zero_infinity, d.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("ctc_loss_backward");
}

}  // namespace dl::kernels::cuda
