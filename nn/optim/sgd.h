// SGD: stochastic gradient descent with momentum, PyTorch's formulas.
//
//   g = gradient + weight_decay p
//   v = g at a parameter's first step, then momentum v + (1 - dampening) g
//   p = p - lr v, or p - lr (g + momentum v) with nesterov (Sutskever et al. 2013)
#pragma once

#include <vector>

#include "core/kernels/optimizer_args.h"
#include "nn/optim/optimizer.h"

namespace dl::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs a momentum, and no dampening
};

class SGD final : public Optimizer {
 public:
  // Throw kInvalidArgument for a bad option; see Optimizer for parameters.
  explicit SGD(const std::vector<Tensor>& params, SGDOptions options = {});
  explicit SGD(const std::vector<ParamGroup<SGDOptions>>& groups);

  void add_param_group(const std::vector<Tensor>& params, SGDOptions options);
  // A group's options, to read or to set. Throws kIndex.
  SGDOptions& options(std::size_t group = 0) { return options_[checked_group(group)]; }
  double& lr(std::size_t group = 0) override { return options(group).lr; }

  void step() override;

 private:
  bool can_be_skipped() const override;
  std::vector<OptionRef> options_of(std::size_t group) override;
  std::vector<StateRef> state_of(std::size_t parameter) override;

  std::vector<SGDOptions> options_;      // of each group
  std::vector<Tensor> momentum_buffer_;  // of each parameter
  // What one call of the kernel works on; kept, so that a step allocates nothing.
  Gathered<kernels::SgdTensor> gathered_;
};

}  // namespace dl::optim
