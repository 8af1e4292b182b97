// Padding.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/ops/common.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/ops/shape/shape.h"

namespace dl {
namespace {

// The source index of each element of a padded dimension.
std::vector<std::int64_t> padded_places(std::int64_t size, std::int64_t before, std::int64_t after,
                                        PadMode mode) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = -before; i < size + after; ++i) {
    std::int64_t at = i;
    if (mode == PadMode::kReplicate) at = std::clamp<std::int64_t>(i, 0, size - 1);
    if (mode == PadMode::kReflect) at = i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    if (mode == PadMode::kCircular) at = i < 0 ? i + size : i >= size ? i - size : i;
    places.push_back(at);
  }
  return places;
}

// PyTorch's name of the node of padding that is not constant.
const char* grad_fn_of_pad(PadMode mode, std::size_t dims) {
  if (mode == PadMode::kCircular) return "CopySlices";
  const bool reflects = mode == PadMode::kReflect;
  if (dims == 1) return reflects ? "ReflectionPad1DBackward0" : "ReplicationPad1DBackward0";
  if (dims == 2) return reflects ? "ReflectionPad2DBackward0" : "ReplicationPad2DBackward0";
  return reflects ? "ReflectionPad3DBackward0" : "ReplicationPad3DBackward0";
}

Tensor pad_by_index(const Tensor& input, std::size_t dim, std::int64_t before, std::int64_t after,
                    PadMode mode) {
  const std::int64_t size = input.sizes()[dim];
  const std::int64_t most = mode == PadMode::kReflect    ? size - 1
                            : mode == PadMode::kCircular ? size
                                                         : INT64_MAX;
  DL_CHECK(before <= most && after <= most && size > 0 && before + size + after >= 0, kShape,
           "pad: {} and {} elements around dimension {} of {}, wanted at most {}", before, after,
           dim, input.sizes().str(), most);
  const Tensor index = tensor(padded_places(size, before, after, mode)).to(input.device());
  return index_select(input, static_cast<std::int64_t>(dim), index);
}

}  // namespace

Tensor pad(const Tensor& input, const Dims& pads, PadMode mode, Scalar value) {
  check_defined(input, "pad", "the input");
  const std::size_t rank = input.sizes().size();
  DL_CHECK(pads.size() % 2 == 0 && pads.size() / 2 <= rank, kInvalidArgument,
           "pad: {} numbers for a tensor of shape {}, wanted two for each of at most {} dimensions",
           pads.size(), input.sizes().str(), rank);
  if (mode != PadMode::kConstant) {
    Tensor result = input;
    for (std::size_t i = 0; i < pads.size(); i += 2) {
      result = pad_by_index(result, rank - 1 - i / 2, pads[i], pads[i + 1], mode);
    }
    // PyTorch composes the circular mode of operations with row-major results.
    const auto format =
        mode == PadMode::kCircular ? MemoryFormat::kContiguous : torch_format(input);
    return detail::finish_composed(result.contiguous(format), input,
                                   grad_fn_of_pad(mode, pads.size() / 2));
  }
  Tensor inner = input;
  Shape shape = input.sizes();
  std::vector<TensorIndex> places(rank, indexing::Slice());
  for (std::size_t i = 0; i < pads.size(); i += 2) {
    const std::size_t d = rank - 1 - i / 2;
    const std::int64_t before = pads[i];
    const std::int64_t after = pads[i + 1];
    shape[d] += before + after;
    DL_CHECK(shape[d] >= 0, kShape,
             "pad: {} and {} elements around dimension {} of {} leave less than none", before,
             after, d, input.sizes().str());
    const std::int64_t first = std::max<std::int64_t>(0, -before);
    const std::int64_t last = input.sizes()[d] - std::max<std::int64_t>(0, -after);
    inner = inner.slice(static_cast<std::int64_t>(d), first, std::max(first, last));
    const std::int64_t start = std::max<std::int64_t>(0, before);
    places[d] = indexing::Slice(start, start + std::max<std::int64_t>(0, last - first));
  }
  check_storable(value, input.dtype(), "pad");
  // A tensor that is only cropped keeps the order of its dimensions, as in PyTorch.
  if (std::ranges::all_of(pads, [](std::int64_t each) { return each <= 0; })) {
    return detail::finish_composed(inner.clone(), input, "ConstantPadNdBackward0");
  }
  Tensor result =
      empty(shape, torch_format(input), {.dtype = input.dtype(), .device = input.device()});
  result.fill_(value);
  return detail::finish_composed(index_put_(result, places, inner), input,
                                 "ConstantPadNdBackward0");
}

}  // namespace dl
