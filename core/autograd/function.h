// Function: an operation that the user defines, with its own gradient, spelled as in libtorch.
//
//     using namespace dl::autograd;
//     struct Scale : Function<Scale> {
//       static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, double k) {
//         ctx->save_for_backward({x, w});
//         ctx->saved_data["k"] = k;
//         return x * w * k;
//       }
//       static TensorList backward(AutogradContext* ctx, TensorList grads) {
//         const TensorList saved = ctx->get_saved_variables();
//         const double k = std::any_cast<double>(ctx->saved_data["k"]);
//         return {grads[0] * saved[1] * k, grads[0] * saved[0] * k, Tensor()};
//       }
//     };
//
// `Scale::apply(x, w, 2.0)` calls it. forward() returns a Tensor or a TensorList, and runs without
// recording. backward() gets a gradient for each output and returns one for each argument of
// forward(), with the argument's shape, dtype and device. It returns an undefined tensor for an
// argument that is not a tensor or needs no gradient. A std::optional<Tensor> is one argument,
// undefined if it is empty; a range of tensors (TensorList, std::span, std::array) counts as one
// argument for each of its tensors. Pointers to tensors and pairs, tuples, variants and maps of
// them do not compile; tensors inside other classes are constants, like numbers. A printed result
// shows the name as Python does: grad_fn=<ScaleBackward>.
//
// In a pass with create_graph backward() is recorded. Saved arguments and results have their
// history then; a saved intermediate result of forward() is a constant, as in PyTorch. A function
// whose backward() cannot be differentiated, as it uses data() or item() or such an intermediate,
// says `static constexpr bool kOnceDifferentiable = true;`, and the pass throws kNotImplemented.
//
// Throws kInvalidArgument, kShape or kDType from the backward pass if backward() returns a wrong
// number of gradients, or a gradient of the wrong shape, dtype or device.
// Thread-safety: one thread at a time uses a graph and its functions.
#pragma once

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/node.h"

namespace dl::detail {

// How an argument of apply() holds tensors.
enum class Holds : std::uint8_t { kNothing, kTensor, kOptional, kRange, kUnknown };

template <typename T>
consteval Holds holds();

// The element types of std::pair, std::tuple, std::variant and std::optional.
template <typename T>
struct MembersOf {
  static constexpr bool kHoldTensors = false;
};
template <template <typename...> typename Class, typename... Members>
  requires(std::same_as<Class<Members...>, std::tuple<Members...>> ||
           std::same_as<Class<Members...>, std::variant<Members...>>)
struct MembersOf<Class<Members...>> {
  static constexpr bool kHoldTensors = (... || (holds<Members>() != Holds::kNothing));
};
template <typename First, typename Second>
struct MembersOf<std::pair<First, Second>> : MembersOf<std::tuple<First, Second>> {};

template <typename T>
struct OptionalOf {
  static constexpr Holds kHolds = Holds::kNothing;
};
template <typename Value>
struct OptionalOf<std::optional<Value>> {
  static constexpr Holds kHolds = holds<Value>();
};

template <typename Range>
consteval Holds elements_of() {
  using Element = std::remove_cv_t<std::ranges::range_value_t<Range>>;
  // A path is a range of paths.
  if constexpr (std::same_as<Element, std::remove_cv_t<Range>>) {
    return Holds::kNothing;
  } else {
    return holds<Element>();
  }
}

template <typename T>
consteval Holds holds() {
  if constexpr (std::is_convertible_v<const T&, const Tensor&>) {
    return Holds::kTensor;  // also a class derived from Tensor, and a std::reference_wrapper
  } else if constexpr (OptionalOf<std::remove_cv_t<T>>::kHolds != Holds::kNothing) {
    return OptionalOf<std::remove_cv_t<T>>::kHolds == Holds::kUnknown ? Holds::kUnknown
                                                                      : Holds::kOptional;
  } else if constexpr (std::ranges::input_range<const T>) {
    constexpr Holds elements = elements_of<const T>();
    return elements == Holds::kNothing || elements == Holds::kUnknown ? elements : Holds::kRange;
  } else if constexpr (std::ranges::range<T>) {
    return elements_of<T>() == Holds::kNothing ? Holds::kNothing : Holds::kUnknown;
  } else if constexpr (requires(const T& value) {
                         { *value } -> std::convertible_to<const Tensor&>;
                       }) {
    return Holds::kUnknown;
  } else {
    return MembersOf<std::remove_cv_t<T>>::kHoldTensors ? Holds::kUnknown : Holds::kNothing;
  }
}

}  // namespace dl::detail

namespace dl::autograd {

using TensorList = std::vector<Tensor>;
class FunctionNode;

// Passes values from forward() to backward().
class AutogradContext {
 public:
  // Values other than tensors, for example numbers, texts and shapes.
  std::map<std::string, std::any> saved_data;

  // Saves inputs, outputs or intermediate tensors; replaces those of an earlier call. They are
  // freed after the backward pass, unless it retains the graph.
  void save_for_backward(TensorList tensors) { to_save_ = std::move(tensors); }
  // In backward(): the saved tensors. Throws kInvalidArgument if one was changed in place since, or
  // if they are freed.
  TensorList get_saved_variables() const;

  // In forward(): names the inputs that it changed in place. forward() has to return each of them,
  // else apply() throws kInvalidArgument.
  void mark_dirty(TensorList inputs) { dirty_ = std::move(inputs); }
  // In forward(): names the outputs that get no history. Outputs of integers and bool never do.
  void mark_non_differentiable(TensorList outputs) { constants_ = std::move(outputs); }
  // True (the default): backward() gets zeros of the output's shape and dtype for an output without
  // a gradient; false: an undefined tensor.
  void set_materialize_grads(bool materialize) noexcept { materializes_ = materialize; }

  // Whether this argument of forward() needs a gradient; false for one that is not a tensor. A
  // range of tensors counts as several arguments. Throws kIndex for a number that is too large.
  bool needs_input_grad(std::size_t argument) const;

 private:
  friend class FunctionNode;
  FunctionNode* node_ = nullptr;              // the owner
  const BackwardContext* running_ = nullptr;  // in backward()
  TensorList to_save_;
  TensorList dirty_;
  TensorList constants_;
  bool materializes_ = true;
};

// A call of a function, and its node in the graph.
class FunctionNode final : public Node {
 public:
  using Backward = TensorList (*)(AutogradContext*, TensorList);
  FunctionNode(const std::type_info& function, Backward gradient, bool once_differentiable);

  std::string_view name() const noexcept override { return name_; }
  std::string grad_fn_name() const override { return name_ + "Backward"; }
  void backward(BackwardContext& context) override;
  void backward_recorded(BackwardContext& context) override;
  void release_saved() noexcept override;

  // apply() calls these with the arguments in order, then begin(), forward() and finish().
  template <typename T>
  void add_argument(const T& argument) {
    using detail::Holds;
    constexpr Holds held = detail::holds<T>();
    static_assert(held != Holds::kUnknown,
                  "Function::apply: a tensor inside this argument would get no gradient; pass "
                  "tensors as Tensor, std::optional<Tensor> or a range of Tensors, and values that "
                  "need no gradient in a class of your own");
    if constexpr (held == Holds::kTensor) {
      inputs_.push_back({true, argument});
    } else if constexpr (held == Holds::kOptional) {
      if (argument) {
        add_argument(*argument);
      } else if constexpr (detail::holds<typename T::value_type>() == Holds::kTensor) {
        inputs_.push_back({true, Tensor()});
      }
    } else if constexpr (held == Holds::kRange) {
      for (const auto& each : argument) add_argument(each);
    } else {
      inputs_.push_back({});
    }
  }
  void begin();
  // Records the outputs. May replace an output by a view that shares its memory, if it shares
  // memory with an argument or with another output.
  void finish(TensorList& outputs);

  AutogradContext& context() noexcept { return context_; }

 private:
  friend class AutogradContext;
  // The shape, dtype and device that a gradient must have.
  struct Form {
    Shape shape;
    DType dtype = DType::kF32;
    Device device{};
    bool is_defined = false;
  };
  struct Input {
    bool is_tensor = false;
    Tensor tensor{};  // until finish()
    Form form{};
  };
  static Form form_of(const Tensor& tensor);
  bool is_listed(const TensorList& list, const Tensor& tensor) const noexcept;
  bool is_argument(const Tensor& tensor) const noexcept;
  // An output is an argument that forward() changed in place, a constant, or an ordinary tensor.
  // kLeft: it is undefined, or both changed and a constant, and is not recorded.
  enum class Kind : std::uint8_t { kLeft, kChanged, kConstant, kOrdinary };
  using Kinds = std::vector<Kind>;
  Kinds kinds_of(const TensorList& outputs) const;
  Saved saved_of(const Tensor& tensor, const TensorList& outputs, const Kinds& kinds) const;
  void check_dirty(const TensorList& outputs) const;
  const Tensor* argument_in(const Ref<Storage>& memory) const noexcept;
  void tie(TensorList& outputs, const Kinds& kinds) const;
  void check_gradient(const Tensor& gradient, std::size_t argument) const;

  std::string name_;
  Backward backward_;
  bool once_differentiable_;
  AutogradContext context_;
  bool recorded_ = false;
  std::vector<Input> inputs_;
  std::vector<Form> outputs_;
  std::vector<Saved> saved_tensors_;
};

template <typename T>
struct Function {
  // Calls T::forward(context, arguments...).
  template <typename... Args>
  static auto apply(Args&&... args) {
    const Ref<FunctionNode> node =
        make_ref<FunctionNode>(typeid(T), &T::backward, is_once_differentiable());
    (node->add_argument(args), ...);
    node->begin();
    if constexpr (std::is_same_v<decltype(forward_of(*node, args...)), Tensor>) {
      TensorList outputs{forward_of(*node, args...)};
      node->finish(outputs);
      return std::move(outputs[0]);
    } else {
      TensorList outputs = forward_of(*node, args...);
      node->finish(outputs);
      return outputs;
    }
  }

 private:
  static consteval bool is_once_differentiable() {
    if constexpr (requires { T::kOnceDifferentiable; }) {
      return T::kOnceDifferentiable;
    } else {
      return false;
    }
  }
  template <typename... Args>
  static auto forward_of(FunctionNode& node, Args&&... args) {
    const NoGradGuard no_grad;
    return T::forward(&node.context(), std::forward<Args>(args)...);
  }
};

}  // namespace dl::autograd
