// Sequential: modules one after another.
//
//     nn::Sequential model{nn::Linear(50, 30), nn::ReLU(), nn::Linear(30, 3)};
//
// The list stands in braces, because C++ evaluates a braced list from left to right and the layers
// so draw their initial weights in that order; arguments in parentheses have no order, and do not
// compile. The modules are named "0", "1", ..., or as given: {{"fc", nn::Linear(50, 30)}, ...}.
//
// A list of nothing but one Sequential is a Sequential that holds it for GCC, and that one itself
// for clang (C++ core issues 2137 and 2311 disagree): add() it instead.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "nn/module/module.h"

namespace dl::nn {

// Calls the modules one after another; the input itself if there are none. A module and the
// activation after or before it are computed in one pass if the module can (Module::can_fuse): the
// bits are the same, and the data is read and written once less, forward and backward. An
// activation between two modules goes to the one after it if both could take it. For containers of
// your own.
Tensor forward_chain(std::span<Module* const> modules, const Tensor& input);

class Sequential : public Module {
 public:
  // A module on its way into a Sequential.
  class Entry {
   public:
    template <std::derived_from<Module> M>
    Entry(M module)  // NOLINT(google-explicit-constructor)
        : module_(std::make_unique<M>(std::move(module))) {}
    template <std::derived_from<Module> M>
    Entry(std::string name, M module)
        : name_(std::move(name)), module_(std::make_unique<M>(std::move(module))) {}

   private:
    friend class Sequential;
    std::string name_;
    // An initializer_list gives its elements as const; this one is taken out of it once.
    mutable std::unique_ptr<Module> module_;
  };

  Sequential() = default;
  Sequential(std::initializer_list<Entry> modules);

  // Appends a module under the next number, or under a name of its own; returns it where it now is.
  template <std::derived_from<Module> M>
  M& add(M module) {
    return register_module(std::to_string(size()), std::move(module));
  }
  template <std::derived_from<Module> M>
  M& add(std::string name, M module) {
    return register_module(std::move(name), std::move(module));
  }

  std::size_t size() const {
    check_not_moved("size");
    return child_count();
  }
  // Throws kIndex.
  Module& operator[](std::size_t index) const;
  // The same as what it is: model.at<nn::Linear>(0). Throws kInvalidArgument where it is another.
  template <std::derived_from<Module> M>
  M& at(std::size_t index) const {
    Module& found = (*this)[index];
    auto* const typed = dynamic_cast<M*>(&found);
    DL_CHECK(typed != nullptr, kInvalidArgument,
             "Sequential: module {} is a {}, not what was asked for", index, found.type_name());
    return *typed;
  }

  // As forward_chain().
  Tensor forward(const Tensor& input) override;
};

}  // namespace dl::nn
