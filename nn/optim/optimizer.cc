#include "nn/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/text/printable.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/graph.h"
#include "core/ops/layout.h"
#include "core/profiler/span.h"
#include "core/tensor/factories.h"
#include "nn/optim/state/state_names.h"
#include "nn/optim/state/state_writer.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::optim {
namespace {

StateNames names_of(const nn::StateDict& state) {
  StateNames names;
  for (const nn::NamedTensor& entry : state) {
    const std::string_view key = entry.name;
    const std::size_t number = key.find('.');
    const std::size_t name = number == key.npos ? number : key.find('.', number + 1);
    if (name == key.npos) continue;
    if (key.substr(0, number) == kParamGroups) names.add_option(key.substr(name + 1));
    if (key.substr(0, number) == "state") names.add_tensor(key.substr(name + 1));
  }
  return names;
}

// The first entry that is not in `known`, for an error text; empty if there is none.
std::string first_beyond(const nn::StateDict& state, const std::unordered_set<std::string>& known) {
  for (const nn::NamedTensor& entry : state) {
    if (!known.contains(entry.name)) return quoted_name(entry.name);
  }
  return "";
}

}  // namespace

// A graph's kernels read learning rates and momenta from the device.
class Optimizer::CapturedRates final : public cuda::GraphPart {
 public:
  explicit CapturedRates(Optimizer& optimizer) : optimizer_(optimizer) {}
  void before_launch(const Stream& stream) override {
    const cuda::StreamGuard on_stream(stream);
    optimizer_.sync_rates();
  }
  void after_launch(const Stream&, const std::exception_ptr&) noexcept override {}

 private:
  Optimizer& optimizer_;
};

Optimizer::~Optimizer() {
  if (is_captured_) cuda::destroy_graphs_of(this);
}

void Optimizer::append(const std::vector<Tensor>& params) {
  DL_CHECK(!params.empty(), kInvalidArgument, "{}: the list of parameters is empty", name_);
  std::unordered_set<const TensorImpl*> known;
  for (const Tensor& p : parameters_) known.insert(p.impl());
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    DL_CHECK(p.defined(), kInvalidArgument, "{}: parameter {} is undefined", name_, i);
    DL_CHECK(
        p.is_leaf(), kInvalidArgument,
        "{}: parameter {} was computed from other tensors, wanted a leaf; give the tensor that "
        "it was computed from, or its detach()",
        name_, i);
    DL_CHECK(is_floating(p.dtype()), kDType, "{}: parameter {} is {}, wanted a floating dtype",
             name_, i, name_of(p.dtype()));
    DL_CHECK(p.is_contiguous(), kInvalidArgument,
             "{}: parameter {} of shape {} is not row-major; register its contiguous()", name_, i,
             p.sizes().str());
    DL_CHECK(known.insert(p.impl()).second, kInvalidArgument,
             "{}: parameter {} is already in a parameter group", name_, i);
  }
  const std::size_t begin = parameters_.size();
  parameters_.insert(parameters_.end(), params.begin(), params.end());
  groups_.push_back({begin, parameters_.size()});
  scheduler_options_.emplace_back();
}

double& Optimizer::initial_lr(std::size_t group) {
  std::optional<double>& rate = scheduler_option(SchedulerOption::kInitialLr, group);
  if (!rate) rate = lr(group);
  return *rate;
}

double* Optimizer::find_option(std::string_view name, std::size_t group) {
  for (const OptionRef& ref : options_of(checked_group(group))) {
    if (ref.name == name && std::holds_alternative<double*>(ref.value)) {
      return std::get<double*>(ref.value);
    }
  }
  return nullptr;
}

void Optimizer::zero_grad(bool set_to_none) const {
  const profiler::Span span({"Optimizer.zero_grad#", name(), ".zero_grad"},
                            profiler::Category::kOptimizer);
  for (const Tensor& p : parameters_) p.zero_grad(set_to_none);
}

void Optimizer::step_unless(const Tensor& found_inf) {
  if (stepped_) stepped_ = true;  // also if the step is skipped: the caller's order is right
  if (found_inf.device().type == DeviceType::kCPU || !can_be_skipped()) {
    if (found_inf.item<float>() == 0) step();
    return;
  }
  found_inf_ = found_inf;
  try {
    step();
  } catch (...) {
    found_inf_ = Tensor();
    throw;
  }
  found_inf_ = Tensor();
}

std::array<double, 2> Optimizer::rates_of(std::size_t group) {
  const double* const momentum = this->momentum(group);
  return {lr(group), momentum != nullptr ? *momentum : 0};
}

void Optimizer::sync_rates() {
  const NoGradGuard no_grad;
  for (Rate& rate : rates_) {
    const std::array<double, 2> now = rates_of(rate.group);
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (rate.values[i] == now[i]) continue;
      rate.values[i] = now[i];
      rate.on_device[static_cast<std::int64_t>(i)].fill_(now[i]);
    }
  }
}

void Optimizer::check_may_begin(const Tensor& parameter) const {
  if (parameter.is_cuda()) {
    cuda::refuse_in_capture(
        "an optimizer's first step of a parameter cannot be captured; take one before");
  }
}

kernels::OptimizerScalars Optimizer::scalars_for(Device device, std::size_t group) {
  if (device.type == DeviceType::kCPU) return {};
  if (cuda::capturing()) {
    // A copy within the capture would be repeated by every launch.
    is_captured_ = true;
    cuda::note_captured(this, [this] { return make_ref<CapturedRates>(*this); });
  } else {
    sync_rates();
  }
  auto rate = std::ranges::find_if(rates_, [&](const Rate& known) {
    return known.group == group && known.on_device.device() == device;
  });
  if (rate == rates_.end()) {
    cuda::refuse_in_capture("an optimizer's first step cannot be captured; take one before");
    const std::array<double, 2> values = rates_of(group);
    const Tensor there = tensor({values[0], values[1]}, {.dtype = DType::kF64, .device = device});
    rate = rates_.insert(rate, {group, there, values});
  }
  const double* const rates = rate->on_device.data<double>();
  return {.lr = rates,
          .momentum = momentum(group) != nullptr ? rates + 1 : nullptr,
          .found_inf = found_inf_.defined() ? found_inf_.data<float>() : nullptr};
}

const std::vector<Tensor>& Optimizer::take_gradients() {
  if (stepped_) stepped_ = true;
  gradients_.clear();  // left by an exception
  gradients_.reserve(parameters_.size());
  for (const Tensor& parameter : parameters_) {
    if (const FirstError* const error = grad_error(parameter)) error->check();
    Tensor grad = parameter.grad();
    gradients_.push_back(!grad.defined() || grad.is_contiguous() ? std::move(grad)
                                                                 : laid_out(grad));
  }
  return gradients_;
}

nn::StateDict Optimizer::state_dict() const {
  // The references are only read here.
  auto& self = const_cast<Optimizer&>(*this);
  nn::StateDict state;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    for (const StateRef& ref : self.state_of(p)) {
      if (ref.tensor->defined()) state.push_back({state_key(p, ref.name), *ref.tensor});
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const OptionRef& ref : self.options_of(g)) {
      state.push_back({option_key(g, ref.name),
                       std::visit(
                           [](auto* value) {
                             constexpr bool kIsBool = std::is_same_v<decltype(value), bool*>;
                             return tensor(*value, {.dtype = kIsBool ? DType::kBool : DType::kF64});
                           },
                           ref.value)});
    }
    for (std::size_t i = 0; i < kSchedulerOptionCount; ++i) {
      const std::optional<double>& value = scheduler_options_[g][i];
      if (!value) continue;
      state.push_back(
          {option_key(g, kSchedulerOptionNames[i]), tensor(*value, {.dtype = DType::kF64})});
    }
    std::vector<std::int64_t> indices;
    for (std::size_t p = groups_[g].begin; p < groups_[g].end; ++p) {
      indices.push_back(static_cast<std::int64_t>(p));
    }
    state.push_back({option_key(g, kParams), tensor(indices)});
  }
  return state;
}

void Optimizer::load(const nn::StateDict& state, std::span<const nn::SkippedTensor> skipped,
                     std::string_view path) {
  try {
    // A skipped tensor is an error: the whole state is needed.
    DL_CHECK(skipped.empty(), kMismatch, "{}: load_state_dict: cannot load {}: {}", name_,
             nn::shown_name(skipped.front().name), skipped.front().reason);
    load_state_dict(state);
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: {}", path, error.what());
  }
}

StateNames Optimizer::own_names() {
  StateNames names;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const OptionRef& ref : options_of(g)) {
      names.add_option(ref.name);
      if (ref.if_missing) names.may_lack.emplace_back(ref.name);
    }
  }
  for (std::size_t p = 0; p < std::min<std::size_t>(1, parameters_.size()); ++p) {
    for (const StateRef& ref : state_of(p)) names.add_tensor(ref.name);
  }
  return names;
}

void Optimizer::load_state_dict(const nn::StateDict& state) {
  std::unordered_map<std::string_view, const Tensor*> given;
  for (const nn::NamedTensor& entry : state) {
    DL_CHECK(entry.tensor.defined(), kInvalidArgument,
             "{}: load_state_dict: {} is an undefined tensor", name_, quoted_name(entry.name));
    DL_CHECK(given.emplace(entry.name, &entry.tensor).second, kMismatch,
             "{}: load_state_dict: {} is there twice", name_, quoted_name(entry.name));
  }
  if (const std::string text = told_apart(name_, own_names(), names_of(state)); !text.empty()) {
    throw_error(ErrorKind::kMismatch, "{}: load_state_dict: {}", name_, text);
  }
  // Checks and copies everything before the first change.
  std::vector<std::pair<Tensor*, Tensor>> tensors;
  std::vector<std::pair<std::variant<double*, bool*>, double>> options;
  std::vector<SchedulerOptions> scheduler_options = scheduler_options_;
  std::unordered_set<std::string> known;

  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    std::size_t present = 0;
    std::size_t required = 0;
    std::size_t optional = 0;
    const std::vector<StateRef> refs = state_of(p);
    for (const StateRef& ref : refs) {
      const std::string key = state_key(p, ref.name);
      const auto found = given.find(key);
      required += ref.optional ? 0 : 1;
      if (found == given.end()) {
        tensors.emplace_back(ref.tensor, Tensor());
        continue;
      }
      ++(ref.optional ? optional : present);
      known.insert(key);
      const Tensor& value = *found->second;
      const Shape wanted = ref.like_parameter ? parameters_[p].sizes() : Shape();
      DL_CHECK(value.sizes() == wanted, kMismatch,
               "{}: load_state_dict: \"{}\" has shape {}, wanted {}; does the state belong to "
               "another model?",
               name_, key, value.sizes().str(), wanted.str());
      const NoGradGuard no_grad;
      tensors.emplace_back(ref.tensor,
                           value.to(parameters_[p].device())
                               .to(ref.like_parameter ? state_dtype(parameters_[p]) : DType::kF32)
                               .clone(MemoryFormat::kContiguous));  // the layout that kernels read
    }
    DL_CHECK(present == required || (present == 0 && optional == 0), kMismatch,
             "{}: load_state_dict: parameter {} has {} state tensors, wanted none or {}", name_, p,
             present + optional, required + optional);
  }

  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::string params_key = option_key(g, kParams);
    const auto params = given.find(params_key);
    const auto count = static_cast<std::int64_t>(groups_[g].end - groups_[g].begin);
    DL_CHECK(params != given.end() && params->second->numel() == count, kMismatch,
             "{}: load_state_dict: \"{}\" names {} parameters, wanted {}", name_, params_key,
             params == given.end() ? 0 : params->second->numel(), count);
    known.insert(params_key);
    for (const OptionRef& ref : options_of(g)) {
      const std::string key = option_key(g, ref.name);
      const auto found = given.find(key);
      if (found == given.end() && ref.if_missing) {
        options.emplace_back(ref.value, *ref.if_missing);
        continue;
      }
      DL_CHECK(found != given.end() && found->second->numel() == 1, kMismatch,
               "{}: load_state_dict: \"{}\" is missing or not one number", name_, key);
      options.emplace_back(ref.value, found->second->item<double>());
      known.insert(key);
    }
    scheduler_options[g][static_cast<std::size_t>(SchedulerOption::kInitialLr)].reset();
    for (std::size_t i = 0; i < kSchedulerOptionCount; ++i) {
      const auto found = given.find(option_key(g, kSchedulerOptionNames[i]));
      if (found == given.end()) continue;
      DL_CHECK(found->second->numel() == 1, kMismatch,
               "{}: load_state_dict: \"{}\" is not one number", name_, found->first);
      scheduler_options[g][i] = found->second->item<double>();
      known.emplace(found->first);
    }
  }
  DL_CHECK(known.size() == state.size(), kMismatch,
           "{}: load_state_dict: the state has {} entries, of which {} are known here; {} is not; "
           "was it saved by another optimizer?",
           name_, state.size(), known.size(), first_beyond(state, known));

  const NoGradGuard no_grad;
  for (auto& [place, value] : tensors) {
    // Overwrite the existing memory, which captured steps use.
    if (place->defined() && value.defined()) {
      place->copy_(value);
    } else {
      *place = std::move(value);
    }
  }
  for (auto& [place, value] : options) {
    std::visit([number = value](
                   auto* to) { *to = static_cast<std::remove_pointer_t<decltype(to)>>(number); },
               place);
  }
  scheduler_options_ = std::move(scheduler_options);
}

}  // namespace dl::optim
