// Sequential: modules one after another.
//
//     nn::Sequential model{nn::Linear(50, 30), nn::ReLU(), nn::Linear(30, 3)};
//
// Use braces: C++ evaluates a braced list from left to right, so the layers draw their initial
// weights in order. Arguments in parentheses have no defined order and do not compile. The modules
// are named "0", "1", ..., or as given: {{"fc", nn::Linear(50, 30)}, ...}.
//
// A braced list of a single Sequential is a Sequential that contains it for GCC, but the inner
// Sequential itself for clang (C++ core issues 2137 and 2311): use add() instead.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "nn/module/module.h"
#include "nn/module/module_list.h"

namespace dl::nn {

// Calls the modules in order; returns the input if there are none. A module is fused with the
// activation after or before it if possible (Module::can_fuse): on a CPU the bits are the same; the
// data is read and written once less, forward and backward. If both neighbours could fuse an
// activation, the one after it does. For containers of your own.
Tensor forward_chain(std::span<Module* const> modules, const Tensor& input);

class Sequential : public ModuleList {
 public:
  using Entry = ModuleEntry;

  Sequential() = default;
  Sequential(std::initializer_list<ModuleEntry> modules) : ModuleList(modules) {}

  using ModuleList::add;
  // Appends a module under a name, and returns a reference to it.
  template <std::derived_from<Module> M>
  M& add(std::string name, M module) {
    return register_module(std::move(name), std::move(module));
  }

  // See forward_chain().
  Tensor forward(const Tensor& input) override;

 protected:
  bool joins_equal_children() const override { return false; }
};

}  // namespace dl::nn
