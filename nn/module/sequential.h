// Sequential: modules one after another.
//
//     nn::Sequential model{nn::Linear(50, 30), nn::ReLU(), nn::Linear(30, 3)};
//
// The list stands in braces, because C++ evaluates a braced list from left to right and the layers
// so draw their initial weights in that order; arguments in parentheses have no order, and do not
// compile. The modules are named "0", "1", ..., or as given: {{"fc", nn::Linear(50, 30)}, ...}.
//
// A braced list of a single Sequential means a Sequential that contains it for GCC, and this
// Sequential itself for clang (C++ core issues 2137 and 2311 disagree): use add() instead.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "nn/module/module.h"
#include "nn/module/module_list.h"

namespace dl::nn {

// Calls the modules one after another; the input itself if there are none. A module and the
// activation after or before it are computed in one pass if the module can (Module::can_fuse): the
// bits are the same, and the data is read and written once less, forward and backward. An
// activation between two modules goes to the one after it if both could take it. For containers of
// your own.
Tensor forward_chain(std::span<Module* const> modules, const Tensor& input);

class Sequential : public ModuleList {
 public:
  using Entry = ModuleEntry;

  Sequential() = default;
  Sequential(std::initializer_list<ModuleEntry> modules) : ModuleList(modules) {}

  using ModuleList::add;
  // Appends a module under a name of its own; returns it where it now is.
  template <std::derived_from<Module> M>
  M& add(std::string name, M module) {
    return register_module(std::move(name), std::move(module));
  }

  // As forward_chain().
  Tensor forward(const Tensor& input) override;

 protected:
  bool joins_equal_children() const override { return false; }
};

}  // namespace dl::nn
