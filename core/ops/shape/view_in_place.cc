// Views in place: a tensor takes the shape that its view would have, and keeps its elements.
#include "core/autograd/graph/leaf.h"
#include "core/ops/common.h"

namespace dl {
namespace {

// Makes `tensor` what view(tensor) is. `grad_fn` is PyTorch's name of the step.
template <typename View>
Tensor& become(Tensor& tensor, std::string_view op, const char* grad_fn, const View& view) {
  TensorImpl& impl = *tensor.impl();
  auto* const leaf = static_cast<LeafNode*>(impl.leaf.get());
  DL_CHECK(!(tensor.requires_grad() && tensor.is_leaf()), kInvalidArgument,
           "{}: a leaf of shape {} that requires gradients was to change its shape, which its "
           "gradient and the state of optimizers have; take a view, or change the shape before "
           "requires_grad_()",
           op, impl.shape.str());
  DL_CHECK(leaf == nullptr || !leaf->has_memory(), kInvalidArgument,
           "{}: a tensor of shape {} that has a gradient was to change its shape; call zero_grad() "
           "before, or take a view",
           op, impl.shape.str());
  // The elements stay, so a history without this step would be wrong: a NoGradGuard changes
  // nothing.
  const EnableGradGuard recorded;
  const Tensor seen = view(tensor);
  DL_CHECK(seen.requires_grad() == tensor.requires_grad(), kInvalidArgument,
           "{}: a result of shape {} that requires gradients was to change its shape under an "
           "InferenceMode, which records nothing; take a view, or use detach()",
           op, impl.shape.str());
  impl.take_shape_of(*seen.impl());
  if (leaf != nullptr) leaf->set_shape(impl.shape, impl.strides);
  if (const Ref<Node> node{static_cast<Node*>(seen.impl()->node.get())}) {
    node->set_grad_fn_name(grad_fn);
    detail::attach(tensor, node, seen.impl()->output_nr);
  }
  return tensor;
}

}  // namespace

Tensor& Tensor::squeeze_() {
  get("squeeze_");
  return become(*this, "squeeze_", "SqueezeBackward3", [](const Tensor& x) { return x.squeeze(); });
}

Tensor& Tensor::squeeze_(std::int64_t dim) {
  get("squeeze_");
  return become(*this, "squeeze_", "SqueezeBackward4",
                [dim](const Tensor& x) { return x.squeeze(dim); });
}

Tensor& Tensor::unsqueeze_(std::int64_t dim) {
  get("unsqueeze_");
  return become(*this, "unsqueeze_", "UnsqueezeBackward1",
                [dim](const Tensor& x) { return x.unsqueeze(dim); });
}

Tensor& Tensor::transpose_(std::int64_t dim0, std::int64_t dim1) {
  get("transpose_");
  return become(*this, "transpose_", "TransposeBackward1",
                [dim0, dim1](const Tensor& x) { return x.transpose(dim0, dim1); });
}

Tensor& Tensor::t_() {
  get("t_");
  return become(*this, "t_", "TBackward1", [](const Tensor& x) { return x.t(); });
}

}  // namespace dl
