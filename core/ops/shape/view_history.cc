// The history of views and of their bases when one of them is changed in place.
#include <algorithm>
#include <numeric>

#include "core/ops/common.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/place.h"

namespace dl {
namespace {

// Any view, straight from the tensor at the bottom of a chain of views.
struct AsStridedBackward final : Node {
  std::string_view name() const noexcept override { return "as_strided"; }
  void backward(BackwardContext& context) override {
    if (!context.needs(0)) return;
    const Tensor grad = once_each(context.grad_output());
    const Tensor memory = zeros({strided_extent(base_shape, base_strides, name())},
                                {.dtype = grad.dtype(), .device = grad.device()});
    call<Op::kCopy>(grad.device(), grad,
                    as_strided(memory, grad.sizes(), view_strides, view_offset));
    context.give(0, as_strided(memory, base_shape, base_strides, 0));
  }
  void backward_recorded(BackwardContext& context) override {
    if (!context.needs(0)) return;
    if (!is_contiguous(base_shape, base_strides)) refuse_recording();
    const Tensor grad = once_each(context.grad_output());
    context.give(0, placed(grad, {base_shape, grad.sizes(), view_strides, view_offset}));
  }
  // Sums the gradients of elements that are one in memory.
  Tensor once_each(const Tensor& grad) const {
    Dims repeated;
    for (std::size_t d = 0; d < view_strides.size(); ++d) {
      if (view_strides[d] == 0 && grad.sizes()[d] > 1) {
        repeated.push_back(static_cast<std::int64_t>(d));
      }
    }
    return repeated.empty() ? grad : sum(grad, repeated, {.keepdim = true});
  }
  Shape base_shape;
  Strides base_strides;
  Strides view_strides;
  std::int64_t view_offset = 0;  // from the base's first element
};

// The history of a base after a write in place into its view. Input 0 is the base before the write,
// input 1 the view after it.
struct CopySlices final : Node {
  std::string_view name() const noexcept override { return "copy_slices"; }
  std::string grad_fn_name() const override { return "CopySlices"; }
  void backward(BackwardContext& context) override {
    const Tensor& from = context.grad_output();
    const Tensor memory = empty({strided_extent(base_shape, base_strides, name())},
                                {.dtype = from.dtype(), .device = from.device()});
    const Tensor whole = as_strided(memory, base_shape, base_strides, 0);
    const Tensor part = as_strided(memory, view_shape, view_strides, view_offset);
    call<Op::kCopy>(from.device(), from, whole);
    if (context.needs(1)) context.give(1, part.clone(MemoryFormat::kContiguous));
    if (!context.needs(0)) return;
    call<Op::kFill>(from.device(), part, Scalar(0));
    context.give(0, whole);
  }
  void backward_recorded(BackwardContext& context) override {
    if (!is_contiguous(base_shape, base_strides)) refuse_recording();
    const Tensor& from = context.grad_output();
    const Place place{base_shape, view_shape, view_strides, view_offset};
    if (context.needs(1)) context.give(1, part_at(from.contiguous(), place).clone());
    if (!context.needs(0)) return;
    const Tensor written = placed(ones(view_shape, {.device = from.device()}), place);
    context.give(0, masked(from, written.eq(0.0)));
  }
  Shape base_shape;
  Strides base_strides;
  Shape view_shape;
  Strides view_strides;
  std::int64_t view_offset = 0;  // from the base's first element
};

// Whether several elements may be one in memory.
bool may_overlap_itself(const Shape& shape, const Strides& strides) {
  Dims order(shape.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return strides[static_cast<std::size_t>(a)] < strides[static_cast<std::size_t>(b)];
  });
  std::int64_t last = 0;  // the place of the last element so far
  for (const std::int64_t dim : order) {
    const auto d = static_cast<std::size_t>(dim);
    if (shape[d] < 2) continue;
    if (strides[d] <= last) return true;
    last += (shape[d] - 1) * strides[d];
  }
  return false;
}

// The tensor at the bottom of a view's chain of bases, which has the history of its writes.
TensorImpl& whole_of(const TensorImpl& view) {
  TensorImpl* base = view.base.get();
  while (base->base) base = base->base.get();
  return *base;
}

// The history of a view, which is that of `base` now.
Ref<Node> history_of_view(const TensorImpl& view, TensorImpl& base) {
  Ref<AsStridedBackward> node = make_ref<AsStridedBackward>();
  node->reserve_edges(1);
  node->add_edge(gradient_edge(Tensor(Ref<TensorImpl>(&base))));
  node->base_shape = base.shape;
  node->base_strides = base.strides;
  node->view_strides = view.strides;
  node->view_offset = view.offset - base.offset;
  return node;
}

}  // namespace

void detail::check_view_in_place(const Tensor& view, std::string_view op) {
  const TensorImpl& impl = *view.impl();
  const TensorImpl& base = whole_of(impl);
  DL_CHECK(
      !impl.is_function_view, kInvalidArgument,
      "{}: a view that forward() of a custom Function returned was to be changed in place, and "
      "gradients would then pass by the function's backward(); return a clone() of the view "
      "from forward(), or change a clone()",
      op);
  DL_CHECK(
      !impl.is_unrecorded_view, kInvalidArgument,
      "{}: a view that was made under a NoGradGuard was to be changed in place in an operation "
      "that is recorded for backward; make the view outside of the guard",
      op);
  DL_CHECK(base.node || !(view.requires_grad() || impl.is_view_of_requires_grad()),
           kInvalidArgument,
           "{}: a view of a leaf was to be changed in place, and the view or the leaf requires "
           "gradients; do it under a NoGradGuard, or on detach()",
           op);
  for (const TensorImpl* each = impl.base.get(); each != &base; each = each->base.get()) {
    DL_CHECK(!each->requires_grad || each->node || each->is_behind_base(), kInvalidArgument,
             "{}: a view of a view was to be changed in place, and the latter is a leaf that "
             "requires gradients; do it under a NoGradGuard, or on detach()",
             op);
  }
  DL_CHECK(is_floating(base.dtype) && !may_overlap_itself(base.shape, base.strides),
           kInvalidArgument,
           "{}: a view was to be changed in place in an operation that is recorded for backward, "
           "but its base, of shape {} and strides {}, has several elements that are one in memory; "
           "clone() the view",
           op, base.shape.str(), base.strides.str());
}

Tensor detail::before_write(const Tensor& written) {
  const TensorImpl& impl = *written.impl();
  if (!impl.base || !needs_grad(written) || !is_grad_enabled()) return written;
  Tensor result = written.detach();
  attach(result, history_of_view(impl, whole_of(impl)), 0);
  return result;
}

void detail::attach_written(const Tensor& written, const Ref<Node>& node) {
  const TensorImpl& impl = *written.impl();
  if (!impl.base) return attach(written, node, 0);
  const Tensor base{Ref<TensorImpl>(&whole_of(impl))};
  const Ref<CopySlices> whole = make_ref<CopySlices>();
  whole->reserve_edges(2);
  whole->add_edge(gradient_edge(base));
  whole->add_edge({node, 0});
  whole->base_shape = base.sizes();
  whole->base_strides = base.strides();
  whole->view_shape = impl.shape;
  whole->view_strides = impl.strides;
  whole->view_offset = impl.offset - base.storage_offset();
  attach(base, whole, 0);
  // At once: detach_() may take the base's history away.
  follow_base(written);
}

void detail::follow_base(const Tensor& view) {
  TensorImpl& impl = *view.impl();
  TensorImpl& base = *impl.base;
  const bool is_behind = impl.is_behind_base();
  constexpr std::string_view kAdvice = "make the view again after the change, or use its detach()";
  constexpr std::string_view kAdviceOfFunction =
      "return a clone() from forward(), or change a clone()";
  DL_CHECK(
      !is_behind || !impl.is_unrecorded_view, kInvalidArgument,
      "a view of shape {} was {}, and its base was changed in place since by an operation that "
      "is recorded for backward: its gradient would be lost; {}",
      view.sizes().str(),
      impl.is_function_view ? "returned by forward() of a custom Function"
                            : "made under a NoGradGuard",
      impl.is_function_view ? kAdviceOfFunction : kAdvice);
  if (!is_behind && !impl.node) return;
  if (impl.is_unrecorded_view) {
    // Its node is a custom Function's. Writes that are not recorded leave it, as they leave the
    // history of any tensor. Into a base without gradients they come without a guard as well.
    DL_CHECK(impl.is_view_of_requires_grad(), kInvalidArgument,
             "a view of shape {} was returned by forward() of a custom Function, and its memory "
             "was changed in place since, which backward() of the function does not know; {}",
             view.sizes().str(), kAdviceOfFunction);
    impl.view_version = view.version();
    return;
  }
  const bool overlaps = may_overlap_itself(base.shape, base.strides);
  if (overlaps) {
    DL_CHECK(
        impl.node && base.recorded_version <= impl.view_version, kInvalidArgument,
        "a view of shape {} shows a tensor of shape {} and strides {}, several of whose elements "
        "are one in memory, and which was changed in place since; {}",
        view.sizes().str(), base.shape.str(), base.strides.str(), kAdvice);
  }
  if (!overlaps) attach(view, history_of_view(impl, base), 0);
  impl.view_version = view.version();
}

}  // namespace dl
