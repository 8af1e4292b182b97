// Optimizer: changes parameters by their gradients.
//
//     optim::SGD opt(model.parameters(), {.lr = 0.01, .momentum = 0.9});
//     opt.zero_grad();
//     nn::functional::cross_entropy(model(x), y).backward();
//     opt.step();
//
// Parameters stand in groups, each with options of its own. An optimizer holds handles to its
// parameters and owns its state (momentum buffers and the like), which begins with a parameter's
// first step. Parameters without a gradient are left alone, frozen ones among them: they have an
// index in state_dict(), and no state. Make the optimizer after Module::to(): a parameter of
// another dtype is another tensor.
//
// Parameters are floating leaves, row-major, each in one group only; others throw kDType or
// kInvalidArgument. The state of float16 and bfloat16 parameters is float32 and so is the
// arithmetic of a step: the parameter alone is rounded, once. A change below half of its last bit
// is lost all the same; float32 parameters under autocast (docs/guides/amp.md) lose none.
// Thread-safety: none; step() belongs on the thread that trains.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/args/optimizer_args.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn {
class Value;
struct Safetensors;
struct SkippedTensor;
}  // namespace dl::nn

namespace dl::optim {

struct StateNames;

template <typename Options>
struct ParamGroup {
  std::vector<Tensor> params{};
  Options options{};
};

// A reference to a group's option, and its name in state_dict().
struct OptionRef {
  std::string_view name;
  std::variant<double*, bool*> value;
  // What a state without the option gives it: PyTorch's default, if earlier versions of PyTorch did
  // not write the option. nullopt: such a state is refused.
  std::optional<double> if_missing{};
};

// What schedulers keep in a parameter group, by PyTorch's names: initial_lr, which schedules count
// from; what OneCycleLR leads to; CyclicLR's momenta; what SWALR leads to.
enum class SchedulerOption : std::uint8_t {
  kInitialLr,
  kMaxLr,
  kMinLr,
  kBaseMomentum,
  kMaxMomentum,
  kSwaLr
};
inline constexpr std::size_t kSchedulerOptionCount = 6;

class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Changes every parameter that has a gradient; not recorded by autograd. Throws the first cause
  // where DDP could not average these gradients, or those of an earlier step. A step that throws
  // has changed no parameter of any group and no state, and has counted nothing.
  virtual void step() = 0;
  // A step that changes nothing where found_inf, a 0-d float32 on the parameters' device, is not 0:
  // how GradScaler steps. On CUDA the kernels look at it, and the host does not wait.
  void step_unless(const Tensor& found_inf);
  // Copies changed learning rates to the CUDA device, where kernels read them. step() does this
  // itself, but a captured step cannot: call this before each replay.
  void sync_learning_rates();
  void zero_grad(bool set_to_none = true) const;

  // All parameters, group after group.
  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  std::size_t group_count() const noexcept { return groups_.size(); }
  // A group's learning rate, to read or to set. Throws kIndex.
  virtual double& lr(std::size_t group = 0) = 0;
  // The rate that schedules count from: lr() when it is first asked for, as the first LRScheduler
  // does. In state_dict() from then on. Throws kIndex.
  double& initial_lr(std::size_t group = 0);
  // An option that schedulers own, unset until one sets it. The scheduler that was made last sets
  // it for all schedulers of the optimizer, as in PyTorch. In state_dict() if set. Throws kIndex.
  std::optional<double>& scheduler_option(SchedulerOption option, std::size_t group = 0) {
    return scheduler_options_[checked_group(group)][static_cast<std::size_t>(option)];
  }
  // For schedulers, which warn if they step first: steps are noticed from watch_steps() on.
  void watch_steps() noexcept {
    if (!stepped_) stepped_ = false;
  }
  bool stepped_while_watched() const noexcept { return stepped_.value_or(false); }
  // A group's option by its name in state_dict(), as "momentum" or "betas.0"; null if this
  // optimizer has no such number. Throws kIndex.
  double* find_option(std::string_view name, std::size_t group = 0);

  // All that continues a run, as tensors with PyTorch's names: "state.<parameter>.<name>" and
  // "param_groups.<group>.<option>", where a parameter is counted as in parameters(). Options are
  // 0-d float64 or bool tensors. State tensors share the optimizer's memory.
  nn::StateDict state_dict() const;
  // Throws kMismatch where the state belongs to other parameters, groups or another optimizer;
  // nothing is changed then. State that is there is overwritten where it lies, and captured steps
  // go on with it. State that `state` lacks is dropped: capture such steps anew. Options that
  // earlier versions of PyTorch did not write get PyTorch's defaults. initial_lr() is forgotten if
  // `state` lacks it; other options of schedulers stay.
  void load_state_dict(const nn::StateDict& state);
  // Takes a file, as nn::load_safetensors() returns it. Throws also if a tensor of it was skipped;
  // every text names the file.
  template <std::same_as<nn::Safetensors> File>
  void load_state_dict(const File& file) {
    load(file.tensors, file.skipped, file.path);
  }

  // The state as PyTorch lays it out, {"state": {0: {...}}, "param_groups": [{...}]}: what
  // nn::save_pth() writes for torch.optim's optimizer of the same name.
  nn::Value torch_state_dict() const;
  // Takes what torch_state_dict() gave, or an optimizer of PyTorch in a file that nn::load_pth()
  // has read; options that change no result (foreach, fused, capturable) are left out. Throws
  // kMismatch also for an option that is on and that this optimizer does not have; the text names
  // it.
  template <std::same_as<nn::Value> V>
  void load_state_dict(const V& state) {
    load_value(state);
  }

 protected:
  // A reference to a tensor in a parameter's state, which is undefined before the parameter's first
  // step.
  struct StateRef {
    std::string_view name;
    Tensor* tensor;
    bool like_parameter;  // its shape, and state_dtype(); else a 0-d float32
    bool optional;        // some options do without it
  };
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  // What one call of a kernel works on: parameters of one device and dtype.
  template <typename Item>
  struct Gathered {
    struct List {
      Device device;
      DType dtype;
      std::vector<Item> items;
    };
    std::vector<List> lists;

    void clear() noexcept {
      for (List& list : lists) list.items.clear();
    }
    void add(const Tensor& parameter, const Item& item) {
      const auto fits = [&](const List& list) {
        return list.device == parameter.device() && list.dtype == parameter.dtype();
      };
      auto list = std::ranges::find_if(lists, fits);
      if (list == lists.end()) {
        list = lists.insert(list, {parameter.device(), parameter.dtype(), {}});
      }
      list->items.push_back(item);
    }
  };

  explicit Optimizer(std::string_view name) noexcept : name_(name) {}

  std::string_view name() const noexcept { return name_; }
  // The dtype of a parameter's state, in which its steps are computed.
  static DType state_dtype(const Tensor& parameter) {
    return parameter.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  }
  // Checks the tensors of a new group and appends them.
  void append(const std::vector<Tensor>& params);
  // The gradients of all parameters() as kernels read them, row-major; undefined where there is
  // none. A step takes them before it changes anything: throws what spoils one of them
  // (grad_error()). The optimizer holds them until drop_gradients().
  const std::vector<Tensor>& take_gradients();
  void drop_gradients() noexcept { gradients_.clear(); }
  // `group`, where there is such a group. Throws kIndex.
  std::size_t checked_group(std::size_t group) const {
    DL_CHECK(group < groups_.size(), kIndex, "{}: there is no parameter group {} among {}", name_,
             group, groups_.size());
    return group;
  }
  // The group's parameters in parameters().
  Range range_of(std::size_t group) const noexcept { return groups_[group]; }
  // A parameter's first step makes state on its device, which a captured step would make again in
  // every launch: throws kInvalidArgument in a capture.
  void check_may_begin(const Tensor& parameter) const;
  // What a kernel on `device` reads there; nothing on the CPU.
  kernels::OptimizerScalars scalars_for(Device device, std::size_t group);
  // Whether this step is one that the device may yet skip.
  bool may_be_skipped() const noexcept { return found_inf_.defined(); }
  // Whether a step that the device skips leaves no trace on the host either.
  virtual bool can_be_skipped() const { return true; }

  // What an option of PyTorch's is here, where it cannot be set: whether it is on.
  virtual std::optional<bool> fixed_option(std::string_view) const { return std::nullopt; }

  virtual std::vector<OptionRef> options_of(std::size_t group) = 0;
  virtual std::vector<StateRef> state_of(std::size_t parameter) = 0;

 private:
  void load_value(const nn::Value& state);
  // The names of this optimizer's own state.
  StateNames own_names();
  // The options of a group of PyTorch's, by our names, appended to `flat`.
  void flatten_group(const nn::Value& group, std::size_t g, nn::StateDict& flat);
  void load(const nn::StateDict& state, std::span<const nn::SkippedTensor> skipped,
            std::string_view path);

  std::string_view name_;
  std::vector<Tensor> parameters_;
  std::vector<Range> groups_;
  using SchedulerOptions = std::array<std::optional<double>, kSchedulerOptionCount>;
  std::vector<SchedulerOptions> scheduler_options_;  // of each group
  std::vector<Tensor> gradients_;                    // while a step works on them
  std::optional<bool> stepped_;                      // if a scheduler watches
  Tensor found_inf_;                                 // of step_unless(), while it steps on a device
  struct Rate {
    std::size_t group;
    Tensor on_device;  // 0-d float64
    double value;      // what it holds
  };
  std::vector<Rate> rates_;
};

}  // namespace dl::optim
