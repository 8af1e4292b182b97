// LeafNode: accumulates one leaf's gradient (PyTorch's AccumulateGrad). Also the callbacks that
// DDP needs on leaves.
//
// A leaf's gradient is final when every operation that used the leaf has run backward. The engine
// then runs the LeafNode, and after it the callbacks of on_grad_ready(). If the last operation
// computes the gradient in target(), the callbacks run before that operation returns. If the pass
// ends with an exception, the `failed` callbacks run for every leaf that the pass used or would
// have used.
//
// If the leaf has a destination (set_grad_destination()), its gradient is always in that memory.
// zero_grad() then marks the gradient undefined and does not write to the memory. The next gradient
// overwrites the memory, and later gradients are added to it.
//
// Thread-safety: as for a tensor; callbacks run on the thread that called backward().
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "core/autograd/graph/node.h"
#include "core/base/first_error.h"

namespace dl::autograd {

// Callbacks for a final gradient, and for the exception that ended the pass.
using GradReady = std::function<void()>;
using GradFailed = std::function<void(const std::exception_ptr&)>;

class LeafNode final : public Node {
 public:
  explicit LeafNode(const Tensor& leaf);

  // kWanted: a leaf that requires gradients; kFrozen: a leaf that does not require them now;
  // kResult: not a leaf.
  enum class State : std::uint8_t { kWanted, kFrozen, kResult };
  void set_state(State state) noexcept { state_ = state; }
  // True for a result that retains its gradient, also if it became a leaf later.
  bool retains() const noexcept { return retains_; }
  void set_retains() noexcept { retains_ = true; }
  // Adds to the gradient that a result retains.
  void add_retained(const Tensor& gradient);

  std::string_view name() const noexcept override { return "leaf"; }
  std::string grad_fn_name() const override { return "AccumulateGrad"; }
  void backward(BackwardContext& context) override;
  // In a pass with create_graph the gradient keeps its history.
  void backward_recorded(BackwardContext& context) override { backward(context); }

  // Undefined if there is no gradient.
  Tensor grad() const {
    note_state();
    return defined_ ? grad_ : Tensor();
  }
  void set_grad(const Tensor& grad);
  void zero_grad(bool set_to_none);
  void set_destination(const Tensor& destination);
  // True if there is a gradient or a destination.
  bool has_memory() const noexcept { return defined_ || fixed_; }
  // Call it when the tensor's shape changes. has_memory() must be false.
  void set_shape(const Shape& shape, const Strides& strides);

  // The memory for the next gradient; see BackwardContext::target().
  GradTarget target() const;
  void mark_written();

  std::uint64_t add_callbacks(GradReady ready, GradFailed failed);
  void remove_callbacks(std::uint64_t id) noexcept;
  void run_ready() const;
  void run_failed(const std::exception_ptr& error) const;

  void set_guard(std::function<void()> guard) { guard_ = std::move(guard); }

  const Ref<FirstError>& error() const noexcept { return error_; }
  void set_error(Ref<FirstError> error) noexcept { error_ = std::move(error); }

 private:
  void check(const Tensor& grad, std::string_view what) const;
  // For a recording (core/tape): it depends on whether the leaf has a gradient now, and on which.
  void note_state() const {
    if (dl::detail::thread_watch != nullptr) [[unlikely]]
      require_state();
  }
  void require_state() const;
  bool has_leaf_strides(const Tensor& gradient) const;
  void accumulate(Tensor gradient);
  // Throws kNotImplemented if the gradient of a pass with create_graph cannot be kept.
  void check_recorded() const;
  template <typename Call>
  void call_each(const Call& call) const;

  Shape shape_;
  Strides strides_;  // of the gradient: the leaf's if the leaf has no gaps, else contiguous
  DType dtype_;
  State state_ = State::kWanted;
  bool retains_ = false;
  Tensor grad_;           // the destination, if there is one
  bool defined_ = false;  // grad_ holds a gradient
  bool fixed_ = false;    // grad_ is a destination and keeps its address
  std::uint64_t next_id_ = 1;
  struct Callbacks {
    std::uint64_t id;
    GradReady ready;
    GradFailed failed;
  };
  std::vector<Callbacks> callbacks_;  // in ascending order of id
  std::function<void()> guard_;
  Ref<FirstError> error_;
};

}  // namespace dl::autograd

namespace dl {

// Calls `ready` in every backward pass that reaches the leaf, when its gradient is final
// (undefined, if no gradient flowed back). Calls `failed`, if it is set, when a backward pass that
// uses the leaf ends with an exception. A hook, a node or a callback may have thrown it, or
// backward() before it ran any of these. backward() rethrows that exception after these calls and
// ignores exceptions of `failed`. Returns a number for remove_grad_ready(). Throws kInvalidArgument
// if the tensor is not a leaf or requires no gradients. A callback may add and remove callbacks of
// the leaf, itself included.
std::uint64_t on_grad_ready(const Tensor& leaf, autograd::GradReady ready,
                            autograd::GradFailed failed = {});
void remove_grad_ready(const Tensor& leaf, std::uint64_t id) noexcept;

// From now on the leaf's gradient is in `destination`, a tensor of the leaf's shape and dtype; an
// existing gradient is copied there. If `destination` is undefined, the gradient stays in its
// current memory, but its address may change later.
void set_grad_destination(const Tensor& leaf, const Tensor& destination);

// Sets a function that a backward pass calls before it writes into the leaf's gradient. If the
// function throws, the pass ends with that exception. Replaces an earlier guard; null removes it.
void set_grad_guard(const Tensor& leaf, std::function<void()> guard);

// Attaches an object that may get an error later, for example from the all-reduce of the leaf's
// gradient. When it has an error, optimizers throw that error instead of stepping. It stays
// attached until the next set_grad_error() or clear_grad_error().
void set_grad_error(const Tensor& leaf, Ref<FirstError> error);
void clear_grad_error(const Tensor& leaf) noexcept;
const FirstError* grad_error(const Tensor& leaf) noexcept;  // null if there is none

// Calls `callback` once, when this thread's current backward pass has ended without an error.
// Throws kInvalidArgument outside of backward.
void on_backward_end(std::function<void()> callback);

// The number of this thread's current backward pass (the innermost, if a hook has started another);
// 0 outside of backward. Unique in the process.
std::uint64_t backward_pass() noexcept;
// True if a hook of an outer backward pass started the current one, and the outer pass uses the
// leaf.
bool enclosing_backward_uses(const Tensor& leaf) noexcept;

}  // namespace dl
