// A linear layer and its cross entropy, whose logits are computed for a chunk of rows at a time:
// their memory does not grow with the number of rows. Backward computes them again.
#include <algorithm>

#include "core/kernels/declared/loss.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/layout.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/class_targets.h"
#include "core/ops/loss/loss.h"
#include "core/ops/loss/loss_reduction.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

constexpr std::string_view kLinearLossName = "linear_cross_entropy";

// The number of logits in a chunk. It is larger on a GPU, because a small product leaves most of
// the GPU idle.
constexpr std::int64_t kLogitsOnCpu = std::int64_t{1} << 20;
constexpr std::int64_t kLogitsOnCuda = std::int64_t{1} << 26;
constexpr std::int64_t kLeastRows = 64;  // fewer make the products slow

// The operands, row-major and without history; bias and weight of the classes may be undefined. On
// a CPU those of half width are widened, so that only results are rounded.
struct LinearLossOperands {
  Tensor input;   // [n, in]
  Tensor matrix;  // [classes, in]
  Tensor bias;
  Tensor target;  // [n]
  Tensor weight;

  static Tensor computed(const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const bool is_half = tensor.dtype() == DType::kF16 || tensor.dtype() == DType::kBF16;
    return is_half && !tensor.is_cuda() ? promoted_to(tensor.detach(), DType::kF32)
                                        : tensor.detach();
  }
};

// Rows of the input with their logits, whose memory is that of the other chunks, too.
struct LogitsChunk {
  std::int64_t first;
  std::int64_t rows;
  Tensor input;
  Tensor target;             // [rows, 1]
  Tensor logits;             // [rows, classes]
  Tensor log_probabilities;  // [rows, classes]
  NllArgs args;
};

Tensor with_position(const Tensor& scores) {
  return scores.view({scores.size(0), scores.size(1), 1});
}

// Calls body(chunk) for all chunks in order.
template <typename Body>
void for_each_chunk(const LinearLossOperands& of, const NllArgs& args, const Body& body) {
  const Device device = of.input.device();
  const std::int64_t count = of.input.size(0);
  const std::int64_t classes = of.matrix.size(0);
  const std::int64_t wanted = of.input.is_cuda() ? kLogitsOnCuda : kLogitsOnCpu;
  const std::int64_t most = std::min(count, std::max(wanted / classes, kLeastRows));
  const TensorOptions like{.dtype = of.input.dtype(), .device = device};
  const Tensor logits = empty({most, classes}, like);
  const Tensor log_probabilities = empty({most, classes}, like);
  for (std::int64_t first = 0; first < count; first += most) {
    const std::int64_t rows = std::min(most, count - first);
    LogitsChunk chunk{.first = first,
                      .rows = rows,
                      .input = of.input.narrow(0, first, rows),
                      .target = of.target.narrow(0, first, rows).view({rows, 1}),
                      .logits = logits.narrow(0, 0, rows),
                      .log_probabilities = log_probabilities.narrow(0, 0, rows),
                      .args = args};
    chunk.args.first_part = first == 0;
    chunk.args.last_part = first + rows == count;
    call<Op::kLinear>(device, chunk.input, of.matrix, of.bias, Activation::kNone, Tensor(),
                      chunk.logits);
    call<Op::kLogSoftmax>(device, chunk.logits, 1, chunk.log_probabilities);
    body(chunk);
  }
}

// Inputs: input, linear weight, linear bias. Saved: these, target, weight of the classes, sums.
struct LinearCrossEntropyBackward final : Node {
  std::string_view name() const noexcept override { return kLinearLossName; }
  std::string grad_fn_name() const override { return "NllLossBackward0"; }
  void backward(BackwardContext& context) override {
    const LinearLossOperands of{.input = LinearLossOperands::computed(saved(0)),
                                .matrix = LinearLossOperands::computed(saved(1)),
                                .bias = LinearLossOperands::computed(saved(2)),
                                .target = saved(3),
                                .weight = LinearLossOperands::computed(saved(4))};
    const Tensor grad = LinearLossOperands::computed(laid_out(context.grad_output()));
    const Device device = grad.device();
    const Tensor* const operands[] = {&of.input, &of.matrix, &of.bias};
    Tensor d[3];
    for (std::size_t i = 0; i < 3; ++i) {
      if (context.needs(i)) d[i] = empty_like(*operands[i]);
    }
    for_each_chunk(of, args, [&](const LogitsChunk& chunk) {
      // The gradients of the log probabilities and of the logits take the place of the logits.
      const Tensor& slope = chunk.logits;
      call<Op::kNllLossBackward>(device,
                                 args.reduced ? grad : grad.narrow(0, chunk.first, chunk.rows),
                                 chunk.target, of.weight, saved(5), args, with_position(slope));
      call<Op::kLogSoftmaxBackward>(device, slope, chunk.log_probabilities, 1, slope);
      const bool accumulate = chunk.first > 0;
      if (d[1].defined() || d[2].defined()) {
        call<Op::kLinearBackwardWeight>(device, slope, chunk.input, accumulate, d[1], accumulate,
                                        d[2]);
      }
      if (d[0].defined()) {
        call<Op::kLinearBackwardInput>(device, slope, of.matrix, Activation::kNone, Tensor(),
                                       Tensor(), d[0].narrow(0, chunk.first, chunk.rows));
      }
    });
    // Leaves first: a gradient that is final early is all-reduced early.
    for (const std::size_t i : {std::size_t{2}, std::size_t{1}, std::size_t{0}}) {
      if (d[i].defined()) context.give(i, promoted_to(d[i], saved(i).dtype()));
    }
  }
  NllArgs args;
};

void check_linear_classes(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                          const Tensor& linear_bias) {
  check_defined(input, kLinearLossName, "the input");
  check_defined(linear_weight, kLinearLossName, "the linear weight");
  check_defined(target, kLinearLossName, "the target");
  check_floating(input, kLinearLossName);
  const Shape& sizes = linear_weight.sizes();
  DL_CHECK(input.dim() == 1 || input.dim() == 2, kShape,
           "{}: the input has shape {}, wanted [N, in] or [in]", kLinearLossName,
           input.sizes().str());
  DL_CHECK(sizes.size() >= 2 && sizes.back() == input.size(-1), kShape,
           "{}: the linear weight has shape {}, wanted [C, {}] or [C, d..., {}] for an input of "
           "shape {}",
           kLinearLossName, sizes.str(), input.size(-1), input.size(-1), input.sizes().str());
  DL_CHECK(sizes.size() == 2 || input.dim() == 2, kShape,
           "{}: the input has shape {}, wanted [N, {}] for a linear weight of shape {}",
           kLinearLossName, input.sizes().str(), input.size(-1), sizes.str());
  Shape outputs = sizes;
  outputs.pop_back();
  DL_CHECK(!linear_bias.defined() || linear_bias.sizes() == outputs, kShape,
           "{}: the linear bias has shape {}, wanted {}", kLinearLossName,
           linear_bias.sizes().str(), outputs.str());
  check_same_device(input, target, kLinearLossName);
  check_same_device(input, linear_weight, kLinearLossName);
  if (linear_bias.defined()) check_same_device(input, linear_bias, kLinearLossName);
}

void check_dtype_of(const Tensor& tensor, const Tensor& input, std::string_view what) {
  DL_CHECK(!tensor.defined() || tensor.dtype() == input.dtype(), kDType,
           "{}: {} is {}, but the input is {}", kLinearLossName, what, name_of(tensor.dtype()),
           name_of(input.dtype()));
}

// All logits in memory.
Tensor linear_cross_entropy_at_once(const Tensor& input, const Tensor& linear_weight,
                                    const Tensor& target, const Tensor& linear_bias,
                                    const CrossEntropyLossOptions& options) {
  const Tensor logits = linear(input, linear_weight.reshape({-1, input.size(-1)}),
                               linear_bias.defined() ? linear_bias.reshape({-1}) : Tensor());
  Shape sizes = linear_weight.sizes();
  sizes.pop_back();
  if (input.dim() == 2) sizes.insert(0, input.size(0));
  return cross_entropy(logits.reshape(sizes), target, options);
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& input, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias, const CrossEntropyLossOptions& options) {
  check_linear_classes(input, linear_weight, target, linear_bias);
  const bool in_chunks = linear_weight.dim() == 2 && linear_weight.numel() > 0 &&
                         input.dim() == 2 && input.numel() > 0 && !is_floating(target.dtype());
  if (!in_chunks) {
    return linear_cross_entropy_at_once(input, linear_weight, target, linear_bias, options);
  }
  if (const auto cast = autocast_of<Op::kCrossEntropy>(input)) {
    CrossEntropyLossOptions with_weight = options;
    with_weight.weight = cast(options.weight);
    return linear_cross_entropy(cast(input), cast(linear_weight), target, cast(linear_bias),
                                with_weight);
  }
  if (target.dtype() == DType::kU8) {
    return linear_cross_entropy(input, linear_weight, target.to(DType::kI64), linear_bias, options);
  }
  check_dtype_of(linear_weight, input, "the linear weight");
  check_dtype_of(linear_bias, input, "the linear bias");
  const std::int64_t classes = linear_weight.size(0);
  DL_CHECK(target.dtype() == DType::kI64, kDType,
           "{}: the target is {}, wanted int64 class numbers", kLinearLossName,
           name_of(target.dtype()));
  DL_CHECK(target.sizes() == Shape{input.size(0)}, kShape,
           "{}: the target has shape {}, wanted [{}] for an input of shape {}", kLinearLossName,
           target.sizes().str(), input.size(0), input.sizes().str());
  check_class_weight(options.weight, input, classes, kLinearLossName);
  check_reduction(options.reduction, kLinearLossName);
  check_smoothing(options.label_smoothing, kLinearLossName);
  const NllArgs args = nll_args(options.ignore_index, options.reduction, options.label_smoothing);
  const Tensor x = laid_out(input);
  const Tensor w = laid_out(linear_weight);
  const Tensor b = laid_out_or_none(linear_bias);
  const Tensor t = laid_out(target);
  const Tensor weight = laid_out_or_none(options.weight);
  const LinearLossOperands of{.input = LinearLossOperands::computed(x),
                              .matrix = LinearLossOperands::computed(w),
                              .bias = LinearLossOperands::computed(b),
                              .target = t.detach(),
                              .weight = LinearLossOperands::computed(weight)};
  const Tensor computed =
      empty(args.reduced ? Shape() : t.sizes(), {.dtype = of.input.dtype(), .device = x.device()});
  const Tensor sums = empty({2}, {.dtype = DType::kF64, .device = x.device()});
  for_each_chunk(of, args, [&](const LogitsChunk& chunk) {
    nll_of_part(
        kLinearLossName, with_position(chunk.log_probabilities), chunk.target, of.weight,
        chunk.args,
        args.reduced ? computed : computed.narrow(0, chunk.first, chunk.rows).view({chunk.rows, 1}),
        sums, {.shape = t.sizes(), .first = chunk.first});
  });
  Tensor loss = promoted_to(computed, x.dtype());
  if (auto* node = record<LinearCrossEntropyBackward>(loss, input, linear_weight, linear_bias)) {
    node->args = args;
    for (const Tensor& tensor : {x, w, b, t, weight, sums}) node->save(tensor);
  }
  return loss;
}

}  // namespace dl
