// record: puts a node behind an operation's output, where gradients are asked for.
#pragma once

#include <span>
#include <string_view>

#include "core/autograd/grad_mode.h"
#include "core/autograd/node.h"

namespace dl {

inline bool asks_gradient(const Tensor& tensor) noexcept {
  return tensor.defined() && tensor.requires_grad();
}

// Whether an operation on these inputs is to be recorded. Undefined inputs are allowed.
template <typename... Inputs>
bool is_recorded(const Inputs&... inputs) noexcept {
  return (asks_gradient(inputs) || ...) && grad_enabled();
}

namespace detail {
// Makes `node` the history of `output`.
void attach(const Tensor& output, Ref<Node> node, std::uint32_t output_nr);
}  // namespace detail

// The node behind `output`, with an edge for each input in order; null where nothing is recorded.
// An operation in place names its tensor as output and as input.
template <typename N, typename... Inputs>
N* record(const Tensor& output, const Inputs&... inputs) {
  if (!is_recorded(inputs...)) [[likely]]
    return nullptr;
  Ref<N> node = make_ref<N>();
  node->reserve_edges(sizeof...(Inputs));
  (node->add_edge(gradient_edge(inputs)), ...);
  detail::attach(output, node, 0);
  return node.get();
}

// For a list of inputs.
template <typename N>
N* record_list(const Tensor& output, std::span<const Tensor> inputs) {
  bool asked = false;
  for (const Tensor& input : inputs) asked = asked || asks_gradient(input);
  if (!asked || !grad_enabled()) return nullptr;
  Ref<N> node = make_ref<N>();
  node->reserve_edges(inputs.size());
  for (const Tensor& input : inputs) node->add_edge(gradient_edge(input));
  detail::attach(output, node, 0);
  return node.get();
}

// Called by every operation in place, before it writes. `recorded` is is_recorded(self, other...).
// Refuses a leaf that requires gradients, and a view in a recorded operation.
void check_in_place(const Tensor& self, bool recorded, std::string_view op);

}  // namespace dl
