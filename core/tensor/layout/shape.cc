#include "core/tensor/layout/shape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace dl {
namespace {

// Which of two dimensions is the outer one: above 0: a, below 0: b, 0: the operands do not decide.
// Among equal strides the longer dimension is the outer one.
int outer_of(const Shape& shape, std::span<const Strides> operands, std::size_t a, std::size_t b) {
  for (const Strides& strides : operands) {
    if (strides[a] == 0 || strides[b] == 0) continue;
    if (strides[a] != strides[b]) return strides[a] > strides[b] ? 1 : -1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

// Out of line, so that wrap_dim(), which every size() calls, stays short.
[[noreturn, gnu::noinline, gnu::cold]] void refuse_dim(std::int64_t dim, std::size_t rank,
                                                       std::string_view op) {
  const auto range = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  throw_error(ErrorKind::kIndex,
              "{}: dimension {} is out of range for a tensor of {} dimensions; wanted {} to {}", op,
              dim, rank, -range, range - 1);
}

}  // namespace

std::int64_t element_count(const Shape& shape, std::string_view op) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    DL_CHECK(size >= 0, kShape, "{}: a size of the shape {} is negative", op, shape.str());
    if (size == 0) empty = true;
    DL_CHECK(!__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count), kShape,
             "{}: the shape {} has too many elements", op, shape.str());
  }
  return empty ? 0 : count;
}

std::size_t byte_count(const Shape& shape, DType dtype, std::string_view op) {
  std::int64_t bytes = 0;
  DL_CHECK(!__builtin_mul_overflow(element_count(shape, op),
                                   static_cast<std::int64_t>(size_of(dtype)), &bytes),
           kShape, "{}: the shape {} has too many bytes", op, shape.str());
  return static_cast<std::size_t>(bytes);
}

std::int64_t strided_extent(const Shape& shape, const Strides& strides, std::string_view op) {
  DL_CHECK(shape.size() == strides.size(), kShape, "{}: {} sizes and {} strides", op, shape.size(),
           strides.size());
  const bool empty = element_count(shape, op) == 0;
  std::int64_t places = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    DL_CHECK(strides[i] >= 0, kShape, "{}: the strides {} are negative", op, strides.str());
    std::int64_t more = 0;
    DL_CHECK(!__builtin_mul_overflow(std::max<std::int64_t>(shape[i] - 1, 0), strides[i], &more) &&
                 !__builtin_add_overflow(places, more, &places),
             kShape, "{}: the shape {} with strides {} is too large", op, shape.str(),
             strides.str());
  }
  return empty ? 0 : places;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;  // each size is replaced by its stride
  std::int64_t stride = 1;
  for (std::int64_t* at = strides.end(); at != strides.begin();) {
    stride *= std::max<std::int64_t>(std::exchange(*--at, stride), 1);
  }
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  DL_CHECK(shape.size() == 4, kShape,
           "channels last is a layout of 4 dimensions [N, C, H, W]; the shape is {}", shape.str());
  const std::int64_t c = std::max<std::int64_t>(shape[1], 1);
  const std::int64_t h = std::max<std::int64_t>(shape[2], 1);
  const std::int64_t w = std::max<std::int64_t>(shape[3], 1);
  return {h * w * c, 1, w * c, c};
}

bool is_contiguous(const Shape& shape, const Strides& strides) noexcept {
  std::int64_t expected = 1;
  bool ok = true;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    ok = ok && strides[i] == expected;
    expected *= shape[i];
  }
  return ok;
}

bool is_channels_last(const Shape& shape, const Strides& strides) noexcept {
  if (shape.size() != 4) return false;
  std::int64_t expected = 1;
  bool ok = true;
  for (const std::size_t i : {1, 3, 2, 0}) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    ok = ok && strides[i] == expected;
    expected *= shape[i];
  }
  return ok;
}

bool is_dense(const Shape& shape, const Strides& strides) {
  Dims order(shape.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return strides[static_cast<std::size_t>(a)] < strides[static_cast<std::size_t>(b)];
  });
  std::int64_t expected = 1;
  bool ok = true;
  for (const std::int64_t dim : order) {
    const auto i = static_cast<std::size_t>(dim);
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    ok = ok && strides[i] == expected;
    expected *= shape[i];
  }
  return ok;
}

Strides dense_strides(const Shape& shape, std::span<const Strides> operands) {
  const std::size_t rank = shape.size();
  Dims order(rank, 0);  // innermost first
  for (std::size_t i = 0; i < rank; ++i) order[i] = static_cast<std::int64_t>(rank - 1 - i);
  const auto outer = [&](std::size_t i, std::size_t j) {
    return outer_of(shape, operands, static_cast<std::size_t>(order[i]),
                    static_cast<std::size_t>(order[j]));
  };
  // PyTorch's insertion sort, which skips undecided pairs: the order of broadcast dimensions
  // depends on its steps.
  for (std::size_t i = 1; i < rank; ++i) {
    std::size_t at = i;
    for (std::size_t j = i; j-- > 0;) {
      const int found = outer(j, at);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(order[j], order[at]);
      at = j;
    }
  }
  Strides result(rank, 0);
  std::int64_t stride = 1;
  for (const std::int64_t dim : order) {
    const auto d = static_cast<std::size_t>(dim);
    result[d] = stride;
    stride *= std::max<std::int64_t>(shape[d], 1);
  }
  return result;
}

bool are_same_addresses(const Shape& shape, const Strides& a, const Strides& b) noexcept {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && a[d] != b[d]) return false;
  }
  return true;
}

MemoryFormat suggested_format(const Shape& shape, const Strides& strides) noexcept {
  if (shape.size() != 4 || strides[1] == 0) return MemoryFormat::kContiguous;
  std::int64_t least = 0;  // the lower bound of the next outer dimension's stride
  for (const std::size_t d : {1, 3, 2, 0}) {
    if (shape[d] == 0 || strides[d] < least) return MemoryFormat::kContiguous;
    // [N, 1, 1, 1] has one stride in all layouts.
    if (d == 0 && least == strides[1]) return MemoryFormat::kContiguous;
    least = strides[d] * shape[d];
  }
  return MemoryFormat::kChannelsLast;
}

std::size_t wrap_dim(std::int64_t dim, std::size_t rank, std::string_view op) {
  const auto range = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  if (dim < -range || dim >= range) [[unlikely]]
    refuse_dim(dim, rank, op);
  return static_cast<std::size_t>(dim < 0 ? dim + range : dim);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op) {
  if (a == b) return a;
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    const std::int64_t x = longer[lead + i];
    const std::int64_t y = shorter[i];
    DL_CHECK(x == y || x == 1 || y == 1, kShape,
             "{}: the shapes {} and {} cannot be broadcast together: {} against {} in dimension {}",
             op, a.str(), b.str(), x, y, static_cast<std::int64_t>(lead + i));
    result[lead + i] = x == 1 ? y : x;
  }
  return result;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  Strides result(target.size(), 0);
  const std::size_t lead = target.size() - shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    result[lead + i] = shape[i] == 1 && target[lead + i] != 1 ? 0 : strides[i];
  }
  return result;
}

Shape infer_shape(const Shape& shape, std::int64_t numel, std::string_view op) {
  Shape result = shape;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) continue;
    DL_CHECK(!open, kShape, "{}: only one size may be -1; the shape is {}", op, shape.str());
    open = i;
    result[i] = 1;
  }
  const std::int64_t known = element_count(result, op);
  if (open) {
    DL_CHECK(known != 0 && numel % known == 0, kShape,
             "{}: {} elements do not fit the shape {}, whatever its open size", op, numel,
             shape.str());
    result[*open] = numel / known;
  } else {
    DL_CHECK(known == numel, kShape, "{}: a tensor of {} elements has no shape {}, which holds {}",
             op, numel, shape.str(), known);
  }
  return result;
}

std::optional<Strides> view_strides(const Shape& shape, const Strides& strides,
                                    const Shape& target) {
  if (is_contiguous(shape, strides)) return contiguous_strides(target);
  // Walks from the last dimension; a chunk is a run of old dimensions that are contiguous with each
  // other, and the new dimensions must divide it (after PyTorch's computeStride).
  Strides result(target.size(), 0);
  auto view_dim = static_cast<std::int64_t>(target.size()) - 1;
  std::int64_t chunk_stride = strides.empty() ? 1 : strides.back();
  std::int64_t chunk_count = 1;
  std::int64_t view_count = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    chunk_count *= shape[i];
    const bool chunk_ends =
        i == 0 || (shape[i - 1] != 1 && strides[i - 1] != chunk_count * chunk_stride);
    if (!chunk_ends) continue;
    while (view_dim >= 0 &&
           (view_count < chunk_count || target[static_cast<std::size_t>(view_dim)] == 1)) {
      const auto j = static_cast<std::size_t>(view_dim--);
      result[j] = view_count * chunk_stride;
      view_count *= target[j];
    }
    if (view_count != chunk_count) return std::nullopt;
    if (i > 0) {
      chunk_stride = strides[i - 1];
      chunk_count = 1;
      view_count = 1;
    }
  }
  if (view_dim != -1) return std::nullopt;
  return result;
}

}  // namespace dl
