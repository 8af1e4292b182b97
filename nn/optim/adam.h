// Adam and AdamW: steps scaled by running means of the gradient and of its square (Kingma and Ba
// 2015; decoupled weight decay: Loshchilov and Hutter 2019), PyTorch's formulas.
//
//   g = gradient + weight_decay p                     Adam
//   p = p - lr weight_decay p                         AdamW, before the rest
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

  static constexpr const char* kName = "Adam";
  static constexpr bool kDecoupled = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // each in [0, 1)
  double eps = 1e-8;
  double weight_decay = 1e-2;

  static constexpr const char* kName = "AdamW";
  static constexpr bool kDecoupled = true;
};

template <typename Options>
class AdamOf final : public Optimizer {
 public:
  // Throw kInvalidArgument for a bad option; see Optimizer for parameters.
  explicit AdamOf(const std::vector<Tensor>& params, Options options = {});
  explicit AdamOf(const std::vector<ParamGroup<Options>>& groups);

  void add_param_group(const std::vector<Tensor>& params, Options options);
  // A group's options, to read or to set. Throws kIndex.
  Options& options(std::size_t group = 0) { return options_[checked_group(group)]; }
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

  std::vector<Options> options_;  // of each group
  std::vector<Moments> moments_;  // of each parameter
  // What one call of the kernel works on; kept, so that a step allocates nothing.
  Gathered<kernels::AdamTensor> gathered_;
};

extern template class AdamOf<AdamOptions>;
extern template class AdamOf<AdamWOptions>;
using Adam = AdamOf<AdamOptions>;
using AdamW = AdamOf<AdamWOptions>;

}  // namespace dl::optim
