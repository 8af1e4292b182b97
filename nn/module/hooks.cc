// Functions that run before and after a module's forward().
#include <algorithm>

#include "core/tape/arrangement.h"
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
  std::uint64_t next_id = 1;
};

namespace {
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

}  // namespace dl::nn
