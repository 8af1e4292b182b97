// Dropout layers: while training, they zero random elements and scale the others up (Srivastava et
// al. 2014). All draw from default_generator(), return the input unchanged after eval(), and throw
// kInvalidArgument unless p is in [0, 1].
#pragma once

#include <string>

#include "nn/module/module.h"

namespace dl::nn {

// The layers:
//   Dropout       each element is zeroed with probability p, others are multiplied by 1 / (1 - p)
//   Dropout1d     whole channels [n, c] of [N, C, L] or [C, L] (Tompson et al. 2015)
//   Dropout2d     of images [N, C, H, W], or of [N, C, L]
//   Dropout3d     of volumes [N, C, D, H, W], or of [C, D, H, W]
//   AlphaDropout  keeps the mean and variance of SELU's output (Klambauer et al. 2017)
#define DL_DROPOUTS(row) row(Dropout) row(Dropout1d) row(Dropout2d) row(Dropout3d) row(AlphaDropout)

// NOLINTBEGIN(bugprone-macro-parentheses): names of classes
#define DL_DROPOUT(Layer)                         \
  class Layer : public Module {                   \
   public:                                        \
    explicit Layer(double p = 0.5);               \
                                                  \
    Tensor forward(const Tensor& input) override; \
    std::string extra_repr() const override;      \
                                                  \
    double p;                                     \
  };
DL_DROPOUTS(DL_DROPOUT)
#undef DL_DROPOUT
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace dl::nn
