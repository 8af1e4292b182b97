// What losses of classes share: checks, and the kernel call that refuses a target that is no class.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/elementwise/losses.h"
#include "core/ops/loss/loss.h"
#include "core/tensor/tensor.h"

namespace dl {

// Says for messages what part of the user's target a kernel gets: the target's shape, and the
// number of the element that is the kernel's first.
struct TargetPart {
  Shape shape;
  std::int64_t first = 0;
};

// `scores` gives the device and the dtype.
void check_class_weight(const Tensor& weight, const Tensor& scores, std::int64_t classes,
                        std::string_view op);
void check_smoothing(double smoothing, std::string_view op);
NllArgs nll_args(std::int64_t ignore_index, Reduction reduction, double smoothing);

// Calls the kernel nll_loss() (core/kernels/declared/loss.h), now and in later runs of a tape.
void nll_of_part(std::string_view op, const Tensor& log_probabilities, const Tensor& target,
                 const Tensor& weight, const NllArgs& args, const Tensor& out, const Tensor& sums,
                 const TargetPart& part);

}  // namespace dl
