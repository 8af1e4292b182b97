#include "core/ops/recorded_call.h"

#include <algorithm>

#include "core/ops/dispatch.h"

namespace dl {
namespace {

// `name` is the same for an operation's forward and backward kernels; this tells them apart.
std::string_view suffix_of(Op op, std::string_view name) noexcept {
  constexpr std::string_view kBackward = "_backward";
  return info(op).name.ends_with(kBackward) && !name.ends_with(kBackward) ? kBackward : "";
}

// How many of a kernel's tensors are outputs; these come last. 0 for kernels that work in place.
std::size_t output_count(Op op) noexcept {
  switch (op) {
    case Op::kFill:
    case Op::kAddPlaces:
    case Op::kWritePlaces:
    case Op::kNonzero:
    case Op::kAmpUnscale:
    case Op::kAmpUpdateScale:
    case Op::kOptimizerStep:
      return 0;
    case Op::kMaxPool2d:
    case Op::kConv2dBackwardWeight:
    case Op::kLinear:
    case Op::kLinearBackwardWeight:
    case Op::kRowNorm:
    case Op::kBatchNorm:
    case Op::kExtreme:
    case Op::kSort:
    case Op::kTopk:
      return 2;
    case Op::kCrossEntropy:
    case Op::kRowNormBackward:
    case Op::kBatchNormBackward:
      return 3;
    default:
      return 1;
  }
}

// FLOPs of products, convolutions, add and mul, counted as PyTorch's profiler does, but also in
// backward passes. 0 for other kernels.
std::int64_t flops_of(Op op, std::string_view name, std::span<const Tensor* const> t) noexcept {
  const auto numel = [&](std::size_t i) { return t[i]->defined() ? t[i]->numel() : 0; };
  const auto size = [&](std::size_t i, std::int64_t dim) {
    return t[i]->defined() ? t[i]->size(dim) : 0;
  };
  // Multiplications for one output of a convolution with these weights.
  const auto taps = [&](std::size_t weight) {
    return numel(weight) / std::max<std::int64_t>(1, size(weight, 0));
  };
  switch (op) {
    case Op::kConv2d:  // x, weight, bias, y
      return 2 * numel(3) * taps(1);
    case Op::kConv2dBackwardData:  // dy, weight, dx
      return 2 * numel(0) * taps(1);
    case Op::kConv2dBackwardWeight:  // x, dy, dweight, dbias
      return 2 * numel(1) * taps(2);
    case Op::kMatmul:  // a, b, c
    case Op::kMatmulBatch:
      return 2 * numel(2) * size(0, -1);
    case Op::kLinear:               // x, weight, bias, kept, y
    case Op::kLinearBackwardInput:  // dy, weight, ...
      return 2 * size(0, 0) * numel(1);
    case Op::kLinearBackwardWeight:  // dy, x, dweight, dbias
      return 2 * size(0, 0) * numel(2);
    case Op::kBinary:  // a, b, out
      return name == "add" || name == "mul" ? numel(2) : 0;
    default:
      return 0;
  }
}

}  // namespace

RecordedCall::RecordedCall(Op op, std::string_view name,
                           std::span<const Tensor* const> tensors) noexcept
    : span_({name, suffix_of(op, name)}, profiler::Category::kOperation) {
  if (!profiler::is_recording(profiler::kRecordShapes | profiler::kRecordFlops)) return;
  const Tensor* given[16] = {};  // more than any kernel has
  std::size_t count = 0;
  for (const Tensor* const tensor : tensors) {
    if (tensor != nullptr && count < std::size(given)) given[count++] = tensor;
  }
  const std::span<const Tensor* const> all(given, count);
  if (profiler::is_recording(profiler::kRecordFlops)) span_.add_flops(flops_of(op, name, all));
  if (!profiler::is_recording(profiler::kRecordShapes)) return;
  const std::size_t outputs = std::min(count, output_count(op));
  for (const Tensor* const tensor : all.first(count - outputs)) {
    span_.add_shape(tensor->defined() ? std::span<const std::int64_t>(tensor->sizes())
                                      : std::span<const std::int64_t>());
  }
}

}  // namespace dl
