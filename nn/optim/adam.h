// Adam: steps scaled by running means of the gradient and of its square (Kingma and Ba 2015),
// PyTorch's formulas.
//
//   g = gradient + weight_decay p
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps), t the parameter's own steps
#pragma once

#include <utility>
#include <vector>

#include "core/kernels/optimizer_args.h"
#include "nn/optim/optimizer.h"

namespace dl::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 0;
};

class Adam final : public Optimizer {
 public:
  // Throw kInvalidArgument for a bad option; see Optimizer for parameters.
  explicit Adam(const std::vector<Tensor>& params, AdamOptions options = {});
  explicit Adam(const std::vector<ParamGroup<AdamOptions>>& groups);

  void add_param_group(const std::vector<Tensor>& params, AdamOptions options);
  // A group's options, to read or to set. Throws kIndex.
  AdamOptions& options(std::size_t group = 0) { return options_[checked_group(group)]; }
  double& lr(std::size_t group = 0) override { return options(group).lr; }

  void step() override;

 private:
  struct Moments {
    Tensor step;  // 0-d f32, as PyTorch keeps it
    Tensor exp_avg;
    Tensor exp_avg_sq;
  };

  std::vector<OptionRef> options_of(std::size_t group) override;
  std::vector<StateRef> state_of(std::size_t parameter) override;
  // Steps what has been gathered, all of it at its t-th step.
  void flush(std::size_t group, std::int64_t t);

  std::vector<AdamOptions> options_;  // of each group
  std::vector<Moments> moments_;      // of each parameter
  // What one call of the kernel works on; kept, so that a step allocates nothing.
  Gathered<kernels::AdamTensor> gathered_;
};

}  // namespace dl::optim
