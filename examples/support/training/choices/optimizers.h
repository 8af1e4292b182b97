// The optimizers that the programs can train with. A new one is a row in optimizers.cc.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/optim/optimizer.h"

namespace dl::examples {

struct OptimizerSettings {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
};

// What an optimizer changes.
struct TrainedParameters {
  std::vector<Tensor> decayed{};  // heed the weight decay
  std::vector<Tensor> others{};
};

struct OptimizerRow {
  std::string_view name;
  bool has_momentum;  // heeds --momentum
  double lr;          // unless --lr is given
  double weight_decay;
  std::unique_ptr<optim::Optimizer> (*make)(const TrainedParameters& parameters,
                                            const OptimizerSettings& settings);
};

std::span<const OptimizerRow> optimizers();
// Throws kInvalidArgument with the names that there are.
const OptimizerRow& find_optimizer(std::string_view name);

}  // namespace dl::examples
