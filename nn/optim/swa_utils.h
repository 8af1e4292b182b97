// AveragedModel: the mean of a model's weights during training (Izmailov et al. 2018), or their
// exponential moving average, as torch.optim.swa_utils.
//
//     nn::Sequential model = make_model(), average = make_model();
//     optim::swa_utils::AveragedModel swa(average, model);
//     optim::SWALR scheduler(opt, {.swa_lr = {0.05}});
//     for (int epoch = 0; epoch < 20; ++epoch) {
//       train(model, opt);
//       swa.update_parameters();
//       scheduler.step();
//     }
//     optim::swa_utils::update_bn(batches, average);
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "nn/module/module.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn {
class Value;
struct Safetensors;
struct SkippedTensor;
}  // namespace dl::nn

namespace dl::optim::swa_utils {

struct AveragedModelOptions {
  // Exponential moving average: average = ema_decay * average + (1 - ema_decay) * model; 0 to 1.
  // nullopt: the mean of all updates.
  std::optional<double> ema_decay{};
  // true: average buffers, too; averages of integers are computed in float32 and truncated, as in
  // PyTorch. false: copy all buffers.
  bool use_buffers = false;
};

// Unlike PyTorch's, it does not copy the module: it borrows `average`, a second module of the same
// structure, and writes the averages there. Both modules must outlive it. Thread-safety: none.
class AveragedModel {
 public:
  // Copies the model's parameters and buffers to `average`. Throws kInvalidArgument for an
  // ema_decay outside 0 to 1, and kMismatch if names, shapes or dtypes of the two modules differ.
  AveragedModel(nn::Module& average, const nn::Module& model, AveragedModelOptions options = {});
  AveragedModel(const AveragedModel&) = delete;
  AveragedModel& operator=(const AveragedModel&) = delete;
  ~AveragedModel();

  // Adds the model's current parameters to the average; the first call copies them. Averages of
  // floats are computed in f64 for f64, otherwise in f32, by a kernel over many tensors at once.
  // dl::compile repeats it. Throws kMismatch as the constructor does.
  void update_parameters();

  nn::Module& module() const noexcept { return average_; }
  Tensor operator()(const Tensor& input) { return average_(input); }
  // The number of updates so far.
  std::int64_t n_averaged() const noexcept { return n_averaged_; }

  // The same entries as torch.optim.swa_utils.AveragedModel's: "n_averaged", 0-d int64, and the
  // state of the average with "module." before each name, which shares its memory.
  nn::StateDict state_dict() const;
  // Loads a state_dict(), also PyTorch's. Throws kMismatch if it is not the state of such a module,
  // and then changes nothing.
  void load_state_dict(const nn::StateDict& state);
  // Loads a dict of tensors, as nn::load_pth() returns it.
  template <std::same_as<nn::Value> V>
  void load_state_dict(const V& state) {
    load_state_dict(state.as_state_dict());
  }
  // Loads a file, as nn::load_safetensors() returns it. Throws also if a tensor of it was skipped.
  template <std::same_as<nn::Safetensors> File>
  void load_state_dict(const File& file) {
    load(file.tensors, file.skipped, file.path);
  }

 private:
  class Captured;

  void take(const nn::StateDict& to, const nn::StateDict& from, bool averaged);
  Tensor average_of_integers(const Tensor& old, const Tensor& now);
  // 0-d int64: n_averaged_ on a device.
  const Tensor& count_on(Device device);
  void load(const nn::StateDict& state, std::span<const nn::SkippedTensor> skipped,
            std::string_view path);

  nn::Module& average_;
  const nn::Module& model_;
  AveragedModelOptions options_;
  std::int64_t n_averaged_ = 0;
  std::vector<Tensor> counts_;  // one for each device; captured updates raise them
  bool is_captured_ = false;
};

// Resets the running statistics of all BatchNorms in the module, and sets them to the means over
// these inputs, by one forward pass in training mode for each. Then restores the training mode.
// Throws what a forward pass throws.
void update_bn(std::span<const Tensor> inputs, nn::Module& module);

}  // namespace dl::optim::swa_utils
