// Converts an optimizer's state to and from PyTorch's format.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/base/text/printable.h"
#include "core/tensor/factories.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/state/state_names.h"
#include "nn/optim/state/state_writer.h"
#include "nn/serialize/value.h"

namespace dl::optim {
namespace {

using nn::Value;

// Options of a PyTorch group that are ignored, because they only say how a step is computed.
constexpr std::array<std::string_view, 5> kWithoutMeaning = {"foreach", "fused", "capturable",
                                                             "differentiable", "param_names"};

// "betas.1" is element 1 of the option betas, which PyTorch keeps as a tuple.
std::string_view torch_name_of(std::string_view option) {
  return option.substr(0, option.find('.'));
}

bool is_off(const Value& value) {
  return value.is_none() || (value.is_bool() && !value.as_bool());
}

}  // namespace

Value Optimizer::torch_state_dict() const {
  // The references are only read here.
  auto& self = const_cast<Optimizer&>(*this);
  Value::Dict state;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    Value::Dict tensors;
    for (const StateRef& ref : self.state_of(p)) {
      if (ref.tensor->defined()) tensors.push_back({ref.name, *ref.tensor});
    }
    if (!tensors.empty()) state.push_back({p, std::move(tensors)});
  }
  Value::List groups;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Value::Dict group;
    Value::List elements;  // of the current option, if it is a tuple
    const std::vector<OptionRef> options = self.options_of(g);
    for (std::size_t i = 0; i < options.size(); ++i) {
      const std::string_view name = torch_name_of(options[i].name);
      Value value = std::visit([](const auto* held) { return Value(*held); }, options[i].value);
      if (name == options[i].name) {
        group.push_back({name, std::move(value)});
        continue;
      }
      elements.push_back(std::move(value));
      if (i + 1 < options.size() && torch_name_of(options[i + 1].name) == name) continue;
      group.push_back({name, Value::Tuple{std::exchange(elements, {})}});
    }
    for (std::size_t i = 0; i < kSchedulerOptionCount; ++i) {
      const std::optional<double>& value = scheduler_options_[g][i];
      if (value) group.push_back({kSchedulerOptionNames[i], *value});
    }
    Value::List params;
    for (std::size_t p = groups_[g].begin; p < groups_[g].end; ++p) params.emplace_back(p);
    group.push_back({"params", std::move(params)});
    groups.emplace_back(std::move(group));
  }
  return Value::Dict{{"state", std::move(state)}, {"param_groups", std::move(groups)}};
}

void Optimizer::flatten_group(const Value& group, std::size_t g, nn::StateDict& flat) {
  const auto add = [&](std::string_view name, const Value& value) {
    const std::optional<double> number = value.number();
    DL_CHECK(number, kMismatch,
             "{}: load_state_dict: {} of parameter group {} is {}, wanted a number", name_,
             quoted_name(name), g, value.type_name());
    flat.push_back({option_key(g, name), tensor(*number, {.dtype = DType::kF64})});
  };
  for (const auto& [key, value] : group.as_dict()) {
    const std::string& name = key.as_string();
    if (name == kParams || std::ranges::count(kWithoutMeaning, name) > 0) continue;
    std::vector<std::string_view> own;  // the option's names here
    for (const OptionRef& ref : options_of(g)) {
      if (torch_name_of(ref.name) == name) own.push_back(ref.name);
    }
    if (is_scheduler_option(name)) own = {name};
    if (own.size() == 1 && own.front() == name) {
      add(name, value);
    } else if (!own.empty()) {
      const bool fits =
          (value.is_tuple() || value.is_list()) && value.as_list().size() == own.size();
      DL_CHECK(fits, kMismatch,
               "{}: load_state_dict: {} of parameter group {} is {}, wanted {} numbers", name_,
               quoted_name(name), g, value.type_name(), own.size());
      for (std::size_t i = 0; i < own.size(); ++i) add(own[i], value.as_list()[i]);
    } else {
      const bool wanted = fixed_option(name).value_or(false);
      DL_CHECK(
          wanted == !is_off(value), kMismatch,
          "{}: load_state_dict: {} is {} in parameter group {}, and dlrun's {} is always {} it",
          name_, quoted_name(name), wanted ? "off" : "set", g, name_, wanted ? "with" : "without");
    }
  }
}

void Optimizer::load_value(const Value& saved) {
  const Value* const groups = saved.find(kParamGroups);
  if (groups == nullptr) {
    // dlrun's own state_dict() in a file of PyTorch's format.
    load_state_dict(saved.as_state_dict());
    return;
  }
  DL_CHECK(groups->as_list().size() == groups_.size(), kMismatch,
           "{}: load_state_dict: the state has {} parameter groups, wanted {}", name_,
           groups->as_list().size(), groups_.size());
  StateNames given;
  for (const Value& group : groups->as_list()) {
    for (const auto& [key, value] : group.as_dict()) {
      const std::string& name = key.as_string();
      if (std::ranges::count(kWithoutMeaning, name) > 0 || fixed_option(name)) continue;
      given.add_option(name);
      if (is_off(value)) given.off.push_back(name);
    }
  }
  for (const auto& [number, tensors] : saved.at("state").as_dict()) {
    for (const auto& [key, value] : tensors.as_dict()) given.add_tensor(key.as_string());
  }
  if (const std::string text = told_apart(name_, own_names(), given); !text.empty()) {
    throw_error(ErrorKind::kMismatch, "{}: load_state_dict: {}", name_, text);
  }
  nn::StateDict flat;
  // PyTorch's numbers of parameters are arbitrary; their order identifies the parameters.
  std::unordered_map<std::int64_t, std::size_t> places;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Value& group = groups->as_list()[g];
    flatten_group(group, g, flat);
    std::vector<std::int64_t> indices;
    for (const Value& number : group.at(kParams).as_list()) {
      const std::size_t place = places.size();
      places.emplace(number.as_int(), place);
      indices.push_back(static_cast<std::int64_t>(place));
    }
    flat.push_back({option_key(g, kParams), tensor(indices)});
  }
  for (const auto& [number, tensors] : saved.at("state").as_dict()) {
    const auto place = places.find(number.as_int());
    DL_CHECK(place != places.end(), kMismatch,
             "{}: load_state_dict: the state has tensors of parameter {}, which no group names",
             name_, number.as_int());
    for (const auto& [key, value] : tensors.as_dict()) {
      if (value.is_none()) continue;  // SGD's momentum_buffer before PyTorch 2.0
      const std::string& name = key.as_string();
      const std::optional<double> count = value.is_tensor() ? std::nullopt : value.number();
      DL_CHECK(value.is_tensor() || count, kMismatch,
               "{}: load_state_dict: {} of parameter {} is {}, wanted a tensor", name_,
               quoted_name(name), number.as_int(), value.type_name());
      flat.push_back({state_key(place->second, name),
                      count ? tensor(static_cast<float>(*count)) : value.as_tensor()});
    }
  }
  load_state_dict(flat);
}

}  // namespace dl::optim
