// index_add, index_copy and index_fill: slices along one dimension that an index names.
#include <algorithm>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/along.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/order/order.h"

namespace dl {
namespace {

// Checks the arguments of index_fill and index_copy; returns the dimension.
std::size_t check_slices(const Tensor& input, std::int64_t dim, const Tensor& index,
                         std::string_view op) {
  check_defined(input, op, "the input");
  check_defined(index, op, "the index");
  check_same_device(input, index, op);
  DL_CHECK(input.dim() > 0, kShape, "{}: the input has no dimension", op);
  DL_CHECK(index.dtype() == DType::kI64 && index.dim() <= 1, kInvalidArgument,
           "{}: the index is {} of shape {}, wanted int64 of one dimension", op,
           name_of(index.dtype()), index.sizes().str());
  return wrap_dim(dim, input.sizes().size(), op);
}

// Expands an index of slices along a dimension to an index of elements, for scatter_().
Tensor index_of_elements(const Tensor& input, std::size_t dim, const Tensor& index) {
  Shape line(input.sizes().size(), 1);
  line[dim] = index.numel();
  Shape shape = input.sizes();
  shape[dim] = index.numel();
  return index.reshape(line).expand(shape);
}

struct IndexAddBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "index_add"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) context.give(0, g);
    if (context.needs(1)) {
      const Tensor part = index_select(g, dim, saved(0));
      context.give(1, alpha == 1.0 ? part : mul(part, alpha));
    }
  }
  std::int64_t dim = 0;
  double alpha = 1.0;
};

// index_add_() and, into a copy, index_add(): `op` is the name of the caller's operation.
Tensor& add_slices(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source,
                   Scalar alpha, std::string_view op) {
  check_defined(input, op, "the input");
  check_defined(index, op, "the index");
  check_defined(source, op, "the source");
  check_same_device(input, index, op);
  check_same_device(input, source, op);
  DL_CHECK(input.dim() > 0, kShape, "{}: the input has no dimension", op);
  const std::size_t d = wrap_dim(dim, input.sizes().size(), op);
  DL_CHECK(index.dtype() == DType::kI64 && index.dim() == 1, kInvalidArgument,
           "{}: the index is {} of shape {}, wanted int64 of one dimension", op,
           name_of(index.dtype()), index.sizes().str());
  DL_CHECK(source.dtype() == input.dtype(), kDType, "{}: the source is {}, the input {}", op,
           name_of(source.dtype()), name_of(input.dtype()));
  Shape wanted = input.sizes();
  wanted[d] = index.numel();
  DL_CHECK(source.sizes() == wanted, kShape, "{}: the source has shape {}, wanted {}", op,
           source.sizes().str(), wanted.str());
  const bool recorded = is_recorded(input, source);
  check_in_place(input, recorded, op);
  check_not_expanded(input, op);
  const Ref<IndexAddBackward> node =
      make_node<IndexAddBackward>(detail::before_write(input), source);
  {
    const NoGradGuard not_recorded;
    const Tensor scaled =
        alpha.as_double() == 1.0 ? source.detach() : mul(source.detach(), alpha).to(input.dtype());
    const Tensor from = readable_during_write(scaled, input);
    Indexed by = detail::along(input, d, op);
    Strides strides(wanted.size(), 0);
    strides[d] = index.stride(0);
    const Tensor moves = zeros({index.numel()}, {.dtype = DType::kI64, .device = input.device()});
    call<Op::kAddOffsets>(input.device(), by, index, moves);
    if (from.numel() != 0) {
      strides[d] = 1;
      Strides target = input.strides();
      target[d] = 0;
      by.step = 1;
      by.is_checked = true;
      call<Op::kScatterElements>(input.device(), by,
                                 as_strided(input.detach(), wanted, target, input.storage_offset()),
                                 as_strided(moves, wanted, strides, 0), from, ScatterMode::kAdd,
                                 longest_outside(wanted, d, d + 1));
    }
  }
  input.bump_version();
  if (node) {
    node->dim = static_cast<std::int64_t>(d);
    node->alpha = alpha.as_double();
    node->save(index);
    detail::attach_written(input, node);
  }
  return input;
}

}  // namespace

Tensor& index_add_(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source,
                   Scalar alpha) {
  return add_slices(input, dim, index, source, alpha, "index_add_");
}

Tensor index_add(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha) {
  check_defined(input, "index_add", "the input");
  Tensor result = input.clone(MemoryFormat::kContiguous);
  return add_slices(result, dim, index, source, alpha, "index_add");
}

Tensor index_copy(const Tensor& input, std::int64_t dim, const Tensor& index,
                  const Tensor& source) {
  constexpr std::string_view kName = "index_copy";
  const std::size_t d = check_slices(input, dim, index, kName);
  check_defined(source, kName, "the source");
  const Tensor indices = index_of_elements(input, d, index);
  DL_CHECK(source.sizes() == indices.sizes(), kShape, "{}: the source has shape {}, wanted {}",
           kName, source.sizes().str(), indices.sizes().str());
  Tensor result = input.clone(MemoryFormat::kContiguous);
  detail::write_scatter(result, static_cast<std::int64_t>(d), indices, source, ScatterMode::kSet,
                        kName);
  return detail::finish_composed(result, input, "IndexCopyBackward0");
}

Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& value) {
  constexpr std::string_view kName = "index_fill";
  const std::size_t d = check_slices(input, dim, index, kName);
  check_defined(value, kName, "the value");
  DL_CHECK(value.dim() == 0, kShape, "{}: the value has shape {}, wanted no dimension", kName,
           value.sizes().str());
  const Tensor from_front = where(lt(index, 0), index + input.sizes()[d], index);
  // The gradient of the value counts a slice once, even if the index names it repeatedly.
  const Tensor once = needs_grad(value) ? unique(from_front).values : from_front;
  const Tensor indices = index_of_elements(input, d, once);
  Tensor result = input.clone();
  detail::write_scatter(result, static_cast<std::int64_t>(d), indices,
                        value.to(input.dtype()).expand(indices.sizes()), ScatterMode::kSet, kName);
  return detail::finish_composed(result, input,
                                 needs_grad(value) ? "IndexFillBackward1" : "IndexFillBackward0");
}

Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, Scalar value) {
  check_defined(input, "index_fill", "the input");
  check_storable(value, input.dtype(), "index_fill");
  return index_fill(input, dim, index,
                    scalar_tensor(value, input.dtype(), "index_fill", input.device()));
}

}  // namespace dl
