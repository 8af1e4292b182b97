// OptimizerOf: optimizers whose step is an element-wise rule
// (core/kernels/formulas/optimizer_rules-inl.h). They differ in their Options; optimizer_of-inl.h
// has the rest.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "core/args/optimizer_args.h"
#include "nn/optim/optimizer.h"

namespace dl::optim {

template <typename Options>
class OptimizerOf final : public Optimizer {
 public:
  // Throw kInvalidArgument for a bad option; see Optimizer for parameters.
  explicit OptimizerOf(const std::vector<Tensor>& params, Options options = {});
  explicit OptimizerOf(const std::vector<ParamGroup<Options>>& groups);

  void add_param_group(const std::vector<Tensor>& params, Options options);
  // A reference to a group's options. Throws kIndex.
  Options& options(std::size_t group = 0) { return options_[checked_group(group)]; }
  double& lr(std::size_t group = 0) override { return options(group).lr; }
  double* momentum(std::size_t group = 0) override {
    Options& of_group = options(group);
    if constexpr (requires { of_group.betas; }) return &of_group.betas.first;
    if constexpr (requires { of_group.momentum; }) return &of_group.momentum;
    return nullptr;
  }

  void step() override;

 private:
  // A parameter's state, in the order of the optimizer's slots; undefined if it has none.
  Tensor* state_at(std::size_t parameter);
  bool can_be_skipped() const override;
  std::optional<bool> fixed_option(std::string_view name) const override;
  std::vector<OptionRef> options_of(std::size_t group) override;
  std::vector<StateRef> state_of(std::size_t parameter) override;

  std::vector<Options> options_;  // of each group
  std::vector<Tensor> state_;     // of each parameter, slot after slot
  // The arguments of one kernel call; a member, so that a step does not allocate.
  Gathered<kernels::OptimizerTensor> gathered_;
};

}  // namespace dl::optim
