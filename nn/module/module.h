// Module: a part of a network, with parameters, buffers and modules of its own inside.
//
//     class Net : public nn::Module {
//      public:
//       Tensor forward(const Tensor& x) override { return fc(relu(conv(x)).flatten(1)); }
//
//      private:
//       nn::Conv2d& conv = register_module("conv", nn::Conv2d(1, 32, 3, {.padding = 1}));
//       nn::ReLU& relu = register_module("relu", nn::ReLU());
//       nn::Linear& fc = register_module("fc", nn::Linear(32 * 28 * 28, 10));
//     };
//
// Ownership: a module owns what was registered in it, so a network is a tree, and a name is the way
// from its root: "conv.weight". register_module, register_parameter and register_buffer return
// references that stay valid as long as the module lives, also when it is moved; that is why a
// module can be returned from a function and handed to a container. What it was moved from holds
// nothing any more: a call of it and every member throw kInvalidArgument, but its own references
// still name tensors of the new one. Call a module as net(x), not net.forward(x), so that this is
// noticed of your own classes, too. A module is not copied: load its state_dict() into another one.
// Two layers share a parameter where the same Tensor is registered in (or assigned to) both.
//
// Order: parameters, buffers and modules are listed as PyTorch lists them: own ones first, in the
// order of their registration, then those of the modules inside, depth first. Members with
// initialisers, as above, are registered in the order in which they are declared, and so draw their
// initial weights in PyTorch's order.
//
// Thread-safety: none; one thread uses a module.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "core/args/linear_args.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn {

// What a layer computes together with an activation: kNone, kRelu, kGeluTanh.
using kernels::Activation;

class Module;
class Value;
struct Safetensors;
struct SkippedTensor;

struct NamedModule {
  std::string name;  // "" for the module that was asked
  Module* module;
};

struct BufferOptions {
  bool persistent = true;  // part of the state_dict
};

struct LoadStateOptions {
  bool strict = true;  // names must agree exactly
};

// What load_state_dict left alone with strict = false.
struct IncompatibleKeys {
  std::vector<std::string> missing;     // in the module, not in the state
  std::vector<std::string> unexpected;  // in the state, not in the module
};

// Activations before and after a module.
struct Fusion {
  Activation before = Activation::kNone;
  Activation after = Activation::kNone;
};

namespace detail {
struct ModuleHooks;
}  // namespace detail

using dl::HookHandle;

class Module {
 public:
  Module() = default;
  Module(Module&& other) noexcept;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  // What the module computes. A module that takes other arguments than one tensor declares a
  // forward() of its own instead; this one then throws kNotImplemented.
  virtual Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input) {
    check_not_moved("a call");
    if (hooks_) [[unlikely]]
      return call_with_hooks(input);
    return forward(input);
  }

  // Functions that a call module(x) runs before and after forward(). A tensor that one returns
  // takes the place of the input or output; an undefined one changes nothing. They run in the order
  // of their registration, until their handle removes them; a module with hooks is not computed in
  // one pass with another. A direct call of forward() runs none.
  using ForwardPreHook = std::function<Tensor(Module& module, const Tensor& input)>;
  using ForwardHook =
      std::function<Tensor(Module& module, const Tensor& input, const Tensor& output)>;
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  bool has_forward_hooks() const noexcept { return hooks_ != nullptr && !hooks_is_empty(); }

  // What a container needs to compute this module and the activation beside it in one pass; see
  // forward_chain() in sequential.h. A class that overrides forward() inherits these functions, so
  // each of them must look at the object's class and not only at its own.

  // The activation that forward() computes, if it computes nothing else.
  virtual Activation activation() const { return Activation::kNone; }
  // Whether forward_fused() takes these activations, of which one at least is not kNone.
  virtual bool can_fuse(const Fusion&) const { return false; }
  // after(forward(before(input))) in one pass, with the bits of three. Throws kNotImplemented for
  // what can_fuse() refuses.
  virtual Tensor forward_fused(const Tensor& input, const Fusion& fusion);

  // Names contain no dot, are not empty, and are used once in a module: kInvalidArgument.
  template <std::derived_from<Module> M>
  M& register_module(std::string name, M module) {
    auto owned = std::make_unique<M>(std::move(module));
    M& result = *owned;
    adopt(std::move(name), std::move(owned));
    return result;
  }
  // Puts `module` in the place of the registered one at `path`, "fc" or "features.0" from here; the
  // order of modules stays. Returns it where it now is. A reference to the module that was there
  // names the new one if both have the same class, which can be moved without an exception. Else a
  // call through it throws kInvalidArgument; containers look their modules up, and take any class.
  // References to its tensors name undefined ones. Make the optimizer after it. Throws kNotFound.
  template <std::derived_from<Module> M>
  M& replace_module(std::string_view path, M module) {
    module.check_not_moved("a registration in another module");
    const Place place = place_of(path);
    if constexpr (std::is_nothrow_move_constructible_v<M>) {
      if (Module& old = place.module(); typeid(old) == typeid(M)) {
        M& here = static_cast<M&>(old);
        auto before = std::make_unique<M>(std::move(here));
        std::destroy_at(&here);
        std::construct_at(&here, std::move(module));
        place.parent->retire(std::move(before));
        return here;
      }
    }
    auto owned = std::make_unique<M>(std::move(module));
    M& result = *owned;
    place.parent->retire(
        std::exchange(place.parent->children_[place.index].module, std::move(owned)));
    return result;
  }
  // Turns requires_grad on. An undefined tensor holds the name's place and is listed nowhere.
  // Throws kDType for a tensor that is not floating.
  Tensor& register_parameter(std::string name, Tensor value);
  Tensor& register_buffer(std::string name, Tensor value, BufferOptions options = {});

  // The module's own, or all (each tensor once, under its first name).
  StateDict named_parameters(bool recurse = true) const;
  StateDict named_buffers(bool recurse = true) const;
  std::vector<Tensor> parameters() const;
  std::vector<Tensor> buffers() const;
  // This module first, then all inside, depth first.
  std::vector<NamedModule> named_modules();
  // The modules registered in this module itself.
  std::vector<NamedModule> named_children();
  // By the way from here: "features.0", "features.0.weight". Throws kNotFound, naming what is
  // there.
  Module& get_submodule(std::string_view path);
  Tensor& get_parameter(std::string_view path);
  // Elements of all parameters, shared ones counted once.
  std::int64_t count_parameters() const;

  // Parameters and persistent buffers by name, without history; they share the module's memory.
  StateDict state_dict() const;
  // Copies the state's values into this module's tensors, converting dtypes. Nothing is written
  // unless all of it fits. Throws kMismatch, listing everything that is missing, unexpected or of
  // another shape.
  IncompatibleKeys load_state_dict(const StateDict& state, LoadStateOptions options = {});
  // Takes a file, as load_safetensors() returns it. Throws also, whatever `strict` says, if this
  // module has a tensor that the file holds and that was skipped; the text says why it was, and
  // names the file. Other skipped tensors count as unexpected.
  template <std::same_as<Safetensors> File>
  IncompatibleKeys load_state_dict(const File& file, LoadStateOptions options = {}) {
    return load(file.tensors, file.skipped, file.path, options);
  }
  // Takes a dict of tensors from a file, as load_pth() returns it. Throws kMismatch also for a
  // value that is none.
  template <std::same_as<Value> V>
  IncompatibleKeys load_state_dict(const V& state, LoadStateOptions options = {}) {
    return load_value(state, options);
  }

  // What dropout and its like ask; a new module is training.
  bool is_training() const {
    check_not_moved("is_training");
    return training_;
  }
  Module& train() { return set_training(true); }
  Module& eval() { return set_training(false); }

  void zero_grad(bool set_to_none = true) const;
  Module& requires_grad_(bool requires_grad = true);
  // Calls `visit` with every module, those inside before the one around them.
  Module& apply(const std::function<void(Module&)>& visit);
  // Converts floating parameters and buffers. A parameter of another dtype is another tensor, so
  // this comes before an optimizer is made of parameters().
  Module& to(DType dtype);
  // Moves all parameters and buffers. A parameter on another device is another tensor, so this too
  // comes before an optimizer is made.
  Module& to(Device device);
  // "cpu", "cuda" (the thread's current device) or "cuda:1"; throws kInvalidArgument for others.
  Module& to(std::string_view device);

  // As Python prints it: "Linear(in_features=50, out_features=30, bias=True)".
  std::string str() const;
  // The name in str() and in errors: the class's own, without namespaces.
  virtual std::string type_name() const;
  // What stands between the parentheses. Several lines give one line each.
  virtual std::string extra_repr() const { return {}; }

 protected:
  // Throws kInvalidArgument if another module was made by moving this one, or replaced it; `use` is
  // what was to be done with it. For members of derived classes that use their references.
  void check_not_moved(std::string_view use) const {
    if (gone_ != Gone::kNo) [[unlikely]]
      refuse_moved(use);
  }
  // Whether this object is an M, and not of a class derived from M.
  template <typename M>
  bool is_exactly() const noexcept {
    return typeid(*this) == typeid(M);
  }
  void adopt(std::string name, std::unique_ptr<Module> module);
  std::size_t child_count() const noexcept { return children_.size(); }
  Module& child(std::size_t index) const noexcept { return *children_[index].module; }
  const std::string& child_name(std::size_t index) const noexcept { return children_[index].name; }
  // Whether str() shows equal modules beside each other as one line, "(0-2): 3 x ...".
  virtual bool joins_equal_children() const { return false; }

 private:
  struct Child {
    std::string name;
    std::unique_ptr<Module> module;
  };
  struct Buffer {
    NamedTensor entry;
    bool persistent;
  };
  // A module inside of `parent`.
  struct Place {
    Module& module() const { return parent->child(index); }
    Module* parent;
    std::size_t index;
  };
  enum class Gone : std::uint8_t { kNo, kMoved, kReplaced };

  IncompatibleKeys load(const StateDict& state, std::span<const SkippedTensor> skipped,
                        std::string_view path, LoadStateOptions options);
  IncompatibleKeys load_value(const Value& state, LoadStateOptions options);
  // Throws kNotFound, naming what is there.
  std::size_t index_of(std::string_view name, std::string_view use, std::string_view path) const;
  Place place_of(std::string_view path);
  // Keeps a module that was replaced, without its tensors, for references that still name it.
  void retire(std::unique_ptr<Module> module);
  [[noreturn]] void refuse_moved(std::string_view use) const;
  Tensor call_with_hooks(const Tensor& input);
  bool hooks_is_empty() const noexcept;
  detail::ModuleHooks& hooks();
  std::vector<std::string> child_lines() const;
  void require_free_name(std::string_view kind, std::string_view name) const;
  Module& set_training(bool training);
  // visit(prefix, module) for this module and all inside; a prefix is "" or ends with a dot.
  template <typename M, typename Visit>
  static void walk(M& module, const std::string& prefix, std::string_view use, const Visit& visit);
  // Puts bring(tensor) in the place of every defined parameter and buffer.
  template <typename Bring>
  void replace_all(const Bring& bring);

  // Lists, because references to their tensors are handed out.
  std::list<NamedTensor> parameters_;
  std::list<Buffer> buffers_;
  std::vector<Child> children_;
  std::shared_ptr<detail::ModuleHooks> hooks_;  // shared, because handles may outlive the module
  bool training_ = true;
  Gone gone_ = Gone::kNo;
  std::vector<std::unique_ptr<Module>> replaced_;
};

std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace dl::nn
