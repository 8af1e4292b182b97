// Views: the same storage in another shape. Each records its backward.
#include <algorithm>

#include "core/ops/common.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/place.h"
#include "core/ops/shape/shape.h"

namespace dl {
namespace {

struct ReshapeBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "view"; }
  void backward(BackwardContext& context) override {
    context.give(0, context.grad_output().reshape(shape));
  }
  Shape shape;
};

struct PermuteBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "permute"; }
  void backward(BackwardContext& context) override {
    context.give(0, context.grad_output().permute(inverse));
  }
  Dims inverse;
};

// select, slice and diagonal: the gradient of viewed elements is passed on, that of others is 0.
struct PartBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "slice"; }
  void backward(BackwardContext& context) override {
    context.give(0, placed(context.grad_output(), place));
  }
  Place place;
};

struct PlacedBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "placed"; }
  void backward(BackwardContext& context) override {
    context.give(0, part_at(context.grad_output().contiguous(), place));
  }
  Place place;
};

struct ExpandBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "expand"; }
  void backward(BackwardContext& context) override {
    context.give(0, sum_to(context.grad_output(), shape));
  }
  Shape shape;
};

Tensor make_view(const Tensor& base, const Shape& shape, const Strides& strides,
                 std::int64_t offset) {
  Tensor view(make_ref<TensorImpl>(base.storage(), shape, strides, offset, base.dtype()));
  detail::set_base(view, base);
  return view;
}

// A view whose backward only reshapes the gradient.
Tensor reshaped(const Tensor& base, const Shape& shape, const Strides& strides,
                const char* grad_fn = "ViewBackward0") {
  Tensor view = make_view(base, shape, strides, base.storage_offset());
  if (auto* node = record<ReshapeBackward>(view, base)) {
    node->shape = base.sizes();
    node->set_grad_fn_name(grad_fn);
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
  if (size < 2) step = 1;  // the step is never used, and may be any number
  const std::int64_t offset = base.storage_offset() + first * base.strides()[dim];
  if (drop) shape.erase(dim);
  Strides strides = base.strides();
  strides[dim] *= step;
  if (drop) strides.erase(dim);
  Tensor view = make_view(base, shape, strides, offset);
  if (auto* node = record<PartBackward>(view, base)) {
    Strides in_rows = contiguous_strides(base.sizes());
    const std::int64_t start = first * in_rows[dim];
    in_rows[dim] *= step;
    if (drop) in_rows.erase(dim);
    node->place = {base.sizes(), shape, in_rows, start};
    if (drop) node->set_grad_fn_name("SelectBackward0");
  }
  return view;
}

}  // namespace

Tensor part_at(const Tensor& whole, const Place& place) {
  Tensor view = make_view(whole, place.shape, place.strides, whole.storage_offset() + place.offset);
  if (auto* node = record<PartBackward>(view, whole)) node->place = place;
  return view;
}

Tensor placed(const Tensor& part, const Place& place) {
  const Tensor whole = zeros(place.whole, {.dtype = part.dtype(), .device = part.device()});
  call<Op::kCopy>(part.device(), part, as_strided(whole, place.shape, place.strides, place.offset));
  if (auto* node = record<PlacedBackward>(whole, part)) node->place = place;
  return whole;
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
  return detail::finish_composed(copy, *this, "UnsafeViewBackward0");
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
  return detail::finish_composed(permuted(*this, order), *this, "TransposeBackward0");
}

Tensor Tensor::t() const {
  get("t");
  DL_CHECK(rank() <= 2, kShape, "t: at most 2 dimensions were wanted, the shape is {}",
           sizes().str());
  return detail::finish_composed(rank() < 2 ? transpose(0, 0) : transpose(0, 1), *this,
                                 "TBackward0");
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
    node->place = {sizes, shape, strides_of_view(whole), first_in(whole)};
    node->set_grad_fn_name("DiagonalBackward0");
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
  const auto kept = [&](const Dims& from) {
    Dims result;
    for (std::size_t i = 0; i < rank(); ++i) {
      if (i != d || sizes()[i] != 1) result.push_back(from[i]);
    }
    return result;
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

Tensor swapaxes(const Tensor& input, std::int64_t dim0, std::int64_t dim1) {
  check_defined(input, "swapaxes", "the input");
  return input.transpose(dim0, dim1);
}

Tensor atleast_1d(const Tensor& input) {
  check_defined(input, "atleast_1d", "the input");
  return input.dim() == 0 ? input.reshape({1}) : input;
}

Tensor atleast_2d(const Tensor& input) {
  check_defined(input, "atleast_2d", "the input");
  if (input.dim() == 0) return input.reshape({1, 1});
  return input.dim() == 1 ? input.unsqueeze(0) : input;
}

Tensor atleast_3d(const Tensor& input) {
  check_defined(input, "atleast_3d", "the input");
  if (input.dim() == 0) return input.reshape({1, 1, 1});
  if (input.dim() == 1) return input.unsqueeze(0).unsqueeze(-1);
  return input.dim() == 2 ? input.unsqueeze(-1) : input;
}

Tensor ravel(const Tensor& input) {
  check_defined(input, "ravel", "the input");
  return detail::finish_composed(input.contiguous().view({-1}), input, "ViewBackward0");
}

}  // namespace dl
