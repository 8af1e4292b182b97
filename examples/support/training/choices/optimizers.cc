#include "examples/support/training/choices/optimizers.h"

#include "examples/support/training/choices/rows.h"
#include "nn/optim/algorithms/algorithms.h"

namespace dl::examples {
namespace {

using MadeOptimizer = std::unique_ptr<optim::Optimizer>;

template <typename Options>
MadeOptimizer make_groups(const TrainedParameters& parameters, Options options) {
  std::vector<optim::ParamGroup<Options>> groups = {{parameters.decayed, options}};
  if (!parameters.others.empty()) {
    options.weight_decay = 0;
    groups.push_back({parameters.others, options});
  }
  return std::make_unique<optim::OptimizerOf<Options>>(groups);
}

template <bool kNesterov>
MadeOptimizer make_sgd(const TrainedParameters& parameters, const OptimizerSettings& s) {
  return make_groups(parameters, optim::SGDOptions{.lr = s.lr,
                                                   .momentum = s.momentum,
                                                   .weight_decay = s.weight_decay,
                                                   .nesterov = kNesterov});
}

MadeOptimizer make_rmsprop(const TrainedParameters& parameters, const OptimizerSettings& s) {
  return make_groups(
      parameters,
      optim::RMSpropOptions{.lr = s.lr, .weight_decay = s.weight_decay, .momentum = s.momentum});
}

// An optimizer without momentum, or with one of another form.
template <typename Options>
MadeOptimizer make_optimizer(const TrainedParameters& parameters, const OptimizerSettings& s) {
  return make_groups(parameters, Options{.lr = s.lr, .weight_decay = s.weight_decay});
}

constexpr OptimizerRow kOptimizers[] = {
    {"sgd", true, 0.05, 0, make_sgd<false>},
    {"nesterov", true, 0.05, 0, make_sgd<true>},
    {"adam", false, 1e-3, 0, make_optimizer<optim::AdamOptions>},
    {"adamw", false, 1e-3, 1e-2, make_optimizer<optim::AdamWOptions>},
    {"nadam", false, 2e-3, 0, make_optimizer<optim::NAdamOptions>},
    {"radam", false, 1e-3, 0, make_optimizer<optim::RAdamOptions>},
    {"rmsprop", true, 1e-3, 0, make_rmsprop},
    {"adagrad", false, 1e-2, 0, make_optimizer<optim::AdagradOptions>},
};

}  // namespace

std::span<const OptimizerRow> optimizers() {
  return kOptimizers;
}

const OptimizerRow& find_optimizer(std::string_view name) {
  return find_row(optimizers(), "--optimizer", name);
}

}  // namespace dl::examples
