// ReduceLROnPlateau: lowers the learning rates when a metric stops improving.
//
//     optim::ReduceLROnPlateau scheduler(opt, {.factor = 0.5, .patience = 3});
//     scheduler.step(validation_loss);  // after each epoch
//
// The optimizer must outlive it. Thread-safety: none.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/optim/optimizer.h"
#include "nn/serialize/state_dict.h"
#include "nn/serialize/value.h"

namespace dl::optim {

struct ReduceLROnPlateauOptions {
  std::string mode = "min";    // or "max": whether less or more is better
  double factor = 0.1;         // less than 1
  std::int64_t patience = 10;  // number of steps without improvement; the next one lowers the rates
  double threshold = 1e-4;     // the smallest change that counts as an improvement
  std::string threshold_mode = "rel";  // share of the best value; or "abs"
  std::int64_t cooldown = 0;           // steps after a reduction that are not counted
  std::vector<double> min_lr{0};       // one for all groups, or each
  double eps = 1e-8;                   // smaller changes of a rate are not applied
};

class ReduceLROnPlateau final {
 public:
  // Throws kInvalidArgument for a bad option.
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});

  // NaN does not count as an improvement. Throws kInvalidArgument if a parameter group was added
  // for which min_lr has no entry.
  void step(double metric);
  void step(const Tensor& metric) { step(metric.item<double>()); }

  std::int64_t last_epoch() const noexcept { return last_epoch_; }
  // The rate of each group as the last step() left it.
  const std::vector<double>& get_last_lr() const noexcept { return last_lrs_; }

  // PyTorch's names: best, num_bad_epochs, cooldown_counter, last_epoch, _last_lr.
  // load_state_dict() throws kMismatch, and then changes nothing; it also accepts states without
  // _last_lr.
  nn::StateDict state_dict() const;
  void load_state_dict(const nn::StateDict& state);
  // Loads a value from nn::load_pth(): dlrun's state_dict(), or that of PyTorch's scheduler of the
  // same name with its options (LRScheduler::load_state_dict()).
  template <std::same_as<nn::Value> V>
  void load_state_dict(const V& state) {
    load_value(state);
  }

 private:
  void load_value(const nn::Value& state);
  bool is_better(double metric) const;
  void check_groups() const;
  void lower_rates();
  void keep_rates();

  Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  std::int64_t last_epoch_ = 0;
  std::int64_t num_bad_epochs_ = 0;
  std::int64_t cooldown_counter_ = 0;
  std::vector<double> last_lrs_;  // of each group
};

}  // namespace dl::optim
