// A training step: forward and backward in mixed precision on one rank of many, and the update.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "collectives/api/process_group.h"
#include "core/autocast/autocast.h"
#include "core/tensor/tensor.h"
#include "examples/support/training/choices/optimizers.h"
#include "examples/support/training/run_options.h"
#include "nn/amp/grad_scaler.h"
#include "nn/module/module.h"
#include "nn/optim/swa_utils.h"
#include "nn/parallel/distributed.h"

namespace dl::examples {

// The mixed precision of --amp.
AutocastOptions mixed_precision(const RunOptions& run);

struct StepOptions {
  nn::Module& model;  // on `device`
  // Returns the mean over the samples of the losses.
  std::function<Tensor(const Tensor& output, const Tensor& target)> loss;
  std::function<TrainedParameters(nn::Module& model)> parameters;  // all of the model, once each
  nn::Module* average = nullptr;  // of the same kind, if there is a moving average
  double ema = 0;                 // its decay
  std::int64_t accumulate = 1;    // parts of equal size that a rank's batch is computed in
  std::string slower_start;       // the option to try against a loss that is no number
};

// On a CPU the loss is looked at before the parameters change, so that the batch of a loss that is
// no number can be run again as it was; on a GPU that would make the host wait in each step, so the
// whole step is one function, which dl::compile captures.
class Step {
 public:
  Step(const StepOptions& options, const RunOptions& run, Device device,
       const Ref<collectives::ProcessGroup>& group);

  // The loss before the update.
  Tensor forward_backward(const Tensor& x, const Tensor& y);
  void update();
  bool looks_first() const noexcept { return device_.type == DeviceType::kCPU; }
  // Throws if the loss of this batch is no number.
  void require_finite(double loss, const Tensor& x, std::int64_t step_of_run);

  nn::parallel::DistributedDataParallel& ddp() noexcept { return ddp_; }
  optim::Optimizer& optimizer() const noexcept { return *optimizer_; }
  amp::GradScaler& scaler() noexcept { return scaler_; }
  optim::swa_utils::AveragedModel* average() noexcept { return average_ ? &*average_ : nullptr; }

 private:
  // Part `i` of a batch.
  Tensor part_of(const Tensor& batch, std::int64_t i) const;
  Tensor forward_backward_part(const Tensor& x, const Tensor& y);

  StepOptions options_;
  const RunOptions& run_;
  Device device_;
  nn::parallel::DistributedDataParallel ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  amp::GradScaler scaler_;
  std::optional<optim::swa_utils::AveragedModel> average_{};
};

}  // namespace dl::examples
