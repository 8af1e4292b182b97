#include "nn/optim/algorithms/algorithms.h"

#include "nn/optim/optimizer_of-inl.h"

namespace dl::optim {

template <>
struct OptimizerFacts<SGDOptions> : OptimizerDefaults<SGDOptions> {
  using Step = kernels::SgdStep;
  static constexpr const char* kName = "SGD";
  static constexpr StateSlot kSlots[] = {{.name = "momentum_buffer"}};

  static std::vector<OptionRef> refs(SGDOptions& o) {
    return {{"lr", &o.lr},
            {"momentum", &o.momentum},
            {"dampening", &o.dampening},
            {"weight_decay", &o.weight_decay},
            {"nesterov", &o.nesterov, 0},
            {"maximize", &o.maximize, 0}};
  }
  static void check(const SGDOptions& o) {
    require_not_negative(kName, "lr", o.lr);
    require_not_negative(kName, "momentum", o.momentum);
    require_finite(kName, "dampening", o.dampening);
    require_not_negative(kName, "weight_decay", o.weight_decay);
    DL_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), kInvalidArgument,
             "SGD: nesterov needs a momentum and zero dampening, got momentum {} and dampening {}",
             o.momentum, o.dampening);
  }
  static bool uses(const SGDOptions& o, std::size_t) { return o.momentum != 0; }
  static bool begins_otherwise(const SGDOptions& o) { return o.momentum != 0 && o.dampening != 0; }
  static Step step(const SGDOptions& o) {
    return {.lr = o.lr,
            .momentum = o.momentum,
            .dampening = o.dampening,
            .weight_decay = o.weight_decay,
            .nesterov = o.nesterov,
            .maximize = o.maximize};
  }
};

template class OptimizerOf<SGDOptions>;

}  // namespace dl::optim
