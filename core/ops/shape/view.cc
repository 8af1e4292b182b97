// Views: the same storage under another shape. Each records how a gradient goes back.
#include <algorithm>
#include <functional>
#include <numeric>

#include "core/ops/common.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace dl {
namespace {

struct ReshapeBackward final : Node {
  std::string_view name() const noexcept override { return "view"; }
  void backward(BackwardContext& context) override {
    context.give(0, context.grad_output().reshape(shape));
  }
  Shape shape;
};

struct PermuteBackward final : Node {
  std::string_view name() const noexcept override { return "permute"; }
  void backward(BackwardContext& context) override {
    context.give(0, context.grad_output().permute(inverse));
  }
  Dims inverse;
};

// select, slice and diagonal: the gradient goes to the elements that were seen, the others get
// zeros.
struct PartBackward final : Node {
  std::string_view name() const noexcept override { return "slice"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = zeros(
        shape, {.dtype = context.grad_output().dtype(), .device = context.grad_output().device()});
    const Tensor part = as_strided(grad, part_shape, part_strides, part_offset);
    call<Op::kCopy>(grad.device(), context.grad_output(), part);
    context.give(0, grad);
  }
  Shape shape;
  Shape part_shape;
  Strides part_strides;  // in a contiguous tensor of `shape`
  std::int64_t part_offset = 0;
};

struct ExpandBackward final : Node {
  std::string_view name() const noexcept override { return "expand"; }
  void backward(BackwardContext& context) override {
    context.give(0, sum_to(context.grad_output(), shape));
  }
  Shape shape;
};

// Any view, straight from the tensor at the bottom of a chain of views.
struct AsStridedBackward final : Node {
  std::string_view name() const noexcept override { return "as_strided"; }
  void backward(BackwardContext& context) override {
    if (!context.needs(0)) return;
    Tensor grad = context.grad_output();
    Dims repeated;  // elements along these are one in memory
    for (std::size_t d = 0; d < view_strides.size(); ++d) {
      if (view_strides[d] == 0 && grad.sizes()[d] > 1) {
        repeated.push_back(static_cast<std::int64_t>(d));
      }
    }
    if (!repeated.empty()) grad = sum(grad, repeated, {.keepdim = true});
    const Tensor memory = zeros({strided_extent(base_shape, base_strides, name())},
                                {.dtype = grad.dtype(), .device = grad.device()});
    call<Op::kCopy>(grad.device(), grad,
                    as_strided(memory, grad.sizes(), view_strides, view_offset));
    context.give(0, as_strided(memory, base_shape, base_strides, 0));
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

Tensor make_view(const Tensor& base, const Shape& shape, const Strides& strides,
                 std::int64_t offset) {
  Tensor view(make_ref<TensorImpl>(base.storage(), shape, strides, offset, base.dtype()));
  detail::set_base(view, base);
  return view;
}

// A view whose gradient is only reshaped on its way back.
Tensor reshaped(const Tensor& base, const Shape& shape, const Strides& strides,
                const char* grad_fn = "ViewBackward0") {
  Tensor view = make_view(base, shape, strides, base.storage_offset());
  if (auto* node = record<ReshapeBackward>(view, base)) {
    node->shape = base.sizes();
    node->show_as(grad_fn);
  }
  return view;
}

// `order[d]` is the dimension of base that becomes d.
Tensor permuted(const Tensor& base, const Dims& order) {
  const auto in_order = [&](const Dims& from) {
    Dims result(order.size(), 0);
    for (std::size_t d = 0; d < order.size(); ++d) {
      result[d] = from[static_cast<std::size_t>(order[d])];
    }
    return result;
  };
  Tensor view =
      make_view(base, in_order(base.sizes()), in_order(base.strides()), base.storage_offset());
  if (auto* node = record<PermuteBackward>(view, base)) {
    node->inverse = Dims(order.size(), 0);
    for (std::size_t d = 0; d < order.size(); ++d) {
      node->inverse[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
    }
  }
  return view;
}

// Elements first, first + step, ... of one dimension; select drops the dimension after.
Tensor part_of(const Tensor& base, std::size_t dim, std::int64_t first, std::int64_t size,
               std::int64_t step, bool drop) {
  Shape shape = base.sizes();
  shape[dim] = size;
  if (size < 2) step = 1;  // it is never taken, and may be any number
  const std::int64_t offset = base.storage_offset() + first * base.strides()[dim];
  if (drop) shape.erase(dim);
  Strides strides = base.strides();
  strides[dim] *= step;
  if (drop) strides.erase(dim);
  Tensor view = make_view(base, shape, strides, offset);
  if (auto* node = record<PartBackward>(view, base)) {
    node->shape = base.sizes();
    node->part_shape = shape;
    node->part_strides = contiguous_strides(base.sizes());
    node->part_offset = first * node->part_strides[dim];
    node->part_strides[dim] *= step;
    if (drop) {
      node->part_strides.erase(dim);
      node->show_as("SelectBackward0");
    }
  }
  return view;
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
  DL_CHECK(base.node || !(view.requires_grad() || impl.is_view_of_trained()), kInvalidArgument,
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
  if (!impl.base || !asks_gradient(written) || !is_grad_enabled()) return written;
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
    DL_CHECK(impl.is_view_of_trained(), kInvalidArgument,
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

Tensor alias(const Tensor& input) {
  return reshaped(input, input.sizes(), input.strides(), "AliasBackward0");
}

Tensor Tensor::view(const Shape& shape) const {
  get("view");
  const Shape target = infer_shape(shape, numel(), "view");
  const std::optional<Strides> steps = view_strides(sizes(), strides(), target);
  DL_CHECK(steps.has_value(), kShape,
           "view: a tensor of shape {} with strides {} cannot be seen as {} without a copy; use "
           "reshape",
           sizes().str(), strides().str(), target.str());
  return reshaped(*this, target, *steps);
}

Tensor Tensor::reshape(const Shape& shape) const {
  get("reshape");
  const Shape target = infer_shape(shape, numel(), "reshape");
  const std::optional<Strides> steps = view_strides(sizes(), strides(), target);
  if (steps) return reshaped(*this, target, *steps);
  const Tensor copy = clone(MemoryFormat::kContiguous).view(target);
  return detail::shown_as(copy, *this, "UnsafeViewBackward0");
}

Tensor Tensor::flatten(std::int64_t start_dim, std::int64_t end_dim) const {
  get("flatten");
  const std::size_t first = wrap_dim(start_dim, rank(), "flatten");
  const std::size_t last = wrap_dim(end_dim, rank(), "flatten");
  DL_CHECK(first <= last, kIndex, "flatten: the first dimension {} comes after the last {}",
           start_dim, end_dim);
  if (rank() == 0) return reshape({1});
  if (first == last) return *this;
  Shape target;
  std::int64_t joined = 1;
  for (std::size_t d = 0; d < rank(); ++d) {
    if (d < first || d > last) {
      target.push_back(sizes()[d]);
    } else {
      joined *= sizes()[d];
      if (d == last) target.push_back(joined);
    }
  }
  return reshape(target);
}

Tensor Tensor::transpose(std::int64_t dim0, std::int64_t dim1) const {
  get("transpose");
  const std::size_t a = wrap_dim(dim0, rank(), "transpose");
  const std::size_t b = wrap_dim(dim1, rank(), "transpose");
  Dims order(rank(), 0);
  for (std::size_t d = 0; d < rank(); ++d) order[d] = static_cast<std::int64_t>(d);
  if (rank() > 0) std::swap(order[a], order[b]);
  return detail::shown_as(permuted(*this, order), *this, "TransposeBackward0");
}

Tensor Tensor::t() const {
  get("t");
  DL_CHECK(rank() <= 2, kShape, "t: at most 2 dimensions were wanted, the shape is {}",
           sizes().str());
  return detail::shown_as(rank() < 2 ? transpose(0, 0) : transpose(0, 1), *this, "TBackward0");
}

Tensor Tensor::permute(const Dims& dims) const {
  get("permute");
  DL_CHECK(dims.size() == rank(), kShape, "permute: {} names {} dimensions, the tensor has {}",
           dims.str(), dims.size(), rank());
  Dims order(rank(), 0);
  Dims seen(rank(), 0);
  for (std::size_t d = 0; d < rank(); ++d) {
    const std::size_t from = wrap_dim(dims[d], rank(), "permute");
    DL_CHECK(seen[from] == 0, kInvalidArgument, "permute: {} names dimension {} twice", dims.str(),
             from);
    seen[from] = 1;
    order[d] = static_cast<std::int64_t>(from);
  }
  return permuted(*this, order);
}

Tensor Tensor::select(std::int64_t dim, std::int64_t index) const {
  get("select");
  DL_CHECK(rank() > 0, kShape, "select: a tensor without dimensions has no index");
  const std::size_t d = wrap_dim(dim, rank(), "select");
  const std::int64_t size = sizes()[d];
  DL_CHECK(index >= -size && index < size, kIndex,
           "select: index {} is out of range for dimension {} of {}", index, d, sizes().str());
  return part_of(*this, d, index < 0 ? index + size : index, 1, 1, true);
}

Tensor Tensor::slice(std::int64_t dim, std::int64_t start, std::int64_t end,
                     std::int64_t step) const {
  get("slice");
  DL_CHECK(rank() > 0, kShape, "slice: a tensor without dimensions cannot be sliced");
  DL_CHECK(step > 0, kInvalidArgument, "slice: the step is {}, wanted at least 1", step);
  const std::size_t d = wrap_dim(dim, rank(), "slice");
  const std::int64_t size = sizes()[d];
  const auto clip = [size](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t first = clip(start);
  const std::int64_t last = std::max(clip(end), first);
  return part_of(*this, d, first, last == first ? 0 : (last - first - 1) / step + 1, step, false);
}

Tensor detail::without_leading_ones(const Tensor& value, std::int64_t dims) {
  Tensor result = value;
  while (result.defined() && result.dim() > dims && result.size(0) == 1) {
    result = result.squeeze(0);
  }
  return result;
}

Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  get("narrow");
  DL_CHECK(rank() > 0, kShape, "narrow: a tensor without dimensions cannot be narrowed");
  const std::size_t d = wrap_dim(dim, rank(), "narrow");
  const std::int64_t first = start < 0 ? start + sizes()[d] : start;
  DL_CHECK(first >= 0 && length >= 0 && length <= sizes()[d] && first <= sizes()[d] - length,
           kIndex, "narrow: {} elements from {} on are out of range for dimension {} of {}", length,
           start, d, sizes().str());
  return slice(dim, first, first + length);
}

Tensor diagonal(const Tensor& input, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  constexpr std::string_view kName = "diagonal";
  check_defined(input, kName, "the input");
  const Shape& sizes = input.sizes();
  const std::size_t a = wrap_dim(dim1, sizes.size(), kName);
  const std::size_t b = wrap_dim(dim2, sizes.size(), kName);
  DL_CHECK(sizes.size() >= 2 && a != b, kShape,
           "{}: dimensions {} and {} of a tensor of shape {} span no matrix", kName, dim1, dim2,
           sizes.str());
  const std::int64_t row = std::max<std::int64_t>(0, -offset);
  const std::int64_t column = std::max<std::int64_t>(0, offset);
  const std::int64_t length =
      std::max<std::int64_t>(0, std::min(sizes[a] - row, sizes[b] - column));
  const auto without_matrix = [&](const Dims& from, std::int64_t last) {
    Dims result;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (d != a && d != b) result.push_back(from[d]);
    }
    result.push_back(last);
    return result;
  };
  const auto strides_of_view = [&](const Strides& from) {
    return without_matrix(from, from[a] + from[b]);
  };
  const Shape shape = without_matrix(sizes, length);
  const Strides whole = contiguous_strides(sizes);
  const auto first_in = [&](const Strides& strides) {
    return length == 0 ? 0 : row * strides[a] + column * strides[b];
  };
  Tensor view = make_view(input, shape, strides_of_view(input.strides()),
                          input.storage_offset() + first_in(input.strides()));
  if (auto* node = record<PartBackward>(view, input)) {
    node->shape = sizes;
    node->part_shape = shape;
    node->part_strides = strides_of_view(whole);
    node->part_offset = first_in(whole);
    node->show_as("DiagonalBackward0");
  }
  return view;
}

Tensor Tensor::expand(const Shape& shape) const {
  get("expand");
  DL_CHECK(shape.size() >= rank(), kShape, "expand: {} has fewer dimensions than the tensor's {}",
           shape.str(), sizes().str());
  Shape target = shape;
  const std::size_t lead = shape.size() - rank();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d >= lead) {
      const std::int64_t own = sizes()[d - lead];
      if (target[d] == -1) target[d] = own;
      DL_CHECK(own == target[d] || own == 1, kShape,
               "expand: the shape {} cannot become {}; dimension {} has size {}", sizes().str(),
               shape.str(), d - lead, own);
    }
    DL_CHECK(target[d] >= 0, kShape, "expand: a size of the shape {} is negative", shape.str());
  }
  element_count(target, "expand");
  Tensor view =
      make_view(*this, target, broadcast_strides(sizes(), strides(), target), storage_offset());
  if (auto* node = record<ExpandBackward>(view, *this)) node->shape = sizes();
  return view;
}

Tensor Tensor::squeeze() const {
  get("squeeze");
  const auto kept = [&](const Dims& from) {
    Dims result;
    for (std::size_t d = 0; d < rank(); ++d) {
      if (sizes()[d] != 1) result.push_back(from[d]);
    }
    return result;
  };
  return reshaped(*this, kept(sizes()), kept(strides()), "SqueezeBackward0");
}

Tensor Tensor::squeeze(std::int64_t dim) const {
  get("squeeze");
  const std::size_t d = wrap_dim(dim, rank(), "squeeze");
  const auto kept = [&](Dims from) {
    if (rank() > 0 && sizes()[d] == 1) from.erase(d);
    return from;
  };
  return reshaped(*this, kept(sizes()), kept(strides()), "SqueezeBackward1");
}

Tensor Tensor::unsqueeze(std::int64_t dim) const {
  get("unsqueeze");
  const std::size_t d = wrap_dim(dim, rank() + 1, "unsqueeze");
  Shape shape = sizes();
  shape.insert(d, 1);
  Strides steps = strides();
  steps.insert(d, d < rank() ? sizes()[d] * steps[d] : 1);
  return reshaped(*this, shape, steps, "UnsqueezeBackward0");
}

}  // namespace dl
