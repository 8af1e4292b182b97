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
#define DL_LOSS_OF_FOUR(Layer, function, a, b, c, d)                                        \
  Tensor Layer::forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) \
      const {                                                                               \
    check_not_moved("a call");                                                              \
    return dl::function(a, b, c, d, options);                                               \
  }
// NOLINTEND(bugprone-macro-parentheses)
#include "nn/functional/losses.def"

}  // namespace dl::nn
