#include <algorithm>
#include <limits>
#include <utility>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/along.h"
#include "core/ops/index/indexing.h"

namespace dl {
namespace {

// The identity of a way to combine elements, which is the initial value without include_self.
Scalar start_of(ScatterMode how, DType dtype) {
  return visit_all(dtype, [how]<typename T>() -> Scalar {
    using Limits = std::numeric_limits<T>;
    if (how == ScatterMode::kAdd) return 0;
    if (how == ScatterMode::kMultiply) return 1;
    if constexpr (std::is_same_v<T, bool>) {
      return how == ScatterMode::kKeepSmaller;
    } else if constexpr (std::is_integral_v<T>) {
      return how == ScatterMode::kKeepLarger ? Limits::lowest() : Limits::max();
    } else {
      return how == ScatterMode::kKeepLarger ? -kInfinity : kInfinity;
    }
  });
}

struct NamedReduce {
  std::string_view name;
  ScatterMode how;
};
constexpr NamedReduce kReduces[] = {{"sum", ScatterMode::kAdd},
                                    {"prod", ScatterMode::kMultiply},
                                    {"mean", ScatterMode::kAdd},
                                    {"amax", ScatterMode::kKeepLarger},
                                    {"amin", ScatterMode::kKeepSmaller}};

// Arguments of scatter_reduce other than tensors.
struct ReduceCall {
  std::int64_t dim = 0;
  std::string_view reduce;
  ScatterMode how = ScatterMode::kAdd;
  bool include_self = true;
};

// The number of elements of each result: those of the source, and its own with include_self. At
// least 1.
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
  detail::write_along(result, d, index, source.detach(), by.how, "scatter_reduce");
  if (by.reduce != "mean") return result;
  const Tensor counts = counts_of(by, result, index);
  return is_floating(result.dtype()) ? div(result, counts) : floor_divide(result, counts);
}

// Inputs: the destination and the source. Saved: both, the index and the result.
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

  // Equal elements share the gradient.
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

}  // namespace

Tensor scatter_reduce(const Tensor& input, std::int64_t dim, const Tensor& index,
                      const Tensor& source, std::string_view reduce, ScatterReduceOptions options) {
  constexpr std::string_view kName = "scatter_reduce";
  const auto* const found = std::ranges::find(kReduces, reduce, &NamedReduce::name);
  DL_CHECK(found != std::end(kReduces), kInvalidArgument,
           "{}: reduce is '{}', wanted 'sum', 'prod', 'mean', 'amax' or 'amin'", kName, reduce);
  const std::size_t d = detail::check_along(input, dim, index, kName);
  detail::check_source(input, index, source, kName);
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

}  // namespace dl
