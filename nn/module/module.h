// Module: a part of a network, with its parameters, buffers and submodules.
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
// Ownership: a module owns what is registered in it, so a network is a tree, and a name is a path
// from its root: "conv.weight". register_module, register_parameter and register_buffer return
// references that stay valid while the module lives, also if it is moved; so a module can be
// returned from a function or moved into a container. A moved-from module is empty: every call
// throws kInvalidArgument. Its references from register_*() now refer to the new module's tensors.
// Use net(x): net.forward(x) of your own class cannot detect a moved-from module. A module cannot
// be copied: load its state_dict() into another one. Two layers share a parameter if the same
// Tensor is registered in (or assigned to) both.
//
// Order: parameters, buffers and modules are listed as in PyTorch: own ones first, in order of
// registration, then those of submodules, depth first. Members with initialisers, as above, are
// registered in the order in which they are declared, and so draw their initial weights in
// PyTorch's order.
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

// An activation that a layer can fuse: kNone, kRelu, kGeluTanh.
using kernels::Activation;

class Module;
class Value;
struct Safetensors;
struct SkippedTensor;

struct NamedModule {
  std::string name;  // "" for the module itself
  Module* module;
};

struct BufferOptions {
  bool persistent = true;  // part of the state_dict
};

struct LoadStateOptions {
  bool strict = true;  // names must match exactly
};

// The names that load_state_dict() ignored with strict = false.
struct IncompatibleKeys {
  std::vector<std::string> missing;     // in the module, not in the state
  std::vector<std::string> unexpected;  // in the state, not in the module
};

// Activations before and after a module. A defined residual is added before the latter.
struct Fusion {
  Activation before = Activation::kNone;
  Activation after = Activation::kNone;
  Tensor residual{};

  bool is_relu_after() const noexcept {
    return before == Activation::kNone && after == Activation::kRelu;
  }
};

namespace detail {
struct ModuleHooks;
struct Computed;
}  // namespace detail

using dl::HookHandle;

class Module {
 public:
  Module() = default;
  Module(Module&& other) noexcept;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  // Computes the module. A module with other arguments than one tensor declares its own forward()
  // instead; this one then throws kNotImplemented.
  virtual Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input) {
    check_not_moved("a call");
    if (hooks_) [[unlikely]]
      return call_with_hooks(input);
    return forward(input);
  }

  // Hooks that a call module(x) runs before and after forward(). A defined result replaces the
  // input or output. Hooks run in order of registration, until their handle removes them. A module
  // with hooks is not fused with another. A direct call of forward() runs no hooks.
  using ForwardPreHook = std::function<Tensor(Module& module, const Tensor& input)>;
  using ForwardHook =
      std::function<Tensor(Module& module, const Tensor& input, const Tensor& output)>;
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  bool has_forward_hooks() const noexcept { return hooks_ != nullptr && !hooks_is_empty(); }
  // Computes the tensors that are computed from parameters (nn/utils/prune/prune.h). A call
  // module(x) does so first; before a direct call of forward(), call this.
  void compute_parameters() {
    if (hooks_) [[unlikely]]
      run_computations();
  }

  // For containers that fuse this module with an adjacent activation; see forward_chain() in
  // sequential.h. A class that overrides forward() inherits these functions, so each of them must
  // check the object's class, not only its own.

  // The activation, if forward() computes nothing else.
  virtual Activation activation() const { return Activation::kNone; }
  // True if forward_fused() supports these activations, at least one of which is not kNone, and the
  // residual.
  virtual bool can_fuse(const Fusion&) const { return false; }
  // Computes after(forward(before(input)) + residual) in one pass, on a CPU with the same bits as
  // in several. Throws kNotImplemented unless can_fuse().
  virtual Tensor forward_fused(const Tensor& input, const Fusion& fusion);

  // Names contain no dot, are not empty, and are used once in a module: kInvalidArgument.
  template <std::derived_from<Module> M>
  M& register_module(std::string name, M module) {
    auto owned = std::make_unique<M>(std::move(module));
    M& result = *owned;
    adopt(std::move(name), std::move(owned));
    return result;
  }
  // Replaces the submodule at `path` ("fc", "features.0") by `module`, keeping the order. Returns a
  // reference to the new submodule. A reference to the old one refers to the new one if both have
  // the same class and it is nothrow movable. Otherwise a call through it throws kInvalidArgument;
  // containers look up their modules, so they accept any class. References to the old tensors refer
  // to undefined ones. Make the optimizer afterwards. Throws kNotFound.
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
  // Turns requires_grad on. An undefined tensor reserves the name and is not listed. Throws kDType
  // for a tensor that is not floating.
  Tensor& register_parameter(std::string name, Tensor value);
  Tensor& register_buffer(std::string name, Tensor value, BufferOptions options = {});

  // The module's own parameters, or all with `recurse` (each tensor once, under its first name).
  StateDict named_parameters(bool recurse = true) const;
  StateDict named_buffers(bool recurse = true) const;
  std::vector<Tensor> parameters() const;
  std::vector<Tensor> buffers() const;
  // This module, then all submodules, depth first.
  std::vector<NamedModule> named_modules();
  std::vector<Module*> modules();
  // The modules registered in this module itself.
  std::vector<NamedModule> named_children();
  std::vector<Module*> children();
  // By path: "features.0", "features.0.weight". Throws kNotFound with the existing names.
  Module& get_submodule(std::string_view path);
  Tensor& get_parameter(std::string_view path);
  // Elements of all parameters, shared ones counted once.
  std::int64_t count_parameters() const;

  // Parameters and persistent buffers by name, without history; they share the module's memory.
  StateDict state_dict() const;
  // Copies the state's values into this module's tensors, converting dtypes. Nothing is written
  // unless all of it fits; a shared tensor may lack all names but one. Throws kMismatch, listing
  // everything that is missing, unexpected or of another shape.
  IncompatibleKeys load_state_dict(const StateDict& state, LoadStateOptions options = {});
  // Loads a file, as load_safetensors() returns it. Also throws, even with strict = false, if a
  // tensor of this module was skipped when the file was read; the text has the reason and the file.
  // Other skipped tensors count as unexpected.
  template <std::same_as<Safetensors> File>
  IncompatibleKeys load_state_dict(const File& file, LoadStateOptions options = {}) {
    return load(file.tensors, file.skipped, file.path, options);
  }
  // Loads a dict of tensors, as load_pth() returns it. Throws kMismatch also for another value.
  template <std::same_as<Value> V>
  IncompatibleKeys load_state_dict(const V& state, LoadStateOptions options = {}) {
    return load_value(state, options);
  }

  // The mode of dropout, batch norm and others; a new module is in training mode.
  bool is_training() const {
    check_not_moved("is_training");
    return training_;
  }
  Module& train() { return set_training(true); }
  Module& eval() { return set_training(false); }

  void zero_grad(bool set_to_none = true) const;
  Module& requires_grad_(bool requires_grad = true);
  // Calls `visit` with every module, submodules before their parent.
  Module& apply(const std::function<void(Module&)>& visit);
  // Converts floating parameters and buffers. Converted parameters are new tensors, so call it
  // before making an optimizer of parameters().
  Module& to(DType dtype);
  // Moves all parameters and buffers. Moved parameters are new tensors, so call it before making an
  // optimizer.
  Module& to(Device device);
  // "cpu", "cuda" (the thread's current device) or "cuda:1"; throws kInvalidArgument for others.
  Module& to(std::string_view device);

  // The text that Python prints: "Linear(in_features=50, out_features=30, bias=True)".
  std::string str() const;
  // The name in str() and in errors: the class's own, without namespaces.
  virtual std::string type_name() const;
  // The text between the parentheses; it may have several lines.
  virtual std::string extra_repr() const { return {}; }

 protected:
  // Throws kInvalidArgument if this module was moved from or replaced; `use` describes the
  // attempted operation. For members of derived classes that use their references.
  void check_not_moved(std::string_view use) const {
    if (gone_ != Gone::kNo) [[unlikely]]
      refuse_moved(use);
  }
  // Returns `number`, a member of this module. What is recorded of a call (nn/compile) is for this
  // value, until the module is destroyed: with another value the function is recorded again.
  double in_tape(const double& number) const;
  // True if this object's class is M itself, not a class derived from M.
  template <typename M>
  bool is_exactly() const noexcept {
    return typeid(*this) == typeid(M);
  }
  void adopt(std::string name, std::unique_ptr<Module> module);
  std::size_t child_count() const noexcept { return children_.size(); }
  Module& child(std::size_t index) const noexcept { return *children_[index].module; }
  const std::string& child_name(std::size_t index) const noexcept { return children_[index].name; }
  // True if str() shows equal adjacent modules as one line, "(0-2): 3 x ...".
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
  // The position of a submodule in `parent`.
  struct Place {
    Module& module() const { return parent->child(index); }
    Module* parent;
    std::size_t index;
  };
  enum class Gone : std::uint8_t { kNo, kMoved, kReplaced };

  IncompatibleKeys load(const StateDict& state, std::span<const SkippedTensor> skipped,
                        std::string_view path, LoadStateOptions options);
  IncompatibleKeys load_value(const Value& state, LoadStateOptions options);
  // Throws kNotFound with the existing names.
  std::size_t index_of(std::string_view name, std::string_view use, std::string_view path) const;
  Place place_of(std::string_view path);
  // Keeps a replaced module, without its tensors, for references to it.
  void retire(std::unique_ptr<Module> module);
  [[noreturn]] void refuse_moved(std::string_view use) const;
  Tensor call_with_hooks(const Tensor& input);
  bool hooks_is_empty() const noexcept;
  detail::ModuleHooks& hooks();
  void run_computations();
  std::vector<std::string> child_lines() const;
  void require_free_name(std::string_view kind, std::string_view name) const;
  Module& set_training(bool training);
  // Calls visit(prefix, module) for this module and all submodules; a prefix is "" or ends with a
  // dot.
  template <typename M, typename Visit>
  static void walk(M& module, const std::string& prefix, std::string_view use, const Visit& visit);
  // Replaces every defined parameter and buffer by bring(tensor).
  template <typename Bring>
  void replace_all(const Bring& bring);

  friend struct detail::Computed;

  // Lists, because users hold references to their tensors.
  std::list<NamedTensor> parameters_;
  std::list<NamedTensor> computed_;  // in the place of parameters
  std::list<Buffer> buffers_;
  std::vector<Child> children_;
  std::shared_ptr<detail::ModuleHooks> hooks_;  // shared, because handles may outlive the module
  bool training_ = true;
  Gone gone_ = Gone::kNo;
  std::vector<std::unique_ptr<Module>> replaced_;
  mutable std::shared_ptr<const Module> seen_;  // by tapes, which ask whether the module lives
};

std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace dl::nn
