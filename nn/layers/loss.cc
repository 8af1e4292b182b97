#include "nn/layers/loss.h"

namespace dl::nn {

#define DL_LOSS(Layer, function)                                           \
  Tensor Layer::forward(const Tensor& input, const Tensor& target) const { \
    check_not_moved("a call");                                             \
    return dl::function(input, target, with_weights(options));             \
  }
// NOLINTBEGIN(bugprone-macro-parentheses): names of parameters
#define DL_LOSS_OF_THREE(Layer, function, a, b, c)                                 \
  Tensor Layer::forward(const Tensor& a, const Tensor& b, const Tensor& c) const { \
    check_not_moved("a call");                                                     \
    return dl::function(a, b, c, options);                                         \
  }
// NOLINTEND(bugprone-macro-parentheses)
#include "nn/functional/losses.def"

Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths) const {
  check_not_moved("a call");
  return dl::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
}

}  // namespace dl::nn
