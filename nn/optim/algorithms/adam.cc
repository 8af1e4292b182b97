#include "nn/optim/algorithms/algorithms.h"

#include "nn/optim/optimizer_of-inl.h"

namespace dl::optim {
namespace {

template <typename Options>
struct AdamFacts : OptimizerDefaults<Options> {
  using Step = kernels::AdamStep;
  static constexpr StateSlot kSlots[] = {{.name = "step", .is_count = true},
                                         {.name = "exp_avg"},
                                         {.name = "exp_avg_sq"},
                                         {.name = "max_exp_avg_sq", .optional = true}};

  static std::vector<OptionRef> refs(Options& o) {
    return {{"lr", &o.lr},
            {"betas.0", &o.betas.first},
            {"betas.1", &o.betas.second},
            {"eps", &o.eps},
            {"weight_decay", &o.weight_decay},
            {"amsgrad", &o.amsgrad, 0},
            {"maximize", &o.maximize, 0}};
  }
  static void check(const Options& o) {
    constexpr const char* kName = OptimizerFacts<Options>::kName;
    require_not_negative(kName, "lr", o.lr);
    require_not_negative(kName, "eps", o.eps);
    require_not_negative(kName, "weight_decay", o.weight_decay);
    require_betas(kName, o.betas);
  }
  static bool uses(const Options& o, std::size_t slot) { return slot < 3 || o.amsgrad; }
  static std::optional<bool> fixed_option(std::string_view name) {
    if (name != "decoupled_weight_decay") return std::nullopt;
    return OptimizerFacts<Options>::kDecoupled;
  }
  static Step step(const Options& o) {
    return {.lr = o.lr,
            .beta1 = o.betas.first,
            .beta2 = o.betas.second,
            .eps = o.eps,
            .weight_decay = o.weight_decay,
            .decoupled = OptimizerFacts<Options>::kDecoupled,
            .amsgrad = o.amsgrad,
            .maximize = o.maximize};
  }
};

}  // namespace

template <>
struct OptimizerFacts<AdamOptions> : AdamFacts<AdamOptions> {
  static constexpr const char* kName = "Adam";
  static constexpr bool kDecoupled = false;
};

template <>
struct OptimizerFacts<AdamWOptions> : AdamFacts<AdamWOptions> {
  static constexpr const char* kName = "AdamW";
  static constexpr bool kDecoupled = true;
};

template class OptimizerOf<AdamOptions>;
template class OptimizerOf<AdamWOptions>;

}  // namespace dl::optim
