#include "nn/optim/algorithms/algorithms.h"

#include "nn/optim/optimizer_of-inl.h"

namespace dl::optim {

template <>
struct OptimizerFacts<RAdamOptions> : OptimizerDefaults<RAdamOptions> {
  using Step = kernels::RAdamStep;
  static constexpr const char* kName = "RAdam";
  static constexpr StateSlot kSlots[] = {
      {.name = "step", .is_count = true}, {.name = "exp_avg"}, {.name = "exp_avg_sq"}};

  static std::vector<OptionRef> refs(RAdamOptions& o) {
    return {{"lr", &o.lr},
            {"betas.0", &o.betas.first},
            {"betas.1", &o.betas.second},
            {"eps", &o.eps},
            {"weight_decay", &o.weight_decay},
            {"decoupled_weight_decay", &o.decoupled_weight_decay, 0},
            {"maximize", &o.maximize, 0}};
  }
  static void check(const RAdamOptions& o) {
    require_not_negative(kName, "lr", o.lr);
    require_not_negative(kName, "eps", o.eps);
    require_not_negative(kName, "weight_decay", o.weight_decay);
    require_betas(kName, o.betas);
  }
  static Step step(const RAdamOptions& o) {
    return {.lr = o.lr,
            .beta1 = o.betas.first,
            .beta2 = o.betas.second,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .decoupled = o.decoupled_weight_decay,
            .maximize = o.maximize};
  }
};

template class OptimizerOf<RAdamOptions>;

}  // namespace dl::optim
