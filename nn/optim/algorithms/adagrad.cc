#include "nn/optim/algorithms/algorithms.h"

#include "nn/optim/optimizer_of-inl.h"

namespace dl::optim {

template <>
struct OptimizerFacts<AdagradOptions> : OptimizerDefaults<AdagradOptions> {
  using Step = kernels::AdagradStep;
  static constexpr const char* kName = "Adagrad";
  static constexpr StateSlot kSlots[] = {{.name = "step", .is_count = true}, {.name = "sum"}};

  static std::vector<OptionRef> refs(AdagradOptions& o) {
    return {{"lr", &o.lr},
            {"lr_decay", &o.lr_decay},
            {"weight_decay", &o.weight_decay},
            {"initial_accumulator_value", &o.initial_accumulator_value},
            {"eps", &o.eps},
            {"maximize", &o.maximize, 0}};
  }
  static void check(const AdagradOptions& o) {
    require_not_negative(kName, "lr", o.lr);
    require_not_negative(kName, "lr_decay", o.lr_decay);
    require_not_negative(kName, "weight_decay", o.weight_decay);
    require_not_negative(kName, "initial_accumulator_value", o.initial_accumulator_value);
    require_not_negative(kName, "eps", o.eps);
  }
  static double start(const AdagradOptions& o, std::size_t slot) {
    return slot == 1 ? o.initial_accumulator_value : 0;
  }
  static Step step(const AdagradOptions& o) {
    return {.lr = o.lr,
            .lr_decay = o.lr_decay,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .maximize = o.maximize};
  }
};

template class OptimizerOf<AdagradOptions>;

}  // namespace dl::optim
