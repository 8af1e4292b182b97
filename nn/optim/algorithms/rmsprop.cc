#include "nn/optim/algorithms/algorithms.h"

#include "nn/optim/optimizer_of-inl.h"

namespace dl::optim {

template <>
struct OptimizerFacts<RMSpropOptions> : OptimizerDefaults<RMSpropOptions> {
  using Step = kernels::RMSpropStep;
  static constexpr const char* kName = "RMSprop";
  static constexpr StateSlot kSlots[] = {{.name = "step", .is_count = true},
                                         {.name = "square_avg"},
                                         {.name = "grad_avg", .optional = true},
                                         {.name = "momentum_buffer", .optional = true}};

  static std::vector<OptionRef> refs(RMSpropOptions& o) {
    return {{"lr", &o.lr},
            {"alpha", &o.alpha},
            {"eps", &o.eps},
            {"weight_decay", &o.weight_decay},
            {"momentum", &o.momentum, 0},
            {"centered", &o.centered, 0},
            {"maximize", &o.maximize, 0}};
  }
  static void check(const RMSpropOptions& o) {
    require_not_negative(kName, "lr", o.lr);
    require_not_negative(kName, "alpha", o.alpha);
    require_not_negative(kName, "eps", o.eps);
    require_not_negative(kName, "weight_decay", o.weight_decay);
    require_not_negative(kName, "momentum", o.momentum);
  }
  static bool uses(const RMSpropOptions& o, std::size_t slot) {
    return slot < 2 || (slot == 2 ? o.centered : o.momentum != 0);
  }
  static Step step(const RMSpropOptions& o) {
    return {.lr = o.lr,
            .alpha = o.alpha,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .momentum = o.momentum,
            .centered = o.centered,
            .maximize = o.maximize};
  }
};

template class OptimizerOf<RMSpropOptions>;

}  // namespace dl::optim
