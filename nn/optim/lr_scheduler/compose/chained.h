// ChainedScheduler: steps several schedulers of one optimizer, whose factors multiply.
//
//     optim::ConstantLR constant(opt, {.factor = 0.1, .total_iters = 2});
//     optim::ExponentialLR exponential(opt, {.gamma = 0.9});
//     optim::ChainedScheduler scheduler({&constant, &exponential});
//     scheduler.step();
//
// The schedulers must outlive it, and only it steps them. Thread-safety: none.
#pragma once

#include <concepts>
#include <vector>

#include "nn/optim/lr_scheduler/lr_scheduler.h"
#include "nn/serialize/state_dict.h"

namespace dl::optim {

class ChainedScheduler final {
 public:
  // Throws kInvalidArgument if there is no scheduler, or if one is null or belongs to another
  // optimizer.
  explicit ChainedScheduler(std::vector<LRScheduler*> schedulers);

  // If a scheduler throws, the ones before it have stepped already.
  void step();

  // The rate of each group as the last step() left it.
  const std::vector<double>& get_last_lr() const noexcept { return last_lrs_; }
  Optimizer& optimizer() const noexcept { return schedulers_.front()->optimizer(); }

  // _last_lr, and the states of all schedulers as "_schedulers.<i>.<name>", PyTorch's names.
  // load_state_dict() throws kMismatch, and then changes nothing.
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
  void keep_rates();

  std::vector<LRScheduler*> schedulers_;
  std::vector<double> last_lrs_;
};

}  // namespace dl::optim
