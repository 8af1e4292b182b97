// Engine: one backward pass, on the caller's thread.
//
// Nodes run when all that used their outputs have run, the latest recorded first, leaves at once.
// The order depends on the graph alone. Nothing recurses. A hook may start a backward pass of its
// own.
#pragma once

#include <span>
#include <vector>

#include "core/tensor/tensor.h"

namespace dl {

// Gradients of the sum of all roots, each weighted by its gradient (undefined: ones, for a root of
// one element). Throws kInvalidArgument for a root without history, a graph that was freed already,
// or a saved tensor that was changed in place; kShape and kDType for a gradient that does not fit.
void backward(std::span<const Tensor> roots, std::span<const Tensor> gradients,
              BackwardOptions options = {});

namespace autograd {

struct GradOptions {
  // The gradient of each output, of its shape and dtype. Empty: ones, if each output has one
  // element.
  std::vector<Tensor> grad_outputs{};
  bool retain_graph = false;  // keep what the nodes saved, so that the graph can run again
  bool create_graph = false;  // refused: gradients of gradients are not recorded
  bool allow_unused = false;  // an input that no output depends on gets an undefined tensor
};

// Returns the gradient of the sum of all outputs for each input, as torch.autograd.grad() does. An
// input may be a leaf or a result; its gradient has its shape, dtype and device.
//
//     const Tensor h = x.square();
//     const std::vector<Tensor> g = autograd::grad({h.sum()}, {x, h});  // 2 x, and ones
//
// Tensor::grad() of leaves does not change, and their callbacks do not run. So
// DistributedDataParallel does not average these gradients: they are this rank's own. Only the
// operations between outputs and inputs run, with the hooks of the tensors there. The gradient of
// an input is returned after the input's own hooks; if the pass continues through this input to
// another one, it is returned as it was before them, as in PyTorch.
// Throws what backward() throws; kInvalidArgument for an undefined input, for one that requires no
// gradients, and for an unused one unless allow_unused is set; and kNotImplemented for
// create_graph.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

}  // namespace autograd

}  // namespace dl
