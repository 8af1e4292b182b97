#include "core/ops/dispatch/recorded_call.h"

#include <algorithm>

#include "core/ops/dispatch/dispatch.h"

namespace dl {
namespace {

// `name` is the same for an operation's forward and backward kernels; this tells them apart.
std::string_view suffix_of(Op op, std::string_view name) noexcept {
  constexpr std::string_view kBackward = "_backward";
  return info(op).name.ends_with(kBackward) && !name.ends_with(kBackward) ? kBackward : "";
}

std::int64_t flops_of(const OpFlops& flops, std::string_view name,
                      std::span<const Tensor* const> t) noexcept {
  const auto numel = [&](std::size_t i) { return t[i]->defined() ? t[i]->numel() : 0; };
  const auto size = [&](std::size_t i, std::int64_t dim) {
    return t[i]->defined() ? t[i]->size(dim) : 0;
  };
  switch (flops.formula) {
    case OpFlops::Formula::kNone:
      return 0;
    case OpFlops::Formula::kConv: {
      const auto taps =
          numel(flops.weight) / std::max<std::int64_t>(1, size(flops.weight, 0));  // per output
      return 2 * numel(flops.outputs) * taps;
    }
    case OpFlops::Formula::kMatmul:
      return 2 * numel(flops.outputs) * size(0, -1);
    case OpFlops::Formula::kLinear:
      return 2 * size(0, 0) * numel(flops.weight);
    case OpFlops::Formula::kAttention:
      return 2 * flops.products * numel(flops.outputs) * size(flops.weight, -2);
    case OpFlops::Formula::kAddMul:
      return name == "add" || name == "mul" ? numel(flops.outputs) : 0;
  }
  return 0;
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
  if (profiler::is_recording(profiler::kRecordFlops))
    span_.add_flops(flops_of(info(op).flops, name, all));
  if (!profiler::is_recording(profiler::kRecordShapes)) return;
  const std::size_t outputs = std::min(count, info(op).outputs);
  for (const Tensor* const tensor : all.first(count - outputs)) {
    span_.add_shape(tensor->defined() ? std::span<const std::int64_t>(tensor->sizes())
                                      : std::span<const std::int64_t>());
  }
}

}  // namespace dl
