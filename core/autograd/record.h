// record: puts a node behind an operation's output, where gradients are asked for.
#pragma once

#include <span>
#include <string_view>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/node.h"

namespace dl {

// Operations use these without their namespace. No header that users include may include this one.
using autograd::BackwardContext;
using autograd::Edge;
using autograd::gradient_edge;
using autograd::GradTarget;
using autograd::is_exclusive;
using autograd::LeafNode;
using autograd::Node;

inline bool asks_gradient(const Tensor& tensor) noexcept {
  return tensor.defined() && tensor.requires_grad();
}

// Whether an operation on these inputs is to be recorded. Undefined inputs are allowed.
template <typename... Inputs>
bool is_recorded(const Inputs&... inputs) noexcept {
  return (asks_gradient(inputs) || ...) && is_grad_enabled();
}

namespace detail {
// Makes `node` the history of `output`.
void attach(const Tensor& output, const Ref<Node>& node, std::uint32_t output_nr);
// Sets PyTorch's name of `result`'s node, unless `result` is `input` itself. For operations that
// are composed of others. `grad_fn` has to live as long as the program. A result in other memory
// than the input's loses its base.
Tensor shown_as(Tensor result, const Tensor& input, const char* grad_fn);
// Makes `view` a view of `shown`, or of the tensor that `shown` shows, whose memory it has.
void set_base(const Tensor& view, const Tensor& shown);
// For a result that an operation made as a view of a tensor of its own: it is no view of anything
// that the user has, and so it is none for the user.
Tensor drop_base(Tensor result);
// core/ops: attach() after an operation in place. If `written` is a view, its base gets a history
// in which that part is the node's output, and the view follows its base.
void attach_written(const Tensor& written, const Ref<Node>& node);
// core/ops: refuses a view that cannot be changed in place in a recorded operation: its base is a
// leaf that requires gradients, or cannot have a history of its parts.
void check_view_in_place(const Tensor& view, std::string_view op);
// core/ops: `written` as an operation in place takes it for its input. A view comes as another view
// of its base: its old history has no part in that of the base, so hooks of the old history do not
// run.
Tensor before_write(const Tensor& written);
// core/ops: gives a view that is older than its storage (TensorImpl) its base's history, if there
// is one. A view that forward() of a custom Function returned keeps the function's history, as long
// as no operation on its memory was recorded since. Throws kInvalidArgument if one was, or could
// have been, since the base requires no gradients; for a view that was made under a NoGradGuard;
// and for a view of a tensor several of whose elements are one in memory.
void follow_base(const Tensor& view);
}  // namespace detail

// A node with an edge for each input in order; null where nothing is recorded. An operation in
// place, which is one of its own inputs, makes its node before it writes, while the inputs are
// still what their histories say, and attaches it after.
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

// For a list of inputs.
template <typename N>
N* record_list(const Tensor& output, std::span<const Tensor> inputs) {
  bool asked = false;
  for (const Tensor& input : inputs) asked = asked || asks_gradient(input);
  if (!asked || !is_grad_enabled()) return nullptr;
  Ref<N> node = make_ref<N>();
  node->reserve_edges(inputs.size());
  for (const Tensor& input : inputs) node->add_edge(gradient_edge(input));
  detail::attach(output, node, 0);
  return node.get();
}

// Called by every operation in place, before it writes. `recorded` is is_recorded(self, other...).
// Throws kInvalidArgument for a leaf that requires gradients, and for a view of such a leaf. Also
// throws outside a NoGradGuard for a view that was made under one, if its base requires gradients.
void check_in_place(const Tensor& self, bool recorded, std::string_view op);
// Called as well where writing an element twice would show: refuses an expanded tensor, several of
// whose elements are one in memory.
void check_not_expanded(const Tensor& self, std::string_view op);

}  // namespace dl
