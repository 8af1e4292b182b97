// gather, scatter and their family: elements along one dimension that an index names.
#include <algorithm>
#include <limits>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

std::size_t check_along(const Tensor& input, std::int64_t dim, const Tensor& index,
                        std::string_view op) {
  check_defined(input, op, "the input");
  check_defined(index, op, "the index");
  check_same_device(input, index, op);
  DL_CHECK(index.dtype() == DType::kI64, kDType, "{}: the index is {}, wanted int64", op,
           name_of(index.dtype()));
  DL_CHECK(index.dim() == input.dim(), kShape, "{}: the index has shape {}, the input {}", op,
           index.sizes().str(), input.sizes().str());
  const std::size_t d = wrap_dim(dim, input.sizes().size(), op);
  for (std::size_t k = 0; k < input.sizes().size(); ++k) {
    DL_CHECK(k == d || index.sizes()[k] <= input.sizes()[k], kShape,
             "{}: the index of shape {} is larger than the input of shape {} in dimension {}", op,
             index.sizes().str(), input.sizes().str(), k);
  }
  return d;
}

// The input as a tensor of the index's shape, all of whose elements along `dim` are its first.
Tensor first_along(const Tensor& input, std::size_t dim, const Tensor& index) {
  Strides strides = input.strides();
  if (!strides.empty()) strides[dim] = 0;
  return as_strided(input, index.sizes(), strides, input.storage_offset());
}

Indexed along(const Tensor& input, std::size_t dim, std::string_view op) {
  const bool is_number = input.dim() == 0;
  return {.op = op,
          .dim = static_cast<std::int64_t>(dim),
          .size = is_number ? 1 : input.sizes()[dim],
          .step = is_number ? 1 : input.strides()[dim]};
}

void write_along(const Tensor& target, std::size_t dim, const Tensor& index, const Tensor& source,
                 PlaceWrite how, std::string_view op) {
  if (index.numel() == 0) return;
  const bool accumulates = how == PlaceWrite::kAdd || how == PlaceWrite::kMultiply;
  if (accumulates && (target.dtype() == DType::kF16 || target.dtype() == DType::kBF16)) {
    // Rounded once, as in PyTorch, and not after each element.
    const Tensor wide = target.detach().to(DType::kF32);
    write_along(wide, dim, index, source.detach().to(DType::kF32), how, op);
    Tensor(target).copy_(wide);
    return;
  }
  const Tensor part = as_strided(source, index.sizes(), source.strides(), source.storage_offset());
  call<Op::kWritePlaces>(target.device(), along(target, dim, op), first_along(target, dim, index),
                         index, part, how, longest_outside(index.sizes(), dim, dim + 1));
}

struct GatherBackward final : Node {
  std::string_view name() const noexcept override { return "gather"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor grad = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
    write_along(grad, dim, saved(0), g, PlaceWrite::kAdd, name());
    context.give(0, grad);
  }
  Shape shape;
  std::size_t dim = 0;
};

// The identity of a way to combine elements, in which those that a write begins anew begin.
Scalar start_of(PlaceWrite how, DType dtype) {
  return visit_all(dtype, [how]<typename T>() -> Scalar {
    using Limits = std::numeric_limits<T>;
    if (how == PlaceWrite::kAdd) return 0;
    if (how == PlaceWrite::kMultiply) return 1;
    if constexpr (std::is_same_v<T, bool>) {
      return how == PlaceWrite::kKeepSmaller;
    } else if constexpr (std::is_integral_v<T>) {
      return how == PlaceWrite::kKeepLarger ? Limits::lowest() : Limits::max();
    } else {
      return how == PlaceWrite::kKeepLarger ? -kInfinity : kInfinity;
    }
  });
}

struct NamedReduce {
  std::string_view name;
  PlaceWrite how;
};
constexpr NamedReduce kReduces[] = {{"sum", PlaceWrite::kAdd},
                                    {"prod", PlaceWrite::kMultiply},
                                    {"mean", PlaceWrite::kAdd},
                                    {"amax", PlaceWrite::kKeepLarger},
                                    {"amin", PlaceWrite::kKeepSmaller}};

// What scatter_reduce is told, but for its tensors.
struct ReduceCall {
  std::int64_t dim = 0;
  std::string_view reduce;
  PlaceWrite how = PlaceWrite::kAdd;
  bool include_self = true;
};

// How many elements each result has: of the source, and its own with include_self. At least 1.
Tensor counts_of(const ReduceCall& by, const Tensor& like, const Tensor& index) {
  const Tensor one = ones_like(like);
  const Tensor start = by.include_self ? one : zeros_like(like);
  const Tensor from = ones({}, {.dtype = like.dtype(), .device = like.device()});
  const Tensor counts = scatter_add(start, by.dim, index, from.expand(index.sizes()));
  return maximum(counts, one);
}

Tensor reduced_by(const ReduceCall& by, const Tensor& input, const Tensor& index,
                  const Tensor& source) {
  Tensor result = input.detach().clone(MemoryFormat::kContiguous);
  const auto d = static_cast<std::size_t>(by.dim);
  if (!by.include_self) scatter_(result, by.dim, index, start_of(by.how, result.dtype()));
  write_along(result, d, index, source.detach(), by.how, "scatter_reduce");
  if (by.reduce != "mean") return result;
  const Tensor counts = counts_of(by, result, index);
  return is_floating(result.dtype()) ? div(result, counts) : floor_divide(result, counts);
}

// Inputs: what was reduced into and the source. Saved: both, the index and the result.
struct ScatterReduceBackward final : Node {
  std::string_view name() const noexcept override { return "scatter_reduce"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& index = saved(2);
    auto [to_input, to_source] = gradients(g, index);
    if (context.needs(0)) {
      context.give(0, by.include_self ? to_input : scatter(to_input, by.dim, index, 0.0));
    }
    if (!context.needs(1)) return;
    if (to_source.sizes() == saved(1).sizes()) return context.give(1, to_source);
    const Tensor grad = zeros(saved(1).sizes(), {.dtype = g.dtype(), .device = g.device()});
    call<Op::kCopy>(g.device(), to_source, as_strided(grad, index.sizes(), grad.strides(), 0));
    context.give(1, grad);
  }

  // PyTorch's formulas.
  std::pair<Tensor, Tensor> gradients(const Tensor& g, const Tensor& index) {
    if (by.reduce == "sum") return {g, gather(g, by.dim, index)};
    if (by.reduce == "mean") {
      const Tensor share = div(g, counts_of(by, g, index));
      return {share, gather(share, by.dim, index)};
    }
    const Tensor& input = saved(0);
    const Tensor source =
        as_strided(saved(1), index.sizes(), saved(1).strides(), saved(1).storage_offset());
    return by.reduce == "prod" ? of_product(g, index, input, source)
                               : of_extreme(g, index, input, source);
  }

  std::pair<Tensor, Tensor> of_product(const Tensor& g, const Tensor& index, const Tensor& input,
                                       const Tensor& source) {
    const Tensor filled = where(eq(input, 0.0), 1.0, input);
    const Tensor to_input = div(mul(g, reduced_by(by, filled, index, source)), filled);
    const Tensor is_zero = eq(source, 0.0);
    const Tensor zeros_there = gather(
        scatter_add(zeros_like(input), by.dim, index, is_zero.to(input.dtype())), by.dim, index);
    const Tensor only = logical_and(is_zero, eq(zeros_there, 1.0));
    const Tensor others = reduced_by(by, input, index, where(only, 1.0, source));
    const Tensor to_only = gather(mul(g, others), by.dim, index);
    const Tensor to_rest =
        div(gather(mul(g, saved(3)), by.dim, index), where(is_zero, 1.0, source));
    return {to_input, where(only, to_only, to_rest)};
  }

  // Equal ones share the gradient.
  std::pair<Tensor, Tensor> of_extreme(const Tensor& g, const Tensor& index, const Tensor& input,
                                       const Tensor& source) {
    const Tensor& result = saved(3);
    const Tensor input_wins = eq(input, result).to(g.dtype());
    const Tensor source_wins = eq(source, gather(result, by.dim, index)).to(g.dtype());
    const Tensor share = div(g, scatter_add(input_wins, by.dim, index, source_wins));
    return {mul(input_wins, share), mul(source_wins, gather(share, by.dim, index))};
  }

  ReduceCall by;
};

// Input 0 is what was written into, input 1 the source; saved: the index.
struct ScatterBackward final : Node {
  std::string_view name() const noexcept override { return operation; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& index = saved(0);
    const auto d = static_cast<std::int64_t>(dim);
    if (context.needs(0)) {
      context.give(0, how == PlaceWrite::kAdd ? g : scatter(g, d, index, 0.0));
    }
    if (context.needs(1)) {
      const Tensor part = gather(g, d, index);
      if (part.sizes() == source) return context.give(1, part);
      const Tensor grad = zeros(source, {.dtype = g.dtype(), .device = g.device()});
      call<Op::kCopy>(g.device(), part, as_strided(grad, part.sizes(), grad.strides(), 0));
      context.give(1, grad);
    }
  }
  std::string_view operation;
  std::size_t dim = 0;
  PlaceWrite how = PlaceWrite::kSet;
  Shape source;
};

void check_source(const Tensor& input, const Tensor& index, const Tensor& source,
                  std::string_view op) {
  check_defined(source, op, "the source");
  check_same_device(input, source, op);
  DL_CHECK(source.dtype() == input.dtype(), kDType, "{}: the source is {}, the input {}", op,
           name_of(source.dtype()), name_of(input.dtype()));
  DL_CHECK(source.dim() == index.dim(), kShape, "{}: the source has shape {}, the index {}", op,
           source.sizes().str(), index.sizes().str());
  for (std::size_t k = 0; k < source.sizes().size(); ++k) {
    DL_CHECK(index.sizes()[k] <= source.sizes()[k], kShape,
             "{}: the index of shape {} is larger than the source of shape {} in dimension {}", op,
             index.sizes().str(), source.sizes().str(), k);
  }
}

Tensor& write_scatter(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source,
                      PlaceWrite how, std::string_view op) {
  const std::size_t d = check_along(input, dim, index, op);
  check_source(input, index, source, op);
  const bool recorded = is_recorded(input, source);
  check_in_place(input, recorded, op);
  check_not_expanded(input, op);
  const Ref<ScatterBackward> node = make_node<ScatterBackward>(detail::before_write(input), source);
  write_along(input.detach(), d, index, readable_during_write(source, input), how, op);
  input.bump_version();
  if (node) {
    node->operation = op;
    node->dim = d;
    node->how = how;
    node->source = source.sizes();
    node->save(index);
    detail::attach_written(input, node);
  }
  return input;
}

// A number as scatter's source: one element, shown as often as the index wants it.
Tensor source_of(const Tensor& input, const Tensor& index, Scalar value, std::string_view op) {
  check_defined(input, op, "the input");
  check_defined(index, op, "the index");
  check_storable(value, input.dtype(), op);
  return scalar_tensor(value, input.dtype(), op, input.device()).expand(index.sizes());
}

// Checks what index_fill and index_copy are given; returns the dimension.
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

// The index of slices along a dimension as one of elements: for scatter_().
Tensor index_of_elements(const Tensor& input, std::size_t dim, const Tensor& index) {
  Shape line(input.sizes().size(), 1);
  line[dim] = index.numel();
  Shape shape = input.sizes();
  shape[dim] = index.numel();
  return index.reshape(line).expand(shape);
}

struct IndexAddBackward final : Node {
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

// index_add_() and, into a copy, index_add(): `op` is the name that the caller used.
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
    Indexed by = along(input, d, op);
    Strides strides(wanted.size(), 0);
    strides[d] = index.stride(0);
    const Tensor moves = zeros({index.numel()}, {.dtype = DType::kI64, .device = input.device()});
    call<Op::kAddPlaces>(input.device(), by, index, moves);
    if (from.numel() != 0) {
      strides[d] = 1;
      Strides target = input.strides();
      target[d] = 0;
      by.step = 1;
      by.is_checked = true;
      call<Op::kWritePlaces>(input.device(), by,
                             as_strided(input.detach(), wanted, target, input.storage_offset()),
                             as_strided(moves, wanted, strides, 0), from, PlaceWrite::kAdd,
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

Tensor gather(const Tensor& input, std::int64_t dim, const Tensor& index) {
  constexpr std::string_view kName = "gather";
  const std::size_t d = check_along(input, dim, index, kName);
  const Tensor result = empty(index.sizes(), {.dtype = input.dtype(), .device = input.device()});
  if (result.numel() != 0) {
    call<Op::kReadPlaces>(input.device(), along(input, d, kName), first_along(input, d, index),
                          index, result);
  }
  if (!is_floating(input.dtype())) return result;
  if (auto* node = record<GatherBackward>(result, input)) {
    node->shape = input.sizes();
    node->dim = d;
    node->save(index);
  }
  return result;
}

Tensor& scatter_(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return write_scatter(input, dim, index, source, PlaceWrite::kSet, "scatter_");
}

Tensor& scatter_(Tensor& input, std::int64_t dim, const Tensor& index, Scalar value) {
  return write_scatter(input, dim, index, source_of(input, index, value, "scatter_"),
                       PlaceWrite::kSet, "scatter_");
}

Tensor& scatter_add_(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return write_scatter(input, dim, index, source, PlaceWrite::kAdd, "scatter_add_");
}

Tensor scatter(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source) {
  check_defined(input, "scatter", "the input");
  Tensor result = input.clone(MemoryFormat::kContiguous);
  return write_scatter(result, dim, index, source, PlaceWrite::kSet, "scatter");
}

Tensor scatter(const Tensor& input, std::int64_t dim, const Tensor& index, Scalar value) {
  return scatter(input, dim, index, source_of(input, index, value, "scatter"));
}

Tensor scatter_add(const Tensor& input, std::int64_t dim, const Tensor& index,
                   const Tensor& source) {
  check_defined(input, "scatter_add", "the input");
  Tensor result = input.clone(MemoryFormat::kContiguous);
  return write_scatter(result, dim, index, source, PlaceWrite::kAdd, "scatter_add");
}

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
  const Tensor places = index_of_elements(input, d, index);
  DL_CHECK(source.sizes() == places.sizes(), kShape, "{}: the source has shape {}, wanted {}",
           kName, source.sizes().str(), places.sizes().str());
  Tensor result = input.clone(MemoryFormat::kContiguous);
  write_scatter(result, static_cast<std::int64_t>(d), places, source, PlaceWrite::kSet, kName);
  return detail::shown_as(result, input, "IndexCopyBackward0");
}

Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& value) {
  constexpr std::string_view kName = "index_fill";
  const std::size_t d = check_slices(input, dim, index, kName);
  check_defined(value, kName, "the value");
  DL_CHECK(value.dim() == 0, kShape, "{}: the value has shape {}, wanted no dimension", kName,
           value.sizes().str());
  const Tensor from_front = where(lt(index, 0), index + input.sizes()[d], index);
  // The gradient of the value counts a slice once, however often the index names it.
  const Tensor once = asks_gradient(value) ? unique(from_front).values : from_front;
  const Tensor places = index_of_elements(input, d, once);
  Tensor result = input.clone();
  write_scatter(result, static_cast<std::int64_t>(d), places,
                value.to(input.dtype()).expand(places.sizes()), PlaceWrite::kSet, kName);
  return detail::shown_as(result, input,
                          asks_gradient(value) ? "IndexFillBackward1" : "IndexFillBackward0");
}

Tensor index_fill(const Tensor& input, std::int64_t dim, const Tensor& index, Scalar value) {
  check_defined(input, "index_fill", "the input");
  check_storable(value, input.dtype(), "index_fill");
  return index_fill(input, dim, index,
                    scalar_tensor(value, input.dtype(), "index_fill", input.device()));
}

Tensor masked_scatter(const Tensor& input, const Tensor& mask, const Tensor& source) {
  constexpr std::string_view kName = "masked_scatter";
  check_defined(input, kName, "the input");
  check_defined(mask, kName, "the mask");
  check_defined(source, kName, "the source");
  DL_CHECK(mask.dtype() == DType::kBool, kDType, "{}: the mask is {}, wanted bool", kName,
           name_of(mask.dtype()));
  DL_CHECK(source.dtype() == input.dtype(), kDType, "{}: the source is {}, the input {}", kName,
           name_of(source.dtype()), name_of(input.dtype()));
  const Shape shape = broadcast_shapes(input.sizes(), mask.sizes(), kName);
  const Tensor wanted = mask.expand(shape);
  const auto count = sum(wanted).item<std::int64_t>();
  DL_CHECK(source.numel() >= count, kShape,
           "{}: the source has {} elements, but the mask is true {} times", kName, source.numel(),
           count);
  Tensor result = input.expand(shape).clone(MemoryFormat::kContiguous);
  const Tensor elements = source.reshape({-1}).narrow(0, 0, count);
  if (shape.empty()) {  // a mask of no dimension indexes none
    if (count == 0) return result;
    return detail::shown_as(where(wanted, elements.view({}), result), input,
                            "MaskedScatterBackward0");
  }
  const TensorIndex places[] = {wanted};
  index_put_(result, places, elements);
  return detail::shown_as(result, input, "MaskedScatterBackward0");
}

Tensor scatter_reduce(const Tensor& input, std::int64_t dim, const Tensor& index,
                      const Tensor& source, std::string_view reduce, ScatterReduceOptions options) {
  constexpr std::string_view kName = "scatter_reduce";
  const auto* const found = std::ranges::find(kReduces, reduce, &NamedReduce::name);
  DL_CHECK(found != std::end(kReduces), kInvalidArgument,
           "{}: reduce is '{}', wanted 'sum', 'prod', 'mean', 'amax' or 'amin'", kName, reduce);
  const std::size_t d = check_along(input, dim, index, kName);
  check_source(input, index, source, kName);
  const ReduceCall by{.dim = static_cast<std::int64_t>(d),
                      .reduce = found->name,
                      .how = found->how,
                      .include_self = options.include_self};
  const Tensor result = reduced_by(by, input, index, source);
  if (!is_floating(result.dtype())) return result;
  if (auto* node = record<ScatterReduceBackward>(result, input, source)) {
    node->by = by;
    node->save(input);
    node->save(source);
    node->save(index);
    node->save(result);
  }
  return result;
}

Tensor bincount(const Tensor& input, const Tensor& weights, std::int64_t minlength) {
  constexpr std::string_view kName = "bincount";
  check_defined(input, kName, "the input");
  if (is_floating(input.dtype()) || input.dtype() == DType::kBool) {
    refuse_dtype(kName, input.dtype(), "integers");
  }
  DL_CHECK(input.dim() == 1, kShape, "{}: the input has shape {}, wanted one dimension", kName,
           input.sizes().str());
  DL_CHECK(minlength >= 0, kInvalidArgument, "{}: minlength is {}, wanted at least 0", kName,
           minlength);
  const Tensor bins = input.to(DType::kI64);
  std::int64_t count = minlength;
  if (bins.numel() > 0) {
    const auto least = min(bins).item<std::int64_t>();
    DL_CHECK(least >= 0, kInvalidArgument, "{}: {} is among the numbers, wanted none below 0",
             kName, least);
    count = std::max(count, max(bins).item<std::int64_t>() + 1);
  }
  if (!weights.defined() || bins.numel() == 0) {
    const Tensor one = ones({}, {.dtype = DType::kI64, .device = input.device()});
    return scatter_add(zeros({count}, {.dtype = DType::kI64, .device = input.device()}), 0, bins,
                       one.expand(bins.sizes()));
  }
  DL_CHECK(weights.sizes() == input.sizes(), kShape, "{}: the weights have shape {}, the input {}",
           kName, weights.sizes().str(), input.sizes().str());
  const DType dtype = weights.dtype() == DType::kF32 ? DType::kF32 : DType::kF64;
  return scatter_add(zeros({count}, {.dtype = dtype, .device = input.device()}), 0, bins,
                     weights.detach().to(dtype));
}

Tensor one_hot(const Tensor& classes, std::int64_t num_classes) {
  check_defined(classes, "one_hot", "the classes");
  DL_CHECK(classes.dtype() == DType::kI64, kDType, "one_hot: the classes are {}, wanted int64",
           name_of(classes.dtype()));
  DL_CHECK(num_classes >= -1 && num_classes != 0, kInvalidArgument,
           "one_hot: num_classes is {}, wanted at least 1, or -1", num_classes);
  DL_CHECK(num_classes > 0 || classes.numel() > 0, kInvalidArgument,
           "one_hot: no class says how many there are; give num_classes");
  if (classes.numel() > 0) {
    const auto least = min(classes).item<std::int64_t>();
    const auto most = max(classes).item<std::int64_t>();
    if (num_classes == -1) num_classes = std::max<std::int64_t>(most + 1, 1);
    DL_CHECK(least >= 0 && most < num_classes, kIndex,
             "one_hot: class {} is among the classes, wanted 0 to {}, since num_classes is {}",
             least < 0 ? least : most, num_classes - 1, num_classes);
  }
  Shape shape = classes.sizes();
  shape.push_back(std::max<std::int64_t>(num_classes, 1));
  Tensor result = zeros(shape, {.dtype = DType::kI64, .device = classes.device()});
  const std::size_t d = shape.size() - 1;
  const Tensor index = classes.unsqueeze(-1);
  const Tensor one = ones({}, {.dtype = DType::kI64, .device = classes.device()});
  write_along(result, d, index, one.expand(index.sizes()), PlaceWrite::kSet, "one_hot");
  return result;
}

}  // namespace dl
