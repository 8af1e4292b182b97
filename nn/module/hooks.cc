// Functions that run before and after a module's forward().
#include <algorithm>
#include <list>
#include <utility>

#include "core/tape/arrangement.h"
#include "nn/module/computed.h"
#include "nn/module/module.h"

namespace dl::nn {

struct detail::ModuleHooks {
  template <typename Hook>
  struct Entry {
    std::uint64_t id;
    Hook hook;
  };
  std::vector<Entry<Module::ForwardPreHook>> before;
  std::vector<Entry<Module::ForwardHook>> after;
  struct Computation {
    std::string name;
    Computed::Function compute;
  };
  std::vector<Computation> computations;
  std::uint64_t next_id = 1;
};

namespace {
thread_local constinit bool is_paused = false;

template <typename List>
auto find_name(List& list, std::string_view name) {
  return std::ranges::find(list, name, [](const auto& each) -> const std::string& {
    if constexpr (requires { each.entry; }) {
      return each.entry.name;
    } else {
      return each.name;
    }
  });
}

void erase_hook(void* list, std::uint64_t id) {
  auto& hooks = *static_cast<detail::ModuleHooks*>(list);
  std::erase_if(hooks.before, [id](const auto& entry) { return entry.id == id; });
  std::erase_if(hooks.after, [id](const auto& entry) { return entry.id == id; });
}
}  // namespace

detail::ModuleHooks& Module::hooks() {
  tape::rearranged();
  if (!hooks_) hooks_ = std::make_shared<detail::ModuleHooks>();
  return *hooks_;
}

bool Module::hooks_is_empty() const noexcept {
  return hooks_->before.empty() && hooks_->after.empty();
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  check_not_moved("register_forward_pre_hook");
  DL_CHECK(hook != nullptr, kInvalidArgument, "{}: register_forward_pre_hook: there is no function",
           type_name());
  const std::uint64_t id = hooks().next_id++;
  hooks().before.push_back({id, std::move(hook)});
  return {hooks_, erase_hook, id};
}

HookHandle Module::register_forward_hook(ForwardHook hook) {
  check_not_moved("register_forward_hook");
  DL_CHECK(hook != nullptr, kInvalidArgument, "{}: register_forward_hook: there is no function",
           type_name());
  const std::uint64_t id = hooks().next_id++;
  hooks().after.push_back({id, std::move(hook)});
  return {hooks_, erase_hook, id};
}

Tensor Module::call_with_hooks(const Tensor& input) {
  run_computations();
  if (hooks_is_empty()) return forward(input);
  dl::detail::not_repeatable("a module's hook runs");
  // Copies: a hook may register or remove hooks.
  const auto before = hooks_->before;
  const auto after = hooks_->after;
  Tensor x = input;
  for (const auto& entry : before) {
    if (Tensor changed = entry.hook(*this, x); changed.defined()) x = std::move(changed);
  }
  Tensor y = forward(x);
  for (const auto& entry : after) {
    if (Tensor changed = entry.hook(*this, x, y); changed.defined()) y = std::move(changed);
  }
  return y;
}

void Module::run_computations() {
  check_not_moved("compute_parameters");
  if (is_paused) return;
  for (const auto& [name, compute] : hooks_->computations) {
    find_name(computed_, name)->tensor = compute(*this);
  }
}

void detail::Computed::begin(Module& module, std::string_view name, Function compute) {
  auto& parameters = module.parameters_;
  module.computed_.splice(module.computed_.end(), parameters, find_name(parameters, name));
  module.hooks().computations.push_back({std::string(name), std::move(compute)});
}

void detail::Computed::end(Module& module, std::string_view name, Tensor parameter) {
  auto& computations = module.hooks().computations;
  computations.erase(find_name(computations, name));
  const auto entry = find_name(module.computed_, name);
  entry->tensor = std::move(parameter);
  module.parameters_.splice(module.parameters_.end(), module.computed_, entry);
}

void detail::Computed::drop(Module& module, std::string_view name) {
  tape::rearranged();
  std::erase_if(module.parameters_, [&](const NamedTensor& each) { return each.name == name; });
  std::erase_if(module.buffers_, [&](const auto& each) { return each.entry.name == name; });
}

std::vector<std::string> detail::Computed::names(const Module& module) {
  std::vector<std::string> names;
  for (const NamedTensor& each : module.computed_) names.push_back(each.name);
  return names;
}

Tensor* detail::Computed::find(Module& module, std::string_view name) {
  const auto found = find_name(module.computed_, name);
  return found == module.computed_.end() ? nullptr : &found->tensor;
}

Tensor* detail::Computed::find_registered(Module& module, std::string_view name) {
  const auto parameter = find_name(module.parameters_, name);
  if (parameter != module.parameters_.end()) return &parameter->tensor;
  const auto buffer = find_name(module.buffers_, name);
  return buffer == module.buffers_.end() ? nullptr : &buffer->entry.tensor;
}

detail::Computed::Pause::Pause() : before_(std::exchange(is_paused, true)) {}
detail::Computed::Pause::~Pause() {
  is_paused = before_;
}

}  // namespace dl::nn
