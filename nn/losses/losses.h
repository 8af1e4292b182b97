// Losses, under the names and with the defaults of torch.nn.functional: cross_entropy(logits,
// target), mse_loss(input, target). What they take and throw stands in core/ops/loss.h.
#pragma once

#include "core/ops/loss.h"

namespace dl::nn::functional {

using dl::cross_entropy;
using dl::mse_loss;

}  // namespace dl::nn::functional
