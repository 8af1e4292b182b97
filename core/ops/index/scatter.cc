// gather, scatter and operations composed of them, which index elements along one dimension.
#include <algorithm>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/along.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/reduce/reduce.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

void check_classes(const Tensor& classes, std::int64_t num_classes) {
  if (classes.numel() == 0) return;
  const auto least = min(classes).item<std::int64_t>();
  const auto most = max(classes).item<std::int64_t>();
  DL_CHECK(least >= 0 && most < num_classes, kIndex,
           "one_hot: class {} is among the classes, wanted 0 to {}, since num_classes is {}",
           least < 0 ? least : most, num_classes - 1, num_classes);
}

// A view of the input with the index's shape that repeats the first element along `dim`.
Tensor first_along(const Tensor& input, std::size_t dim, const Tensor& index) {
  Strides strides = input.strides();
  if (!strides.empty()) strides[dim] = 0;
  return as_strided(input, index.sizes(), strides, input.storage_offset());
}

struct GatherBackward final : Node {
  std::string_view name() const noexcept override { return "gather"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor grad = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
    detail::write_along(grad, dim, saved(0), g, ScatterMode::kAdd, name());
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor none = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
    context.give(0, scatter_add(none, static_cast<std::int64_t>(dim), saved(0), g));
  }
  Shape shape;
  std::size_t dim = 0;
};

// Input 0 is the destination, input 1 the source; saved: the index.
struct ScatterBackward final : Node {
  std::string_view name() const noexcept override { return operation; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& index = saved(0);
    const auto d = static_cast<std::int64_t>(dim);
    if (context.needs(0)) {
      context.give(0, how == ScatterMode::kAdd ? g : scatter(g, d, index, 0.0));
    }
    if (context.needs(1)) {
      const Tensor part = gather(g, d, index);
      if (part.sizes() == source) return context.give(1, part);
      const Tensor grad = zeros(source, {.dtype = g.dtype(), .device = g.device()});
      call<Op::kCopy>(g.device(), part, as_strided(grad, part.sizes(), grad.strides(), 0));
      context.give(1, grad);
    }
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const auto d = static_cast<std::int64_t>(dim);
    if (context.needs(1) && saved(0).sizes() != source) refuse_recording();
    if (context.needs(0)) {
      context.give(0, how == ScatterMode::kAdd ? g : scatter(g, d, saved(0), 0.0));
    }
    if (context.needs(1)) context.give(1, gather(g, d, saved(0)));
  }
  std::string_view operation;
  std::size_t dim = 0;
  ScatterMode how = ScatterMode::kSet;
  Shape source;
};

// A number as scatter's source: one element, expanded to the index's shape.
Tensor source_of(const Tensor& input, const Tensor& index, Scalar value, std::string_view op) {
  check_defined(input, op, "the input");
  check_defined(index, op, "the index");
  check_storable(value, input.dtype(), op);
  return scalar_tensor(value, input.dtype(), op, input.device()).expand(index.sizes());
}

}  // namespace

std::size_t detail::check_along(const Tensor& input, std::int64_t dim, const Tensor& index,
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

Indexed detail::along(const Tensor& input, std::size_t dim, std::string_view op) {
  const bool is_number = input.dim() == 0;
  return {.op = op,
          .dim = static_cast<std::int64_t>(dim),
          .size = is_number ? 1 : input.sizes()[dim],
          .step = is_number ? 1 : input.strides()[dim]};
}

void detail::write_along(const Tensor& target, std::size_t dim, const Tensor& index,
                         const Tensor& source, ScatterMode how, std::string_view op) {
  if (index.numel() == 0) return;
  const bool accumulates = how == ScatterMode::kAdd || how == ScatterMode::kMultiply;
  if (accumulates && (target.dtype() == DType::kF16 || target.dtype() == DType::kBF16)) {
    // Rounds once, as in PyTorch, not after each element.
    const Tensor wide = target.detach().to(DType::kF32);
    write_along(wide, dim, index, source.detach().to(DType::kF32), how, op);
    Tensor(target).copy_(wide);
    return;
  }
  const Tensor part = as_strided(source, index.sizes(), source.strides(), source.storage_offset());
  call<Op::kScatterElements>(target.device(), along(target, dim, op),
                             first_along(target, dim, index), index, part, how,
                             longest_outside(index.sizes(), dim, dim + 1));
}

void detail::check_source(const Tensor& input, const Tensor& index, const Tensor& source,
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

Tensor& detail::write_scatter(Tensor& input, std::int64_t dim, const Tensor& index,
                              const Tensor& source, ScatterMode how, std::string_view op) {
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

Tensor gather(const Tensor& input, std::int64_t dim, const Tensor& index) {
  constexpr std::string_view kName = "gather";
  const std::size_t d = detail::check_along(input, dim, index, kName);
  const Tensor result = empty(index.sizes(), {.dtype = input.dtype(), .device = input.device()});
  if (result.numel() != 0) {
    call<Op::kGatherElements>(input.device(), detail::along(input, d, kName),
                              first_along(input, d, index), index, result);
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
  return detail::write_scatter(input, dim, index, source, ScatterMode::kSet, "scatter_");
}

Tensor& scatter_(Tensor& input, std::int64_t dim, const Tensor& index, Scalar value) {
  return detail::write_scatter(input, dim, index, source_of(input, index, value, "scatter_"),
                               ScatterMode::kSet, "scatter_");
}

Tensor& scatter_add_(Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return detail::write_scatter(input, dim, index, source, ScatterMode::kAdd, "scatter_add_");
}

Tensor scatter(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& source) {
  check_defined(input, "scatter", "the input");
  Tensor result = input.clone(MemoryFormat::kContiguous);
  return detail::write_scatter(result, dim, index, source, ScatterMode::kSet, "scatter");
}

Tensor scatter(const Tensor& input, std::int64_t dim, const Tensor& index, Scalar value) {
  return scatter(input, dim, index, source_of(input, index, value, "scatter"));
}

Tensor scatter_add(const Tensor& input, std::int64_t dim, const Tensor& index,
                   const Tensor& source) {
  check_defined(input, "scatter_add", "the input");
  Tensor result = input.clone(MemoryFormat::kContiguous);
  return detail::write_scatter(result, dim, index, source, ScatterMode::kAdd, "scatter_add");
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
  if (shape.empty()) {  // a 0-d mask consumes no dimension
    if (count == 0) return result;
    return detail::finish_composed(where(wanted, elements.view({}), result), input,
                                   "MaskedScatterBackward0");
  }
  const TensorIndex places[] = {wanted};
  index_put_(result, places, elements);
  return detail::finish_composed(result, input, "MaskedScatterBackward0");
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
  if (num_classes == -1) {
    num_classes = std::max<std::int64_t>(max(classes).item<std::int64_t>() + 1, 1);
  }
  if (classes.is_cuda()) {
    check_classes(classes, num_classes);
  } else {
    tape::run("one_hot", 0, &check_classes, classes, num_classes);  // a tape checks again
  }
  Shape shape = classes.sizes();
  shape.push_back(std::max<std::int64_t>(num_classes, 1));
  Tensor result = zeros(shape, {.dtype = DType::kI64, .device = classes.device()});
  const std::size_t d = shape.size() - 1;
  const Tensor index = classes.unsqueeze(-1);
  const Tensor one = ones({}, {.dtype = DType::kI64, .device = classes.device()});
  detail::write_along(result, d, index, one.expand(index.sizes()), ScatterMode::kSet, "one_hot");
  return result;
}

}  // namespace dl
