#include "nn/optim/algorithms/algorithms.h"

#include "nn/optim/optimizer_of-inl.h"

namespace dl::optim {

template <>
struct OptimizerFacts<NAdamOptions> : OptimizerDefaults<NAdamOptions> {
  using Step = kernels::NAdamStep;
  static constexpr const char* kName = "NAdam";
  static constexpr StateSlot kSlots[] = {{.name = "step", .is_count = true},
                                         {.name = "mu_product", .is_count = true},
                                         {.name = "exp_avg"},
                                         {.name = "exp_avg_sq"}};

  static std::vector<OptionRef> refs(NAdamOptions& o) {
    return {{"lr", &o.lr},
            {"betas.0", &o.betas.first},
            {"betas.1", &o.betas.second},
            {"eps", &o.eps},
            {"weight_decay", &o.weight_decay},
            {"momentum_decay", &o.momentum_decay},
            {"decoupled_weight_decay", &o.decoupled_weight_decay, 0},
            {"maximize", &o.maximize, 0}};
  }
  static void check(const NAdamOptions& o) {
    require_not_negative(kName, "lr", o.lr);
    require_not_negative(kName, "eps", o.eps);
    require_not_negative(kName, "weight_decay", o.weight_decay);
    require_not_negative(kName, "momentum_decay", o.momentum_decay);
    require_betas(kName, o.betas);
  }
  static double start(const NAdamOptions&, std::size_t slot) { return slot == 1 ? 1 : 0; }
  static Step step(const NAdamOptions& o) {
    return {.lr = o.lr,
            .beta1 = o.betas.first,
            .beta2 = o.betas.second,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .momentum_decay = o.momentum_decay,
            .decoupled = o.decoupled_weight_decay,
            .maximize = o.maximize};
  }
};

template class OptimizerOf<NAdamOptions>;

}  // namespace dl::optim
