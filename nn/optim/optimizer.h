// Optimizer: the base class of optimizers, which update parameters by their gradients.
//
//     optim::SGD opt(model.parameters(), {.lr = 0.01, .momentum = 0.9});
//     opt.zero_grad();
//     nn::functional::cross_entropy(model(x), y).backward();
//     opt.step();
//
// Parameters are in groups, each with its own options. An optimizer holds handles to its parameters
// and owns its state (momentum buffers etc.), which a parameter's first step creates. Parameters
// without a gradient, such as frozen ones, are not changed; they have an index in state_dict() but
// no state. Make the optimizer after Module::to(), which replaces the parameters.
//
// Parameters are floating, row-major leaves, each in one group only; others throw kDType or
// kInvalidArgument. For float16 and bfloat16 parameters, state and arithmetic are float32, and only
// the new parameter is rounded, once. A change below half of its last bit is still lost; float32
// parameters under autocast (docs/guides/amp.md) do not have this problem. Thread-safety: none;
// step() belongs on the thread that trains.
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
  // The value for a state without this option: PyTorch's default, if earlier versions of PyTorch
  // did not save the option. nullopt: such a state throws.
  std::optional<double> if_missing{};
};

// Values that schedulers store in a parameter group: the base of schedules; OneCycleLR's end rates
// and momenta; CyclicLR's momenta; SWALR's end rate. As in PyTorch, which gives them the names
// below, they are only in the state of optimizers that have such a scheduler.
enum class SchedulerOption : std::uint8_t {
  kInitialLr,
  kMaxLr,
  kMinLr,
  kBaseMomentum,
  kMaxMomentum,
  kSwaLr
};
inline constexpr std::array<std::string_view, 6> kSchedulerOptionNames = {
    "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr"};
inline constexpr std::size_t kSchedulerOptionCount = kSchedulerOptionNames.size();

class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  // Destroys the graphs that contain its steps.
  virtual ~Optimizer();

  // Updates every parameter that has a gradient; not recorded by autograd. Throws the first cause
  // if DDP could not average these gradients or those of an earlier step. If step() throws, it has
  // not changed any parameter, state or count.
  virtual void step() = 0;
  // A step that is skipped if found_inf, a 0-d float32 on the parameters' device, is not 0; used by
  // GradScaler. On CUDA the kernels read it, and the host does not wait.
  void step_unless(const Tensor& found_inf);
  void zero_grad(bool set_to_none = true) const;

  // All parameters, group after group.
  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  std::size_t group_count() const noexcept { return groups_.size(); }
  // A reference to a group's learning rate. Throws kIndex.
  virtual double& lr(std::size_t group = 0) = 0;
  // SGD's or RMSprop's momentum, or the first beta of the Adam family, which schedulers may cycle;
  // null if there is none. Throws kIndex.
  virtual double* momentum(std::size_t group = 0) = 0;
  // The base rate of schedules: lr() at the first call of this function (by the first LRScheduler).
  // It is in state_dict() from then on. Throws kIndex.
  double& initial_lr(std::size_t group = 0);
  // An option that schedulers own, unset until one sets it. As in PyTorch, the newest scheduler
  // sets it for all schedulers of the optimizer. It is in state_dict() if set. Throws kIndex.
  std::optional<double>& scheduler_option(SchedulerOption option, std::size_t group = 0) {
    return scheduler_options_[checked_group(group)][static_cast<std::size_t>(option)];
  }
  // For schedulers, which warn if they step first: has_stepped() counts steps after watch_steps().
  void watch_steps() noexcept {
    if (!stepped_) stepped_ = false;
  }
  bool stepped_while_watched() const noexcept { return stepped_.value_or(false); }
  // A group's option by its name in state_dict(), as "momentum" or "betas.0"; null if this
  // optimizer has no such option. Throws kIndex.
  double* find_option(std::string_view name, std::size_t group = 0);

  // The state that continues a run, as tensors with PyTorch's names: "state.<parameter>.<name>" and
  // "param_groups.<group>.<option>", <parameter> being an index into parameters(). Options are 0-d
  // float64 or bool tensors. State tensors share the optimizer's memory.
  nn::StateDict state_dict() const;
  // Throws kMismatch if the state belongs to other parameters, groups or another optimizer, and
  // then changes nothing. Existing state is overwritten in place, so captured steps continue with
  // it. State that is missing in `state` is dropped: capture such steps again. Options that earlier
  // versions of PyTorch did not save get PyTorch's defaults. initial_lr() is cleared if `state`
  // lacks it; other options of schedulers stay.
  void load_state_dict(const nn::StateDict& state);
  // Loads a file, as nn::load_safetensors() returns it. Throws also if a tensor of it was skipped;
  // every error text has the file's name.
  template <std::same_as<nn::Safetensors> File>
  void load_state_dict(const File& file) {
    load(file.tensors, file.skipped, file.path);
  }

  // The state in PyTorch's format, {"state": {0: {...}}, "param_groups": [{...}]}: save it with
  // nn::save_pth() to load it into torch.optim's optimizer of the same name.
  nn::Value torch_state_dict() const;
  // Loads the result of torch_state_dict(), or a PyTorch optimizer's state from nn::load_pth().
  // Options that do not affect the result (foreach, fused, capturable) are ignored. Throws
  // kMismatch also if an option is on that this optimizer does not have; the text names it.
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
    bool optional;        // unused with some options
  };
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

  // The arguments of one kernel call: parameters of one device and dtype.
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
  // The gradients of all parameters(), row-major; undefined if there is none. A step takes them
  // before it changes anything: throws grad_error() if one has an error. The optimizer holds them
  // until drop_gradients().
  const std::vector<Tensor>& take_gradients();
  void drop_gradients() noexcept { gradients_.clear(); }
  // Returns `group`. Throws kIndex if there is no such group.
  std::size_t checked_group(std::size_t group) const {
    DL_CHECK(group < groups_.size(), kIndex, "{}: there is no parameter group {} among {}", name_,
             group, groups_.size());
    return group;
  }
  // The range of the group's parameters in parameters().
  Range range_of(std::size_t group) const noexcept { return groups_[group]; }
  // Throws kInvalidArgument in a capture: a parameter's first step creates state on its device, and
  // a captured step would create it in every launch.
  void check_may_begin(const Tensor& parameter) const;
  // The scalars that a kernel reads on `device`; null on the CPU.
  kernels::OptimizerScalars scalars_for(Device device, std::size_t group);
  // True in step_unless() on CUDA: the device decides whether to apply the step.
  bool may_be_skipped() const noexcept { return found_inf_.defined(); }
  // True if a step that the device skips leaves the host's state unchanged, too.
  virtual bool can_be_skipped() const { return true; }

  // The fixed value of a PyTorch option that this class does not offer; nullopt: no such option.
  virtual std::optional<bool> fixed_option(std::string_view) const { return std::nullopt; }

  virtual std::vector<OptionRef> options_of(std::size_t group) = 0;
  virtual std::vector<StateRef> state_of(std::size_t parameter) = 0;

 private:
  class CapturedRates;
  // Copies changed learning rates and momenta to the CUDA device for the kernels: before each step,
  // and before each launch of a graph that contains one.
  void sync_rates();
  void load_value(const nn::Value& state);
  // The names of this optimizer's own state.
  StateNames own_names();
  // Appends the options of a PyTorch group to `flat`, under dlrun's names.
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
  Tensor found_inf_;                                 // of step_unless() on a device
  struct Rate {
    std::size_t group;
    Tensor on_device;              // [2] float64
    std::array<double, 2> values;  // its current ones: the learning rate, and the momentum or 0
  };
  std::array<double, 2> rates_of(std::size_t group);
  std::vector<Rate> rates_;
  bool is_captured_ = false;  // a graph may contain a step
};

}  // namespace dl::optim
