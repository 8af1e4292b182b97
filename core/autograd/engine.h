// Engine: one backward pass, on the caller's thread.
//
// A node runs after all users of its outputs have run. Of several ready nodes the latest recorded
// runs first, but leaves run at once. The order depends on the graph alone. There is no recursion.
// A hook may start a backward pass of its own.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

// Computes the gradients of the sum of all roots, each weighted by its entry of `gradients`
// (undefined: ones, for a root of one element). Throws kInvalidArgument for a root without history,
// a graph that was freed already, or a saved tensor that was changed in place; kShape and kDType if
// a gradient does not match its root; kNotImplemented if create_graph meets an operation whose
// gradient is not recorded.
//
// With create_graph, leaves' gradients have a history: a leaf owns its gradient, whose history
// leads to the leaf. Neither is freed until the leaf gets another gradient or none. PyTorch warns
// of this; autograd::grad() with create_graph makes no such circle.
void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients,
              BackwardOptions options = {});

namespace autograd {

struct GradOptions {
  // The gradient of each output, of its shape and dtype. Empty: ones, if each output has one
  // element.
  std::vector<Tensor> grad_outputs{};
  // Keep the saved tensors, so that the graph can run again. By default create_graph.
  std::optional<bool> retain_graph{};
  // Record the pass: the results have a history, and can be differentiated themselves.
  bool create_graph = false;
  bool allow_unused = false;  // an input that no output depends on gets an undefined tensor
};

// Returns the gradient of the sum of all outputs for each input, as torch.autograd.grad() does. An
// input may be a leaf or a result; its gradient has its shape, dtype and device.
//
//     const Tensor h = x.square();
//     const std::vector<Tensor> g = autograd::grad({h.sum()}, {x, h});  // 2 x, and ones
//
// Tensor::grad() of leaves does not change, and their callbacks do not run, so
// DistributedDataParallel does not average these gradients. Only the operations between outputs and
// inputs run, with the hooks of the tensors there. The result for an input includes the effect of
// the input's own hooks, unless the pass continues through this input to another one, as in
// PyTorch.
// Throws what backward() throws, and kInvalidArgument for an undefined input, for one that requires
// no gradients, and for an unused one unless allow_unused is set.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

}  // namespace autograd

}  // namespace dl
