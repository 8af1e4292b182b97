// LeafNode: where the gradients of one leaf gather. And what DDP asks of leaves.
//
// A leaf's gradient is final when every operation that used the leaf has run backward; the engine
// then runs the LeafNode, and after it the callbacks of on_grad_ready(); they run earlier, in the
// middle of the last operation, where that computed the gradient in its place. If the pass ends
// with an exception, every leaf that it used, or would have used, is told. With a destination, the
// gradient lives in that memory for good: zero_grad() marks it undefined without touching it, the
// first write after that stores, later ones add. Thread-safety: as for a tensor; callbacks run on
// the thread that called backward().
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "core/autograd/graph/node.h"
#include "core/base/first_error.h"

namespace dl::autograd {

// Calls without arguments, or with the exception that ended the pass.
using GradReady = std::function<void()>;
using GradFailed = std::function<void(const std::exception_ptr&)>;

class LeafNode final : public Node {
 public:
  explicit LeafNode(const Tensor& leaf);

  // Whether the tensor is a leaf that wants its gradient, one that does not (now), or a result.
  enum class State : std::uint8_t { kWanted, kFrozen, kResult };
  void set_state(State state) noexcept { state_ = state; }
  // A result that retains its gradient, also if it became a leaf later.
  bool retains() const noexcept { return retains_; }
  void set_retains() noexcept { retains_ = true; }
  // Adds a gradient of a result that retains it.
  void add_retained(const Tensor& gradient);

  std::string_view name() const noexcept override { return "leaf"; }
  std::string grad_fn_name() const override { return "AccumulateGrad"; }
  void backward(BackwardContext& context) override;

  // Undefined where there is no gradient.
  Tensor grad() const { return defined_ ? grad_ : Tensor(); }
  void set_grad(const Tensor& grad);
  void zero_grad(bool set_to_none);
  void set_destination(const Tensor& destination);
  // Whether there is a gradient, or memory for one.
  bool has_memory() const noexcept { return defined_ || fixed_; }
  // For a tensor that changes its shape while has_memory() is false.
  void set_shape(const Shape& shape, const Strides& strides);

  // The memory for the next gradient; see BackwardContext::target().
  GradTarget target() const;
  void mark_written();

  std::uint64_t add_listener(GradReady ready, GradFailed failed);
  void remove_listener(std::uint64_t id) noexcept;
  void run_ready() const;
  void run_failed(const std::exception_ptr& error) const;

  void set_guard(std::function<void()> guard) { guard_ = std::move(guard); }

  const Ref<FirstError>& error() const noexcept { return error_; }
  void set_error(Ref<FirstError> error) noexcept { error_ = std::move(error); }

 private:
  void check(const Tensor& grad, std::string_view what) const;
  bool lies_as_leaf(const Tensor& gradient) const;
  void accumulate(Tensor gradient);
  template <typename Call>
  void call_listeners(const Call& call) const;

  Shape shape_;
  Strides strides_;  // of the gradient: the leaf's, if it has no gaps, as in PyTorch
  DType dtype_;
  State state_ = State::kWanted;
  bool retains_ = false;
  Tensor grad_;           // the destination, where there is one
  bool defined_ = false;  // grad_ holds a gradient
  bool fixed_ = false;    // grad_ is a destination and keeps its address
  std::uint64_t next_id_ = 1;
  struct Listener {
    std::uint64_t id;
    GradReady ready;
    GradFailed failed;
  };
  std::vector<Listener> listeners_;  // their numbers ascend
  std::function<void()> guard_;
  Ref<FirstError> error_;
};

}  // namespace dl::autograd

namespace dl {

// Calls `ready` in every backward pass that reaches the leaf, when its gradient is final (and
// possibly undefined, where nothing flowed back). Calls `failed`, if there is one, when a backward
// pass that uses the leaf ends with an exception, wherever it was thrown: by a hook, a node, a
// callback, or before anything ran. backward() throws that exception after the calls, and drops
// what `failed` throws. Returns a number for remove_grad_ready(). Throws kInvalidArgument for a
// tensor that is no leaf or requires no gradients. A callback may add and remove callbacks of the
// leaf, itself too.
std::uint64_t on_grad_ready(const Tensor& leaf, autograd::GradReady ready,
                            autograd::GradFailed failed = {});
void remove_grad_ready(const Tensor& leaf, std::uint64_t id) noexcept;

// From now on the leaf's gradient lives in `destination`, a tensor of its shape and dtype; a
// gradient that is there already is copied. An undefined destination leaves the gradient where it
// is and lets go of the promise about its address.
void set_grad_destination(const Tensor& leaf, const Tensor& destination);

// Sets a function that a backward pass calls before it writes into the leaf's gradient. If the
// function throws, the pass ends with that exception. Replaces the guard before; null removes it.
void set_grad_guard(const Tensor& leaf, std::function<void()> guard);

// What may spoil the leaf's gradient: once it has an error, optimizers throw that in place of a
// step. It stays with the leaf until another one comes, or clear_grad_error().
void set_grad_error(const Tensor& leaf, Ref<FirstError> error);
void clear_grad_error(const Tensor& leaf) noexcept;
const FirstError* grad_error(const Tensor& leaf) noexcept;  // null where there is none

// Calls `callback` once, when the backward pass that runs on this thread has ended without an
// error. Throws kInvalidArgument outside of backward.
void on_backward_end(std::function<void()> callback);

// The number of the backward pass that runs on this thread, the innermost if a hook has started
// another; 0 outside of backward. No other pass of the process has the number.
std::uint64_t backward_pass() noexcept;
// Whether a backward pass in which this one runs (a hook has started it) uses the leaf.
bool enclosing_backward_uses(const Tensor& leaf) noexcept;

}  // namespace dl
