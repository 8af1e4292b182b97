// record: adds a node to the graph for an operation's output, if gradients are required.
#pragma once

#include <span>
#include <string_view>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/node.h"

namespace dl {

// Operations use these without their namespace. No header that users include may include this one.
using autograd::BackwardContext;
using autograd::ComposedNode;
using autograd::Edge;
using autograd::gradient_edge;
using autograd::GradTarget;
using autograd::is_exclusive;
using autograd::LeafNode;
using autograd::Node;

inline bool needs_grad(const Tensor& tensor) noexcept {
  return tensor.defined() && tensor.requires_grad();
}

// True if an operation on these inputs has to be recorded. Undefined inputs are allowed.
template <typename... Inputs>
bool is_recorded(const Inputs&... inputs) noexcept {
  return (needs_grad(inputs) || ...) && is_grad_enabled();
}

namespace detail {
// Makes `node` the history of `output`.
void attach(const Tensor& output, const Ref<Node>& node, std::uint32_t output_nr);
// A tensor with these elements whose gradient goes along `edge`; `values` itself if `edge` is null.
// They must be the elements of the tensor that the edge comes from.
Tensor with_history(const Tensor& values, const Edge& edge);
// For composed operations: sets the name that `result`'s node has in PyTorch, unless `result` is
// `input` itself. The string `grad_fn` must be valid until the program ends. Also clears the base
// of a result that does not share the input's storage.
Tensor finish_composed(Tensor result, const Tensor& input, const char* grad_fn);
// Makes `viewed` the base of `view`; both must share memory. If `viewed` is itself a view, and not
// a leaf that requires gradients, the base of `viewed` becomes the base of `view`.
void set_base(const Tensor& view, const Tensor& viewed);
// For an operation that returns a view of its own temporary. Clears the base: for the user the
// result is not a view.
Tensor drop_base(Tensor result);
// core/ops: attach() for an in-place operation. If `written` is a view, its base gets a new
// history: the elements of the view come from `node`, the others from the base's old history. The
// view then takes its history from the base.
void attach_written(const Tensor& written, const Ref<Node>& node);
// core/ops: throws kInvalidArgument if a recorded operation cannot change the view in place. The
// reasons: the view or its base is a leaf that requires gradients; the base is not floating, or has
// several elements at one address; the view was made under a NoGradGuard, or by forward() of a
// custom Function.
void check_view_in_place(const Tensor& view, std::string_view op);
// core/ops: the tensor to use as the autograd input of an in-place operation on `written`. For a
// view: a new view of its base, so hooks on the view's old history do not run.
Tensor before_write(const Tensor& written);
// core/ops: updates the history of a view after a write to its storage
// (TensorImpl::is_older_than_storage()). If the base has a history, the view gets that history. A
// view that forward() of a custom Function returned keeps the function's history. Throws
// kInvalidArgument if a recorded operation has changed the base, and
// - the view was made under a NoGradGuard, or forward() of a custom Function returned it, or
// - several elements of the base are at one address.
// Also throws it for a custom Function's view if the base requires no gradients, because nothing
// then shows whether such an operation has changed the base.
void follow_base(const Tensor& view);
}  // namespace detail

// A node with an edge for each input in order; null if nothing is recorded. An in-place operation
// makes its node before it writes, while the values still match the histories of its inputs, and
// attaches it afterwards.
template <typename N, typename... Inputs>
Ref<N> make_node(const Inputs&... inputs) {
  if (!is_recorded(inputs...)) [[likely]]
    return nullptr;
  Ref<N> node = make_ref<N>();
  node->reserve_edges(sizeof...(Inputs));
  (node->add_edge(gradient_edge(inputs)), ...);
  return node;
}

// make_node(), attached to `output`.
template <typename N, typename... Inputs>
N* record(const Tensor& output, const Inputs&... inputs) {
  const Ref<N> node = make_node<N>(inputs...);
  if (node) detail::attach(output, node, 0);
  return node.get();
}

// record() for a list of inputs.
template <typename N>
N* record_list(const Tensor& output, std::span<const Tensor> inputs) {
  bool needed = false;
  for (const Tensor& input : inputs) needed = needed || needs_grad(input);
  if (!needed || !is_grad_enabled()) return nullptr;
  Ref<N> node = make_ref<N>();
  node->reserve_edges(inputs.size());
  for (const Tensor& input : inputs) node->add_edge(gradient_edge(input));
  detail::attach(output, node, 0);
  return node.get();
}

// Every in-place operation calls this before it writes. `recorded` is is_recorded(self, other...).
// It never throws under a NoGradGuard. Otherwise it throws kInvalidArgument for a leaf that
// requires gradients. If `recorded`, or if a base of `self` requires gradients, it also throws for
// a view that detail::check_view_in_place() refuses.
void check_in_place(const Tensor& self, bool recorded, std::string_view op);
// In-place operations that must not write an element twice also call this: it throws for an
// expanded tensor, of which several elements share one address.
void check_not_expanded(const Tensor& self, std::string_view op);

}  // namespace dl
