#include "core/ops/shape/shape.h"

#include <algorithm>
#include <numeric>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"

namespace dl {
namespace {

Dims numbered(std::size_t count) {
  Dims dims(count, 0);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::size_t rank_of(const Tensor& input, std::string_view op) {
  check_defined(input, op, "the input");
  return input.sizes().size();
}

void check_has_dims(const Tensor& input, std::string_view op) {
  DL_CHECK(rank_of(input, op) > 0, kShape, "{}: the input has no dimension", op);
}

Tensor index_of(const std::vector<std::int64_t>& places, Device device) {
  return tensor(places).to(device);
}

// True at the elements of a matrix [rows, columns] on and below a diagonal.
Tensor lower_mask(const Tensor& input, std::int64_t diagonal, std::string_view op) {
  DL_CHECK(rank_of(input, op) >= 2, kShape,
           "{}: the input has shape {}, wanted at least two dimensions", op, input.sizes().str());
  const TensorOptions place{.device = input.device()};
  const Tensor rows = arange(input.size(-2), place).unsqueeze(1);
  const Tensor columns = arange(input.size(-1), place);
  return le(columns, add(rows, diagonal));
}

Dims turned(const Tensor& input, const Dims& source, const Dims& destination) {
  const std::size_t rank = rank_of(input, "movedim");
  DL_CHECK(source.size() == destination.size(), kInvalidArgument,
           "movedim: {} names {} dimensions, {} names {}", source.str(), source.size(),
           destination.str(), destination.size());
  Dims order(rank, -1);
  Dims moved(rank, 0);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::size_t from = wrap_dim(source[i], rank, "movedim");
    const std::size_t to = wrap_dim(destination[i], rank, "movedim");
    DL_CHECK(moved[from] == 0 && order[to] == -1, kInvalidArgument,
             "movedim: a dimension is named twice in {} or {}", source.str(), destination.str());
    moved[from] = 1;
    order[to] = static_cast<std::int64_t>(from);
  }
  std::size_t next = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (order[d] != -1) continue;
    while (moved[next] != 0) ++next;
    order[d] = static_cast<std::int64_t>(next++);
  }
  return order;
}

struct FlipBackward final : ComposedNode {
  std::string_view name() const noexcept override { return "flip"; }
  void backward(BackwardContext& context) override {
    context.give(0, flip(context.grad_output(), dims));
  }
  Dims dims;
};

struct TriangleBackward final : ComposedNode {
  std::string_view name() const noexcept override { return lower ? "tril" : "triu"; }
  void backward(BackwardContext& context) override {
    const Tensor& grad = context.grad_output();
    context.give(0, lower ? tril(grad, diagonal) : triu(grad, diagonal));
  }
  bool lower = false;
  std::int64_t diagonal = 0;
};

Tensor triangle(const Tensor& input, std::int64_t diagonal, bool lower) {
  const Tensor mask = lower_mask(input, lower ? diagonal : diagonal - 1, lower ? "tril" : "triu");
  const Tensor values = input.detach().contiguous();
  const Tensor result = lower ? where(mask, values, false) : where(mask, false, values);
  if (auto* node = record<TriangleBackward>(result, input)) {
    node->lower = lower;
    node->diagonal = diagonal;
  }
  return result;
}

// The result of views and a reshape() of `input`, which must not share its memory.
Tensor as_copy(const Tensor& result, const Tensor& input,
               MemoryFormat format = MemoryFormat::kContiguous) {
  return result.storage() == input.storage() ? result.clone(format) : result;
}

// Views the input in the shape `per_dim`, permutes its dimensions, and reshapes it to `shape`.
Tensor rearranged(const Tensor& input, const Shape& per_dim, const Dims& order, const Shape& shape,
                  const char* grad_fn) {
  const MemoryFormat format = torch_format(input);
  const Tensor result = input.reshape(per_dim).permute(order).reshape(shape).contiguous(format);
  return detail::finish_composed(as_copy(result, input, format), input, grad_fn);
}

}  // namespace

std::vector<Tensor> detail::split_evenly(const Tensor& input, std::int64_t size, std::int64_t dim) {
  check_has_dims(input, "split");
  DL_CHECK(size > 0 || (size == 0 && input.size(dim) == 0), kInvalidArgument,
           "split: the size is {}, wanted at least 1", size);
  const std::int64_t total = input.size(dim);
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  do {
    const std::int64_t length = std::min(size, total - start);
    parts.push_back(
        detail::finish_composed(input.narrow(dim, start, length), input, "SplitBackward0"));
    start += length;
  } while (start < total);
  return parts;
}

std::vector<Tensor> split(const Tensor& input, const Dims& sizes, std::int64_t dim) {
  check_has_dims(input, "split");
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    DL_CHECK(size >= 0, kInvalidArgument, "split: a size of {} is negative", sizes.str());
    total += size;
  }
  DL_CHECK(total == input.size(dim), kShape,
           "split: the sizes {} are {} in sum, dimension {} of {} has {}", sizes.str(), total, dim,
           input.sizes().str(), input.size(dim));
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(
        detail::finish_composed(input.narrow(dim, start, size), input, "SplitWithSizesBackward0"));
    start += size;
  }
  return parts;
}

std::vector<Tensor> chunk(const Tensor& input, std::int64_t chunks, std::int64_t dim) {
  check_has_dims(input, "chunk");
  DL_CHECK(chunks > 0, kInvalidArgument, "chunk: {} chunks, wanted at least 1", chunks);
  const std::int64_t size = input.size(dim);
  if (size == 0) return split(input, Dims(static_cast<std::size_t>(chunks), 0), dim);
  return split(input, (size - 1) / chunks + 1, dim);
}

std::vector<Tensor> unbind(const Tensor& input, std::int64_t dim) {
  check_has_dims(input, "unbind");
  std::vector<Tensor> slices;
  for (std::int64_t i = 0; i < input.size(dim); ++i) {
    slices.push_back(detail::finish_composed(input.select(dim, i), input, "UnbindBackward0"));
  }
  return slices;
}

Tensor movedim(const Tensor& input, const DimList& source, const DimList& destination) {
  return input.permute(turned(input, source.dims(), destination.dims()));
}

namespace {

std::vector<Tensor> widened(std::span<const Tensor> tensors, Tensor (*at_least)(const Tensor&)) {
  std::vector<Tensor> all;
  all.reserve(tensors.size());
  for (const Tensor& tensor : tensors) all.push_back(at_least(tensor));
  return all;
}

}  // namespace

Tensor hstack(std::span<const Tensor> tensors) {
  const std::vector<Tensor> all = widened(tensors, &atleast_1d);
  return cat(all, !all.empty() && all[0].dim() == 1 ? 0 : 1);
}

Tensor vstack(std::span<const Tensor> tensors) {
  return cat(widened(tensors, &atleast_2d), 0);
}

Tensor dstack(std::span<const Tensor> tensors) {
  return cat(widened(tensors, &atleast_3d), 2);
}

Tensor Tensor::T() const {
  get("T");
  Dims order = numbered(rank());
  std::reverse(order.begin(), order.end());
  return permute(order);
}

Tensor mT(const Tensor& input) {
  DL_CHECK(rank_of(input, "mT") >= 2, kShape,
           "mT: the input has shape {}, wanted at least two dimensions", input.sizes().str());
  return input.transpose(-2, -1);
}

Tensor unflatten(const Tensor& input, std::int64_t dim, const Shape& sizes) {
  check_has_dims(input, "unflatten");
  const std::size_t d = wrap_dim(dim, input.sizes().size(), "unflatten");
  const Shape inner = infer_shape(sizes, input.sizes()[d], "unflatten");
  Shape shape;
  for (std::size_t k = 0; k < input.sizes().size(); ++k) {
    if (k != d) {
      shape.push_back(input.sizes()[k]);
      continue;
    }
    for (const std::int64_t size : inner) shape.push_back(size);
  }
  return input.view(shape);
}

Tensor expand_as(const Tensor& input, const Tensor& other) {
  check_defined(other, "expand_as", "the other tensor");
  return input.expand(other.sizes());
}

Tensor view_as(const Tensor& input, const Tensor& other) {
  check_defined(other, "view_as", "the other tensor");
  return input.view(other.sizes());
}

Tensor reshape_as(const Tensor& input, const Tensor& other) {
  check_defined(other, "reshape_as", "the other tensor");
  return input.reshape(other.sizes());
}

Tensor broadcast_to(const Tensor& input, const Shape& shape) {
  return input.expand(shape);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, GridIndexing indexing) {
  DL_CHECK(!tensors.empty(), kInvalidArgument, "meshgrid: at least one tensor was wanted");
  const std::size_t count = tensors.size();
  const bool swaps = indexing == GridIndexing::kXY && count > 1;
  const auto place = [&](std::size_t i) { return swaps && i < 2 ? 1 - i : i; };
  Shape shape(count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    check_defined(tensors[i], "meshgrid", "a tensor of the list");
    DL_CHECK(tensors[i].dim() <= 1, kShape,
             "meshgrid: tensor {} has shape {}, wanted at most one dimension", i,
             tensors[i].sizes().str());
    shape[place(i)] = tensors[i].numel();
  }
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < count; ++i) {
    Shape own(count, 1);
    own[place(i)] = tensors[i].numel();
    grids.push_back(tensors[i].view(own).expand(shape));
  }
  return grids;
}

Tensor repeat(const Tensor& input, const Dims& repeats) {
  const std::size_t rank = rank_of(input, "repeat");
  DL_CHECK(repeats.size() >= rank, kShape,
           "repeat: {} names {} dimensions, the input of shape {} has {}", repeats.str(),
           repeats.size(), input.sizes().str(), rank);
  const std::size_t lead = repeats.size() - rank;
  Shape split;  // a dimension of size 1 before each, which is then repeated
  Shape wide;
  Shape joined;
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    DL_CHECK(repeats[d] >= 0, kInvalidArgument, "repeat: a number of {} is negative",
             repeats.str());
    const std::int64_t size = d < lead ? 1 : input.sizes()[d - lead];
    split.push_back(1);
    split.push_back(size);
    wide.push_back(repeats[d]);
    wide.push_back(size);
    joined.push_back(repeats[d] * size);
  }
  return detail::finish_composed(as_copy(input.reshape(split).expand(wide).reshape(joined), input),
                                 input, "RepeatBackward0");
}

Tensor tile(const Tensor& input, const Dims& repeats) {
  const std::size_t rank = rank_of(input, "tile");
  Dims all(rank > repeats.size() ? rank - repeats.size() : 0, 1);
  for (const std::int64_t each : repeats) all.push_back(each);
  return repeat(input, all);
}

Tensor repeat_interleave(const Tensor& input, std::int64_t repeats,
                         std::optional<std::int64_t> dim) {
  check_defined(input, "repeat_interleave", "the input");
  DL_CHECK(repeats >= 0, kInvalidArgument, "repeat_interleave: repeats is {}, wanted at least 0",
           repeats);
  if (!dim || input.dim() == 0) return repeat_interleave(input.reshape({-1}), repeats, 0);
  const std::size_t d = wrap_dim(*dim, input.sizes().size(), "repeat_interleave");
  Shape wide = input.sizes();
  wide.insert(d + 1, repeats);
  Shape joined = input.sizes();
  joined[d] *= repeats;
  const Tensor spread = input.unsqueeze(static_cast<std::int64_t>(d) + 1).expand(wide);
  return detail::drop_base(spread.clone(MemoryFormat::kContiguous).view(joined));
}

Tensor repeat_interleave(const Tensor& input, const Tensor& repeats,
                         std::optional<std::int64_t> dim) {
  check_defined(input, "repeat_interleave", "the input");
  check_defined(repeats, "repeat_interleave", "the repeats");
  if (!dim || input.dim() == 0) return repeat_interleave(input.reshape({-1}), repeats, 0);
  const std::int64_t size = input.size(*dim);
  DL_CHECK(!is_floating(repeats.dtype()) && repeats.dim() <= 1 &&
               (repeats.numel() == 1 || repeats.numel() == size),
           kInvalidArgument,
           "repeat_interleave: the repeats are {} of shape {}, wanted integers of shape [{}]",
           name_of(repeats.dtype()), repeats.sizes().str(), size);
  if (repeats.is_cuda() && size > 0) {
    const Tensor counts = repeats.detach().to(DType::kI64).reshape({-1}).expand({size});
    const auto least = min(counts).item<std::int64_t>();
    DL_CHECK(least >= 0, kInvalidArgument, "repeat_interleave: {} repeats, wanted at least 0",
             least);
    // A slice's number is how many slices end before or at the place.
    const Tensor ends = cumsum(counts, 0);
    const auto total = ends[size - 1].item<std::int64_t>();
    const TensorOptions of_index{.dtype = DType::kI64, .device = repeats.device()};
    const Tensor marks = index_add(zeros({total + 1}, of_index), 0, ends, ones({size}, of_index));
    const Tensor places = cumsum(marks, 0).narrow(0, 0, total);
    return index_select(input, *dim, places.to(input.device()));
  }
  const Tensor counts = repeats.detach().cpu().to(DType::kI64).reshape({-1}).expand({size});
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t count = counts.at<std::int64_t>({i});
    DL_CHECK(count >= 0, kInvalidArgument, "repeat_interleave: {} repeats at {}, wanted at least 0",
             count, i);
    places.insert(places.end(), static_cast<std::size_t>(count), i);
  }
  return index_select(input, *dim, index_of(places, input.device()));
}

Tensor flip(const Tensor& input, const Dims& dims) {
  const std::size_t rank = rank_of(input, "flip");
  Dims seen(std::max<std::size_t>(rank, 1), 0);
  Tensor result;
  bool is_copy = false;
  for (const std::int64_t dim : dims) {
    const std::size_t d = wrap_dim(dim, rank, "flip");
    DL_CHECK(seen[d]++ == 0, kInvalidArgument, "flip: {} names dimension {} twice", dims.str(), d);
    if (rank == 0) continue;
    const std::int64_t size = input.sizes()[d];
    const Tensor backwards = arange(size - 1, -1, -1, {.device = input.device()});
    result = index_select(is_copy ? result : input.detach(), dim, backwards);
    is_copy = true;
  }
  if (!is_copy) result = input.detach().clone();
  if (!input.is_contiguous()) {
    Tensor placed = empty_as_torch(input, input.sizes(), input.dtype());
    if (!placed.is_contiguous()) result = placed.copy_(result);
  }
  if (auto* node = record<FlipBackward>(result, input)) node->dims = dims;
  return result;
}

Tensor fliplr(const Tensor& input) {
  DL_CHECK(rank_of(input, "fliplr") >= 2, kShape,
           "fliplr: the input has shape {}, wanted at least two dimensions", input.sizes().str());
  return flip(input, {1});
}

Tensor flipud(const Tensor& input) {
  check_has_dims(input, "flipud");
  return flip(input, {0});
}

Tensor roll(const Tensor& input, const DimList& shift_list, const DimList& dim_list) {
  constexpr const char* kGradFn = "RollBackward0";
  const Dims& shifts = shift_list.dims();
  const Dims& dims = dim_list.dims();
  const std::size_t rank = rank_of(input, "roll");
  if (dims.empty()) {
    DL_CHECK(shifts.size() == 1, kInvalidArgument,
             "roll: {} shifts for the flattened input, wanted one", shifts.size());
    return detail::finish_composed(roll(input.reshape({-1}), shifts, {0}).view(input.sizes()),
                                   input, kGradFn);
  }
  DL_CHECK(shifts.size() == dims.size(), kInvalidArgument, "roll: {} shifts for {} dimensions",
           shifts.size(), dims.size());
  Tensor result = input;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = wrap_dim(dims[i], rank, "roll");
    const std::int64_t size = input.sizes()[d];
    if (size == 0) continue;
    const std::int64_t shift = (shifts[i] % size + size) % size;
    const auto dim = static_cast<std::int64_t>(d);
    result =
        cat({result.narrow(dim, size - shift, shift), result.narrow(dim, 0, size - shift)}, dim);
  }
  return detail::finish_composed(result.is_same(input) ? input.clone() : result, input, kGradFn);
}

Tensor tril(const Tensor& input, std::int64_t diagonal) {
  return triangle(input, diagonal, true);
}

Tensor triu(const Tensor& input, std::int64_t diagonal) {
  return triangle(input, diagonal, false);
}

Tensor trace(const Tensor& input) {
  DL_CHECK(rank_of(input, "trace") == 2, kShape,
           "trace: the input has shape {}, wanted two dimensions", input.sizes().str());
  return detail::finish_composed(diagonal(input).sum(), input, "TraceBackward0");
}

Tensor diag(const Tensor& input, std::int64_t offset) {
  constexpr const char* kGradFn = "DiagonalBackward0";
  const std::size_t rank = rank_of(input, "diag");
  if (rank == 2) return detail::finish_composed(diagonal(input, offset).clone(), input, kGradFn);
  DL_CHECK(rank == 1, kShape, "diag: the input has shape {}, wanted one or two dimensions",
           input.sizes().str());
  const std::int64_t length = input.numel();
  const std::int64_t size = length + std::abs(offset);
  const std::int64_t row = std::max<std::int64_t>(0, -offset);
  const std::int64_t column = std::max<std::int64_t>(0, offset);
  const TensorOptions place{.device = input.device()};
  const TensorIndex places[] = {arange(row, row + length, 1, place),
                                arange(column, column + length, 1, place)};
  Tensor result = zeros({size, size}, {.dtype = input.dtype(), .device = input.device()});
  return detail::finish_composed(index_put_(result, places, input), input, "DiagEmbedBackward0");
}

Tensor pixel_shuffle(const Tensor& input, std::int64_t upscale_factor) {
  constexpr std::string_view kName = "pixel_shuffle";
  check_defined(input, kName, "the input");
  const std::int64_t r = upscale_factor;
  DL_CHECK(r > 0, kInvalidArgument, "{}: upscale_factor is {}, wanted at least 1", kName, r);
  DL_CHECK(input.dim() >= 3 && input.size(-3) % (r * r) == 0, kShape,
           "{}: the input has shape {}, wanted [..., C, H, W] with a multiple of {} channels",
           kName, input.sizes().str(), r * r);
  const std::int64_t c = input.size(-3) / (r * r);
  const std::int64_t h = input.size(-2);
  const std::int64_t w = input.size(-1);
  Shape shape = input.sizes();
  shape[shape.size() - 3] = c;
  shape[shape.size() - 2] = h * r;
  shape[shape.size() - 1] = w * r;
  std::int64_t lead = 1;
  for (std::size_t d = 0; d + 3 < shape.size(); ++d) lead *= shape[d];
  return rearranged(input, {lead, c, r, r, h, w}, {0, 1, 4, 2, 5, 3}, shape,
                    "PixelShuffleBackward0");
}

Tensor pixel_unshuffle(const Tensor& input, std::int64_t downscale_factor) {
  constexpr std::string_view kName = "pixel_unshuffle";
  check_defined(input, kName, "the input");
  const std::int64_t r = downscale_factor;
  DL_CHECK(r > 0, kInvalidArgument, "{}: downscale_factor is {}, wanted at least 1", kName, r);
  DL_CHECK(input.dim() >= 3 && input.size(-2) % r == 0 && input.size(-1) % r == 0, kShape,
           "{}: the input has shape {}, wanted [..., C, H, W] with multiples of {} as H and W",
           kName, input.sizes().str(), r);
  const std::int64_t c = input.size(-3);
  const std::int64_t h = input.size(-2) / r;
  const std::int64_t w = input.size(-1) / r;
  Shape shape = input.sizes();
  shape[shape.size() - 3] = c * r * r;
  shape[shape.size() - 2] = h;
  shape[shape.size() - 1] = w;
  std::int64_t lead = 1;
  for (std::size_t d = 0; d + 3 < shape.size(); ++d) lead *= shape[d];
  return rearranged(input, {lead, c, h, r, w, r}, {0, 1, 3, 5, 2, 4}, shape,
                    "PixelUnshuffleBackward0");
}

Tensor channel_shuffle(const Tensor& input, std::int64_t groups) {
  constexpr std::string_view kName = "channel_shuffle";
  check_defined(input, kName, "the input");
  DL_CHECK(groups > 0, kInvalidArgument, "{}: groups is {}, wanted at least 1", kName, groups);
  DL_CHECK(
      input.dim() >= 3 && input.size(1) % groups == 0, kShape,
      "{}: the input has shape {}, wanted [N, C, ...] of at least 3 dimensions with a multiple "
      "of {} channels",
      kName, input.sizes().str(), groups);
  const Shape& shape = input.sizes();
  std::int64_t inner = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) inner *= shape[d];
  return rearranged(input, {shape[0], groups, shape[1] / groups, inner}, {0, 2, 1, 3}, shape,
                    "ChannelShuffleBackward0");
}

}  // namespace dl
