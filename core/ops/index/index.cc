#include "core/ops/index/index.h"

#include <algorithm>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/tensor/scalar/promote.h"

namespace dl {
namespace {

struct CatBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "cat"; }
  void backward(BackwardContext& context) override {
    std::int64_t start = 0;
    const Tensor& g = context.grad_output();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (context.needs(i)) {
        context.give(i, lengths[i] == kSkipped
                            ? zeros({0}, {.dtype = dtypes[i], .device = g.device()})
                            : g.narrow(dim, start, lengths[i]).to(dtypes[i]));
      }
      start += std::max<std::int64_t>(lengths[i], 0);
    }
  }
  static constexpr std::int64_t kSkipped = -1;
  std::int64_t dim = 0;
  std::vector<std::int64_t> lengths;
  std::vector<DType> dtypes;
};

struct IndexSelectBackward final : Node {
  std::string_view name() const noexcept override { return "index_select"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = zeros(
        shape, {.dtype = context.grad_output().dtype(), .device = context.grad_output().device()});
    call<Op::kIndexSelectBackward>(grad.device(), context.grad_output().contiguous(), dim, saved(0),
                                   grad);
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor none = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
    context.give(0, index_add(none, dim, saved(0), g));
  }
  Shape shape;
  std::int64_t dim = 0;
};

struct DropoutBackward final : Node {
  std::string_view name() const noexcept override { return "dropout"; }
  std::string grad_fn_name() const override { return "MulBackward0"; }
  void backward(BackwardContext& context) override {
    const Tensor from = context.grad_output().contiguous();
    const Tensor grad = empty_like(from);
    call<Op::kMaskScale>(grad.device(), from, saved(0), scale, grad);
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    context.give(0, mul(masked(context.grad_output(), saved(0)), scale));
  }
  double scale = 1.0;
};

// PyTorch's legacy rule: a tensor of shape [0] can be joined with any others.
bool is_nothing(const Tensor& tensor) {
  return tensor.dim() == 1 && tensor.numel() == 0;
}

// The shape of the joined tensors, the first of which that counts is number `first`; `dim` is a
// dimension of theirs.
Shape joined_shape(std::span<const Tensor> tensors, std::size_t first, std::size_t dim) {
  Shape shape = tensors[first].sizes();
  for (std::size_t i = first + 1; i < tensors.size(); ++i) {
    if (is_nothing(tensors[i])) continue;
    const Shape& other = tensors[i].sizes();
    bool fits = other.size() == shape.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) {
      fits = d == dim || other[d] == shape[d];
    }
    DL_CHECK(fits, kShape,
             "cat: tensor {} of shape {} does not fit to the first, {}, along dimension {}", i,
             other.str(), tensors[first].sizes().str(), dim);
    shape[dim] += other[dim];
  }
  return shape;
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, std::int64_t dim) {
  DL_CHECK(!tensors.empty(), kInvalidArgument,
           "cat: the list of tensors is empty, wanted at least one");
  check_defined(tensors[0], "cat", "a tensor of the list");
  DType dtype = tensors[0].dtype();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_defined(tensors[i], "cat", "a tensor of the list");
    check_same_device(tensors[0], tensors[i], "cat");
    dtype = promote_types(dtype, tensors[i].dtype(), "cat");
    DL_CHECK(tensors[i].dim() > 0, kShape,
             "cat: tensor {} has no dimension to join along; use stack", i);
  }
  const auto found = std::ranges::find_if_not(tensors, is_nothing);
  if (found == tensors.end()) dim = 0;  // all have shape [0]: PyTorch accepts any `dim`
  const std::size_t first =
      found == tensors.end() ? 0 : static_cast<std::size_t>(found - tensors.begin());
  const std::size_t d = wrap_dim(dim, tensors[first].sizes().size(), "cat");
  const Shape shape = joined_shape(tensors, first, d);
  const TensorOptions like{.dtype = dtype, .device = tensors[0].device()};
  const auto all = [&](const auto& has) { return std::ranges::all_of(tensors, has); };
  const bool last_in_torch =
      all([](const Tensor& each) { return torch_format(each) == MemoryFormat::kChannelsLast; });
  const bool last = last_in_torch || all([](const Tensor& each) {
                      const StoredOrder stored(each);
                      return stored->is_channels_last() && !stored->is_contiguous();
                    });
  const Tensor memory =
      empty(shape, last ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous, like);
  std::int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    if (is_nothing(tensor)) continue;
    const std::int64_t length = tensor.sizes()[d];
    Shape part = shape;
    part[d] = length;
    call<Op::kCopy>(memory.device(), tensor,
                    as_strided(memory, part, memory.strides(), start * memory.strides()[d]));
    start += length;
  }
  Tensor result =
      last && !last_in_torch ? with_visible_format(memory, MemoryFormat::kContiguous) : memory;
  if (!is_floating(dtype)) return result;
  if (auto* node = record_list<CatBackward>(result, tensors)) {
    node->dim = static_cast<std::int64_t>(d);
    for (const Tensor& tensor : tensors) {
      node->lengths.push_back(is_nothing(tensor) ? CatBackward::kSkipped : tensor.sizes()[d]);
      node->dtypes.push_back(tensor.dtype());
    }
  }
  return result;
}

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim) {
  return cat(std::span<const Tensor>(tensors), dim);
}

Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim) {
  return cat(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}

Tensor stack(std::span<const Tensor> tensors, std::int64_t dim) {
  DL_CHECK(!tensors.empty(), kInvalidArgument,
           "stack: the list of tensors is empty, wanted at least one");
  std::vector<Tensor> rows;
  rows.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_defined(tensors[i], "stack", "a tensor of the list");
    DL_CHECK(tensors[i].sizes() == tensors[0].sizes(), kShape,
             "stack: tensor {} has the shape {}, the first {}", i, tensors[i].sizes().str(),
             tensors[0].sizes().str());
    rows.push_back(tensors[i].unsqueeze(dim));
  }
  return detail::finish_composed(cat(rows, dim < 0 ? dim + tensors[0].dim() + 1 : dim), tensors[0],
                                 "StackBackward0");
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim) {
  return stack(std::span<const Tensor>(tensors), dim);
}

Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}

Tensor index_select(const Tensor& input, std::int64_t dim, const Tensor& index) {
  check_defined(input, "index_select", "the input");
  check_defined(index, "index_select", "the index");
  check_same_device(input, index, "index_select");
  DL_CHECK(input.dim() > 0, kShape, "index_select: the input has no dimension");
  DL_CHECK(index.dtype() == DType::kI64 && index.dim() <= 1, kInvalidArgument,
           "index_select: the index is {} of shape {}, wanted int64 of at most one dimension",
           name_of(index.dtype()), index.sizes().str());
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "index_select");
  Shape shape = input.sizes();
  shape[d] = index.numel();
  Tensor result = empty(shape, {.dtype = input.dtype(), .device = input.device()});
  const Tensor indices = index.reshape({index.numel()}).contiguous();
  call<Op::kIndexSelect>(input.device(), input.contiguous(), static_cast<std::int64_t>(d), indices,
                         result);
  if (!is_floating(input.dtype())) return result;
  if (auto* node = record<IndexSelectBackward>(result, input)) {
    node->shape = input.sizes();
    node->dim = static_cast<std::int64_t>(d);
    node->save(indices);
  }
  return result;
}

Tensor dropout_with_mask(const Tensor& input, const Tensor& mask, double p) {
  check_defined(input, "dropout", "the input");
  check_defined(mask, "dropout", "the mask");
  check_floating(input, "dropout");
  DL_CHECK(p >= 0 && p < 1, kInvalidArgument, "dropout: p is {}, wanted at least 0 and less than 1",
           p);
  DL_CHECK(mask.dtype() == DType::kBool && mask.sizes() == input.sizes(), kInvalidArgument,
           "dropout: the mask is {} of shape {}, wanted bool of the input's shape {}",
           name_of(mask.dtype()), mask.sizes().str(), input.sizes().str());
  const Tensor dense = input.contiguous();
  const Tensor keep = mask.contiguous();
  const double scale = 1.0 / (1.0 - p);
  Tensor output = empty_like(dense);
  call<Op::kMaskScale>(input.device(), dense, keep, scale, output);
  if (auto* node = record<DropoutBackward>(output, dense)) {
    node->scale = scale;
    node->save(keep);
  }
  return output;
}

}  // namespace dl
