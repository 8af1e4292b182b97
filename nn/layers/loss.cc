#include "nn/layers/loss.h"

namespace dl::nn {

#define DL_LOSS(Layer, function)                                           \
  Tensor Layer::forward(const Tensor& input, const Tensor& target) const { \
    check_not_moved("a call");                                             \
    return dl::function(input, target, with_weights(options));             \
  }
#include "nn/functional/losses.def"

Tensor CosineEmbeddingLoss::forward(const Tensor& a, const Tensor& b, const Tensor& target) const {
  check_not_moved("a call");
  return cosine_embedding_loss(a, b, target, options);
}

}  // namespace dl::nn
