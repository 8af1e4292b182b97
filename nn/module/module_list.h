// Containers: ModuleList, ModuleDict, ParameterList. They own their entries and compute nothing;
// Sequential (sequential.h) is a ModuleList that can be called.
//
//     class Net : public nn::Module {
//      public:
//       Tensor forward(const Tensor& x) override {
//         Tensor y = x;
//         for (std::size_t i = 0; i < layers.size(); ++i) y = layers[i](y);
//         return y;
//       }
//       nn::ModuleList& layers = register_module("layers", nn::ModuleList{nn::Linear(8, 8),
//       nn::ReLU()});
//     };
//
// Their entries' names are PyTorch's: "layers.0.weight".
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/module/module.h"

namespace dl::nn {

// A module, optionally with a name, as an argument of a container's constructor.
class ModuleEntry {
 public:
  template <std::derived_from<Module> M>
  ModuleEntry(M module)  // NOLINT(google-explicit-constructor)
      : module_(std::make_unique<M>(std::move(module))) {}
  template <std::derived_from<Module> M>
  ModuleEntry(std::string name, M module)
      : name_(std::move(name)), module_(std::make_unique<M>(std::move(module))) {}

 private:
  friend class ModuleDict;
  friend class ModuleList;
  std::string name_;
  // Mutable, because an initializer_list has const elements and the module is moved out.
  mutable std::unique_ptr<Module> module_;
};

namespace detail {
[[noreturn]] void refuse_cast(const Module& container, std::string_view place, const Module& found);
}  // namespace detail

class ModuleList : public Module {
 public:
  ModuleList() = default;
  // The modules are named "0", "1", ..., or by their entries' names.
  ModuleList(std::initializer_list<ModuleEntry> modules);

  // Appends a module under the next number, and returns a reference to it.
  template <std::derived_from<Module> M>
  M& add(M module) {
    return register_module(std::to_string(size()), std::move(module));
  }
  // Aliases of add(), as in PyTorch and libtorch. append() returns the list, so that calls can be
  // chained; an entry with a name, {"fc", nn::Linear(2, 2)}, keeps it.
  ModuleList& append(ModuleEntry module);
  void push_back(ModuleEntry module) { append(std::move(module)); }

  std::size_t size() const {
    check_not_moved("size");
    return child_count();
  }
  // Throws kIndex.
  Module& operator[](std::size_t index) const;
  // The module with its type: model.at<nn::Linear>(0). Throws kInvalidArgument if it has another
  // type.
  template <std::derived_from<Module> M>
  M& at(std::size_t index) const {
    Module& found = (*this)[index];
    auto* const typed = dynamic_cast<M*>(&found);
    if (typed == nullptr) detail::refuse_cast(*this, std::to_string(index), found);
    return *typed;
  }

 protected:
  bool joins_equal_children() const override { return true; }
};

class ModuleDict : public Module {
 public:
  ModuleDict() = default;
  // {{"linear", nn::Linear(2, 2)}, ...}. Throws kInvalidArgument for an entry without a name.
  ModuleDict(std::initializer_list<ModuleEntry> modules);

  template <std::derived_from<Module> M>
  M& add(std::string name, M module) {
    return register_module(std::move(name), std::move(module));
  }
  std::size_t size() const {
    check_not_moved("size");
    return child_count();
  }
  bool contains(std::string_view name) const;
  // In the order in which they were added.
  std::vector<std::string> keys() const;
  // Throws kNotFound with the existing names.
  Module& operator[](std::string_view name) const;
  template <std::derived_from<Module> M>
  M& at(std::string_view name) const {
    Module& found = (*this)[name];
    auto* const typed = dynamic_cast<M*>(&found);
    if (typed == nullptr) detail::refuse_cast(*this, "\"" + std::string(name) + "\"", found);
    return *typed;
  }
};

class ParameterList : public Module {
 public:
  ParameterList() = default;
  ParameterList(std::initializer_list<Tensor> parameters);

  // Appends a parameter under the next number, like register_parameter().
  Tensor& add(Tensor parameter);
  ParameterList& append(Tensor parameter);
  void push_back(Tensor parameter) { append(std::move(parameter)); }
  std::size_t size() const {
    check_not_moved("size");
    return parameters_.size();
  }
  // Throws kIndex.
  Tensor& operator[](std::size_t index) const;
  std::string extra_repr() const override;

 private:
  std::vector<Tensor*> parameters_;
};

}  // namespace dl::nn
