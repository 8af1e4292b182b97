// Each chunk of rows goes through the kernels of the linear layer, log-softmax and the negative log
// likelihood. Backward computes a chunk's logits again, so nothing of their size is kept.
#include <algorithm>

#include "core/kernels/cpu/common/half_width.h"
#include "core/kernels/declared/linear.h"
#include "core/kernels/declared/loss.h"
#include "core/kernels/declared/softmax.h"
#include "core/tensor/factories.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kChunkLogits = 1 << 20;
constexpr std::int64_t kLeastRows = 64;  // fewer make the products slow

// Rows of the input with their logits, whose memory is that of the other chunks, too.
struct Chunk {
  std::int64_t begin;
  std::int64_t rows;
  Tensor input;
  Tensor target;             // [rows, 1]
  Tensor logits;             // [rows, classes]
  Tensor log_probabilities;  // [rows, classes]
};

Tensor with_position(const Tensor& scores) {
  return scores.view({scores.size(0), scores.size(1), 1});
}

// Calls body(chunk) for all chunks in order, until it returns false.
template <typename Body>
void for_each_chunk(const Tensor& input, const Tensor& linear_weight, const Tensor& linear_bias,
                    const Tensor& target, const Body& body) {
  const std::int64_t count = input.size(0);
  const std::int64_t classes = linear_weight.size(0);
  const std::int64_t most = std::min(count, std::max(kChunkLogits / classes, kLeastRows));
  const Tensor logits = empty({most, classes}, {.dtype = input.dtype()});
  const Tensor log_probabilities = empty({most, classes}, {.dtype = input.dtype()});
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t rows = std::min(most, count - begin);
    const Chunk chunk{.begin = begin,
                      .rows = rows,
                      .input = input.narrow(0, begin, rows),
                      .target = target.narrow(0, begin, rows).view({rows, 1}),
                      .logits = logits.narrow(0, 0, rows),
                      .log_probabilities = log_probabilities.narrow(0, 0, rows)};
    linear(chunk.input, linear_weight, linear_bias, Activation::kNone, {}, chunk.logits);
    log_softmax(chunk.logits, 1, chunk.log_probabilities);
    if (!body(chunk)) return;
  }
}

}  // namespace

NllResult linear_cross_entropy(const Tensor& input, const Tensor& linear_weight,
                               const Tensor& linear_bias, const Tensor& target,
                               const Tensor& weight, const NllArgs& args, const Tensor& out) {
  if (is_half_width(input)) {
    const Tensor wide = wide_like(out);
    const NllResult result =
        linear_cross_entropy(widened(input), widened(linear_weight), widened(linear_bias), target,
                             widened(weight), args, wide);
    if (result.bad < 0) round_into(wide, out);
    return result;
  }
  NllArgs of_chunk = args;
  of_chunk.mean = false;
  NllResult result;
  double sum = 0;
  visit_f32_f64(input, "linear_cross_entropy", [&]<typename T>() {
    const Tensor chunk_sum = empty({}, {.dtype = input.dtype()});
    for_each_chunk(input, linear_weight, linear_bias, target, [&](const Chunk& chunk) {
      const NllResult part =
          nll_loss(with_position(chunk.log_probabilities), chunk.target, weight, of_chunk,
                   args.reduced ? chunk_sum : out.narrow(0, chunk.begin, chunk.rows));
      if (part.bad >= 0) {
        result.bad = chunk.begin + part.bad;
        return false;
      }
      result.total += part.total;
      if (args.reduced) sum += static_cast<double>(*chunk_sum.data<T>());
      return true;
    });
    if (args.reduced && result.bad < 0) *out.data<T>() = static_cast<T>(result.reduce(sum, args));
  });
  return result;
}

void linear_cross_entropy_backward(const Tensor& grad, const Tensor& input,
                                   const Tensor& linear_weight, const Tensor& linear_bias,
                                   const Tensor& target, const Tensor& weight, const NllArgs& args,
                                   double total, const Tensor& dinput, const Tensor& dweight,
                                   const Tensor& dbias) {
  if (is_half_width(input)) {
    const Tensor wide_input = wide_like(dinput);
    const Tensor wide_weight = wide_like(dweight);
    const Tensor wide_bias = wide_like(dbias);
    linear_cross_entropy_backward(widened(grad), widened(input), widened(linear_weight),
                                  widened(linear_bias), target, widened(weight), args, total,
                                  wide_input, wide_weight, wide_bias);
    round_into(wide_input, dinput);
    round_into(wide_weight, dweight);
    return round_into(wide_bias, dbias);
  }
  for_each_chunk(input, linear_weight, linear_bias, target, [&](const Chunk& chunk) {
    // The gradients of the log probabilities and of the logits take the place of the logits.
    const Tensor& d = chunk.logits;
    nll_loss_backward(args.reduced ? grad : grad.narrow(0, chunk.begin, chunk.rows), chunk.target,
                      weight, args, total, with_position(d));
    log_softmax_backward(d, chunk.log_probabilities, 1, d);
    const bool accumulate = chunk.begin > 0;
    linear_backward_weight(d, chunk.input, accumulate, dweight, accumulate, dbias);
    if (dinput.defined()) {
      linear_backward_input(d, linear_weight, Activation::kNone, {}, {},
                            dinput.narrow(0, chunk.begin, chunk.rows));
    }
    return true;
  });
}

}  // namespace dl::kernels::cpu
