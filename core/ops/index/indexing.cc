#include "core/ops/index/indexing.h"

#include <algorithm>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/binary.h"
#include "core/ops/index/index.h"
#include "core/ops/layout.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

using Indices = std::span<const TensorIndex>;

// The number of input dimensions that an index consumes.
std::int64_t width_of(const TensorIndex& index, std::string_view op) {
  if (std::holds_alternative<indexing::NoneType>(index.value()) ||
      std::holds_alternative<indexing::EllipsisType>(index.value())) {
    return 0;
  }
  const auto* const tensor = std::get_if<Tensor>(&index.value());
  if (tensor == nullptr) return 1;
  check_defined(*tensor, op, "an index");
  return tensor->dtype() == DType::kBool ? tensor->dim() : 1;
}

// A view, and an int64 index tensor for each of its dimensions; undefined for dimensions that are
// not indexed.
struct Resolved {
  Tensor view;
  std::vector<Tensor> at;
  bool has_tensors() const {
    return std::ranges::any_of(at, [](const Tensor& index) { return index.defined(); });
  }
};

Tensor as_position_index(const Tensor& index, std::string_view op) {
  if (is_floating(index.dtype()) || index.dtype() == DType::kU8) {
    refuse_dtype(op, index.dtype(), "bool or an integer dtype other than uint8 as an index");
  }
  return index.to(DType::kI64);
}

bool is_integer_index(const Tensor& index) {
  return !is_floating(index.dtype()) && index.dtype() != DType::kBool &&
         index.dtype() != DType::kU8;
}

// Applies the indices that give views, and turns masks into int64 indices.
class Resolver {
 public:
  Resolver(const Tensor& input, std::string_view op) : op_(op) { result_.view = input; }

  Resolved run(Indices indices) {
    std::int64_t taken = 0;
    std::int64_t dots = 0;
    for (const TensorIndex& index : indices) {
      taken += width_of(index, op_);
      if (std::holds_alternative<indexing::EllipsisType>(index.value())) ++dots;
    }
    DL_CHECK(dots <= 1, kInvalidArgument, "{}: {} Ellipsis were given, wanted at most one", op_,
             dots);
    DL_CHECK(taken <= result_.view.dim(), kIndex,
             "{}: {} dimensions are indexed, the tensor of shape {} has {}", op_, taken,
             result_.view.sizes().str(), result_.view.dim());
    rest_ = result_.view.dim() - taken;
    keeps_whole_slices_ = indices.size() == 1;
    for (const TensorIndex& index : indices) {
      std::visit([this](const auto& each) { apply(each); }, index.value());
    }
    result_.at.resize(static_cast<std::size_t>(result_.view.dim()));
    return std::move(result_);
  }

 private:
  void apply(std::int64_t index) {
    const std::int64_t size = result_.view.size(dim_);
    DL_CHECK(index >= -size && index < size, kIndex,
             "{}: index {} is out of range for dimension {} of size {}", op_, index, dim_, size);
    result_.view = result_.view.select(dim_, index);
  }
  void apply(const indexing::Slice& slice) {
    DL_CHECK(slice.step > 0, kInvalidArgument, "{}: a slice has the step {}, wanted at least 1",
             op_, slice.step);
    if (keeps_whole_slices_ || slice.start != 0 || slice.stop < result_.view.size(dim_) ||
        slice.step != 1) {
      result_.view = result_.view.slice(dim_, slice.start, slice.stop, slice.step);
    }
    pass(1);
  }
  void apply(indexing::NoneType) {
    result_.view = result_.view.unsqueeze(dim_);
    pass(1);
  }
  void apply(indexing::EllipsisType) { pass(rest_); }
  void apply(const Tensor& index) {
    if (index.dim() == 0 && is_integer_index(index)) return apply(index.item<std::int64_t>());
    check_same_device(result_.view, index, op_);
    if (index.dtype() != DType::kBool) {
      result_.at.push_back(as_position_index(index, op_));
      ++dim_;
      return;
    }
    DL_CHECK(index.dim() > 0, kShape, "{}: a mask without dimensions", op_);
    for (std::int64_t d = 0; d < index.dim(); ++d) {
      DL_CHECK(index.size(d) == result_.view.size(dim_ + d), kShape,
               "{}: a mask of shape {} does not fit to dimension {} of {}", op_,
               index.sizes().str(), dim_ + d, result_.view.sizes().str());
    }
    const Tensor found = nonzero(index);
    for (std::int64_t d = 0; d < index.dim(); ++d) result_.at.push_back(found.select(1, d));
    dim_ += index.dim();
  }
  void pass(std::int64_t count) {
    dim_ += count;
    result_.at.resize(static_cast<std::size_t>(dim_));
  }

  std::string_view op_;
  Resolved result_;
  std::int64_t dim_ = 0;             // dimension of the view for the next index
  std::int64_t rest_ = 0;            // dimensions without an index
  bool keeps_whole_slices_ = false;  // a whole slice still gives a view, whose node is named slice
};

// For tensor indices: the addresses of the result's elements in the indexed tensor.
struct Addresses {
  Shape shape;    // of the result
  Tensor tensor;  // the indexed tensor, as a tensor of that shape
  Tensor index;   // offsets in elements, of that shape too
  std::int64_t disjoint_dim = -1;
};

Addresses addresses_of(const Tensor& tensor, const std::vector<Tensor>& at, std::string_view op) {
  std::size_t first = at.size();
  std::size_t last = 0;
  std::size_t count = 0;
  Shape common;
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (!at[d].defined()) continue;
    first = std::min(first, d);
    last = d;
    ++count;
    common = broadcast_shapes(common, at[d].sizes(), op);
  }
  const std::size_t first_indexed = last - first + 1 == count ? first : 0;
  const Tensor moves = zeros(common, {.dtype = DType::kI64, .device = tensor.device()});
  Addresses result;
  Strides strides;
  Strides index_strides;
  const auto insert_common = [&] {
    for (std::size_t k = 0; k < common.size(); ++k) {
      result.shape.push_back(common[k]);
      strides.push_back(0);
      index_strides.push_back(moves.strides()[k]);
    }
  };
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (d == first_indexed) insert_common();
    if (at[d].defined()) {
      const Tensor index =
          as_strided(at[d], common, broadcast_strides(at[d].sizes(), at[d].strides(), common),
                     at[d].storage_offset());
      const Indexed by{.op = op,
                       .dim = static_cast<std::int64_t>(d),
                       .size = tensor.sizes()[d],
                       .step = tensor.strides()[d],
                       .from_end = true};
      call<Op::kAddOffsets>(tensor.device(), by, index, moves);
      continue;
    }
    result.shape.push_back(tensor.sizes()[d]);
    strides.push_back(tensor.strides()[d]);
    index_strides.push_back(0);
  }
  element_count(result.shape, op);
  result.disjoint_dim = longest_outside(result.shape, first_indexed, first_indexed + common.size());
  if (element_count(result.shape, op) == 0) return result;  // nothing is read or written
  result.tensor = as_strided(tensor, result.shape, strides, tensor.storage_offset());
  result.index = as_strided(moves, result.shape, index_strides, 0);
  return result;
}

void write_to(const Tensor& tensor, const std::vector<Tensor>& at, const Tensor& value,
              ScatterMode how, std::string_view op) {
  const Addresses addresses = addresses_of(tensor, at, op);
  DL_CHECK(broadcast_shapes(addresses.shape, value.sizes(), op) == addresses.shape, kShape,
           "{}: a value of shape {} does not fit into {}", op, value.sizes().str(),
           addresses.shape.str());
  if (!addresses.tensor.defined()) return;
  const Tensor source = promoted_to(value.detach(), tensor.dtype()).expand(addresses.shape);
  call<Op::kScatterElements>(tensor.device(), Indexed{.op = op, .is_checked = true},
                             addresses.tensor, addresses.index, source, how,
                             addresses.disjoint_dim);
}

struct IndexBackward final : Node {
  std::string_view name() const noexcept override { return "index"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor grad = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
    write_to(grad, at, g, ScatterMode::kAdd, name());
    context.give(0, grad);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    Tensor grad = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
    std::vector<TensorIndex> indices;
    for (const Tensor& each : at) {
      indices.push_back(each.defined() ? TensorIndex(each) : TensorIndex(indexing::Slice()));
    }
    context.give(0, index_put_(grad, indices, g, {.accumulate = true}));
  }
  Shape shape;
  std::vector<Tensor> at;  // copies, so that later writes by the user do not matter
};

// index_put_: input 0 is the destination, input 1 the value.
struct IndexPutBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "index_put_"; }
  void backward(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    if (context.needs(0)) {
      Tensor kept = g;
      if (!accumulate) {
        kept = g.clone(MemoryFormat::kContiguous);
        index_put_(kept, indices, zeros({}, {.dtype = g.dtype(), .device = g.device()}));
      }
      context.give(0, kept);
    }
    if (context.needs(1)) context.give(1, value.reduce_grad(index(g, indices)));
  }
  std::vector<TensorIndex> indices;  // copies
  bool accumulate = false;
  InputMetadata value;
};

// Copies the index tensors, because the user may write into them later.
std::vector<TensorIndex> frozen(Indices indices) {
  std::vector<TensorIndex> result;
  for (const TensorIndex& index : indices) {
    const auto* const tensor = std::get_if<Tensor>(&index.value());
    result.push_back(tensor == nullptr ? index : TensorIndex(tensor->clone()));
  }
  return result;
}

}  // namespace

TensorIndex::TensorIndex(const char* dots) : value_(indexing::EllipsisType()) {
  DL_CHECK(std::string_view(dots) == "...", kInvalidArgument,
           "index: \"{}\" is no index; the text that is one is \"...\"", dots);
}

Tensor index(const Tensor& input, std::span<const TensorIndex> indices) {
  constexpr std::string_view kName = "index";
  check_defined(input, kName, "the input");
  const Resolved found = Resolver(input, kName).run(indices);
  if (!found.has_tensors()) return found.view.is_same(input) ? alias(input) : found.view;
  const Addresses addresses = addresses_of(found.view, found.at, kName);
  const Tensor result = empty(addresses.shape, {.dtype = input.dtype(), .device = input.device()});
  if (addresses.tensor.defined()) {
    call<Op::kGatherElements>(input.device(), Indexed{.op = kName, .is_checked = true},
                              addresses.tensor, addresses.index, result);
  }
  if (!is_floating(input.dtype())) return result;
  if (auto* node = record<IndexBackward>(result, found.view)) {
    node->shape = found.view.sizes();
    for (const Tensor& each : found.at) {
      node->at.push_back(each.defined() ? each.clone() : Tensor());
    }
  }
  return result;
}

Tensor& index_put_(Tensor& input, std::span<const TensorIndex> indices, const Tensor& value,
                   IndexPutOptions options) {
  constexpr std::string_view kName = "index_put_";
  check_defined(input, kName, "the input");
  check_defined(value, kName, "the value");
  const bool recorded = is_recorded(input, value) && is_floating(input.dtype());
  check_in_place(input, recorded, kName);
  check_not_expanded(input, kName);
  const Ref<IndexPutBackward> node =
      recorded ? make_node<IndexPutBackward>(detail::before_write(input), value) : nullptr;
  {
    const NoGradGuard not_recorded;
    const Resolved found = Resolver(input.detach(), kName).run(indices);
    const Tensor source = readable_during_write(value.detach().to(input.device()), input);
    if (found.has_tensors()) {
      write_to(found.view, found.at, source,
               options.accumulate ? ScatterMode::kAdd : ScatterMode::kSet, kName);
      input.bump_version();
    } else {
      Tensor view = found.view;
      DL_CHECK(broadcast_shapes(view.sizes(), value.sizes(), kName) == view.sizes(), kShape,
               "{}: a value of shape {} does not fit into {}", kName, value.sizes().str(),
               view.sizes().str());
      if (options.accumulate) {
        view.add_(source);
      } else {
        view.copy_(source);
      }
    }
  }
  if (node) {
    node->indices = frozen(indices);
    node->accumulate = options.accumulate;
    node->value = InputMetadata(value);
    detail::attach_written(input, node);
  }
  return input;
}

void IndexedTensor::put(const Tensor& value) {
  check_defined(value, "index_put_", "the value");
  // After x.index(...) += y the elements are in first_indexed already if they are a view.
  if (value.is_same(*this) && is_view()) return;
  dl::index_put_(from_, indices_, detail::without_leading_ones(value, dim()));
}

bool IndexedTensor::is_view() const noexcept {
  return impl()->storage == from_.impl()->storage;
}

void IndexedTensor::put(Scalar value) {
  check_storable(value, dtype(), "index_put_");
  dl::index_put_(from_, indices_, scalar_tensor(value, dtype(), "index_put_", device()));
}

IndexedTensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  get("index");
  return {dl::index(*this, indices), *this, std::vector<TensorIndex>(indices)};
}

Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, const Tensor& value) {
  get("index_put_");
  return dl::index_put_(*this, indices, value);
}

Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, Scalar value) {
  get("index_put_");
  check_storable(value, dtype(), "index_put_");
  return dl::index_put_(*this, indices, scalar_tensor(value, dtype(), "index_put_", device()));
}

Tensor take(const Tensor& input, const Tensor& index) {
  check_defined(input, "take", "the input");
  check_defined(index, "take", "the index");
  DL_CHECK(index.dtype() == DType::kI64, kDType, "take: the index is {}, wanted int64",
           name_of(index.dtype()));
  const TensorIndex addresses[] = {index.reshape({-1})};
  return detail::finish_composed(dl::index(input.reshape({-1}), addresses).view(index.sizes()),
                                 input, "TakeBackward0");
}

Tensor take_along_dim(const Tensor& input, const Tensor& index, std::int64_t dim) {
  constexpr std::string_view kName = "take_along_dim";
  check_defined(input, kName, "the input");
  check_defined(index, kName, "the index");
  DL_CHECK(input.dim() == index.dim() && input.dim() > 0, kShape,
           "{}: the index has shape {}, the input {}, wanted one number of dimensions", kName,
           index.sizes().str(), input.sizes().str());
  const std::size_t d = wrap_dim(dim, input.sizes().size(), kName);
  Shape of_input = input.sizes();
  Shape of_index = index.sizes();
  of_input[d] = of_index[d] = 1;
  const Shape common = broadcast_shapes(of_input, of_index, kName);
  of_input = of_index = common;
  of_input[d] = input.sizes()[d];
  of_index[d] = index.sizes()[d];
  return gather(input.expand(of_input), dim, index.expand(of_index));
}

Tensor masked_select(const Tensor& input, const Tensor& mask) {
  constexpr std::string_view kName = "masked_select";
  check_defined(input, kName, "the input");
  check_defined(mask, kName, "the mask");
  DL_CHECK(mask.dtype() == DType::kBool, kDType, "{}: the mask is {}, wanted bool", kName,
           name_of(mask.dtype()));
  const Shape shape = broadcast_shapes(input.sizes(), mask.sizes(), kName);
  const TensorIndex addresses[] = {mask.expand(shape).reshape({-1})};
  return detail::finish_composed(dl::index(input.expand(shape).reshape({-1}), addresses), input,
                                 "MaskedSelectBackward0");
}

Tensor nonzero(const Tensor& input) {
  check_defined(input, "nonzero", "the input");
  const Tensor mask = input.dtype() == DType::kBool ? input.detach() : ne(input, false);
  const std::int64_t count = sum(mask).item<std::int64_t>();
  const Tensor result =
      empty({count, mask.dim()}, {.dtype = DType::kI64, .device = input.device()});
  if (result.numel() != 0) call<Op::kNonzero>(input.device(), mask.contiguous(), result);
  return result;
}

}  // namespace dl
