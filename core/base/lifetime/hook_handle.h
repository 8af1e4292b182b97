// HookHandle: removes a hook, a function that was registered with a tensor or a module.
//
// It may outlive the tensor or module. Its destructor does not remove the hook. Thread-safety: as
// for the tensor or the module.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace dl {

class HookHandle {
 public:
  HookHandle() = default;
  // For classes that store hooks: `erase(hooks, id)` removes hook `id` from the list. The pointer
  // is weak, because the handle may outlive the list.
  using Erase = void (*)(void* hooks, std::uint64_t id);
  HookHandle(std::weak_ptr<void> hooks, Erase erase, std::uint64_t id)
      : hooks_(std::move(hooks)), erase_(erase), id_(id) {}

  // Removes the hook; a second call does nothing.
  void remove() {
    if (const std::shared_ptr<void> hooks = hooks_.lock()) erase_(hooks.get(), id_);
    hooks_.reset();
  }

 private:
  std::weak_ptr<void> hooks_;
  Erase erase_ = nullptr;
  std::uint64_t id_ = 0;
};

}  // namespace dl
