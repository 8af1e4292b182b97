#include "collectives/bench/measure/workload.h"

#include <algorithm>
#include <cstdint>

#include "collectives/bench/operation/values.h"
#include "core/base/error.h"

namespace dl::collectives::bench {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

Arena::Arena(std::size_t bytes) : memory_(bytes + kPage), bytes_(bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
  aligned_ = memory_.data() + (kPage - at % kPage) % kPage;
}

Arena::Arena(std::size_t bytes, ProcessGroup& group)
    : shared_(group.allocate_symmetric(bytes)), aligned_(shared_->data()), bytes_(bytes) {
  DL_CHECK(shared_->is_shared(), kInvalidArgument, "--symmetric: {}", shared_->why_not());
}

Arena::Arena(std::size_t bytes, const Gpu& gpu)
    : device_(gpu.allocate(bytes)), aligned_(device_.get()), bytes_(bytes) {}

Shape shape_of(const Operation& operation, DType dtype, std::size_t bytes, int ranks) noexcept {
  const std::size_t element = size_of(dtype);
  if (operation.expect == nullptr) return {};
  Shape shape;
  std::size_t whole = std::max<std::size_t>(bytes / element, 1);
  if (operation.share() != Share::kWhole) {
    const auto size = static_cast<std::size_t>(ranks);
    shape.count = std::max<std::size_t>(whole / size, 1);
    whole = shape.count * size;
  } else {
    shape.count = whole;
  }
  shape.input = operation.share() == Share::kGathers ? shape.count : whole;
  shape.output = operation.share() == Share::kScatters ? shape.count : whole;
  shape.bytes = whole * element;
  return shape;
}

std::vector<TimedCall> calls_of(const ProcessGroup& group, const Options& options,
                                const Operation& operation, const Case& what, const Shape& shape,
                                Arena& inputs, Arena& outputs) {
  std::vector<TimedCall> calls;
  const std::size_t element = size_of(what.dtype);
  const std::size_t share = static_cast<std::size_t>(group.rank()) * shape.count * element;
  const std::size_t slot = inputs.size() / options.aggregate / kPage * kPage;
  for (std::size_t i = 0; i < options.aggregate; ++i) {
    std::byte* input = inputs.data() + i * slot + options.unalign * element;
    std::byte* output = outputs.data() + i * slot + options.unalign * element;
    if (what.in_place) {
      if (operation.share() == Share::kGathers) {
        input = output + share;
      } else if (operation.share() == Share::kScatters) {
        output = input + share;
      } else {
        input = output;
      }
    }
    calls.push_back(
        {.input = input,
         .output = output,
         .count = shape.count,
         .counts = std::vector<std::size_t>(static_cast<std::size_t>(group.size()), shape.count),
         .dtype = what.dtype,
         .reduce = what.reduce,
         .root = what.root,
         .options = {.timeout = options.timeout}});
  }
  return calls;
}

CollectiveWorkload::CollectiveWorkload(ProcessGroup& group, const Options& options,
                                       const Operation& operation, const Case& what,
                                       const Shape& shape, Arena& inputs, Arena& outputs,
                                       BareRing* ring)
    : group_(group),
      operation_(operation),
      dtype_(what.dtype),
      input_count_(shape.input),
      calls_(calls_of(group, options, operation, what, shape, inputs, outputs)) {
  for (TimedCall& call : calls_) call.ring = ring;
  if (operation.expect != nullptr && options.check > 0) {
    wanted_.resize(std::max(shape.input, shape.output) * size_of(dtype_));
    wanted_count_ = operation.expect(group, calls_.front(), wanted_.data());
  }
}

// Overwrites at most 4096 places, so that it costs little compared with writing the input.
void CollectiveWorkload::spoil(std::byte* output) const {
  constexpr std::size_t kPlaces = 4096;
  const std::size_t element = size_of(dtype_);
  const std::size_t step = (wanted_count_ / kPlaces + 1) * element;
  for (std::size_t i = 0; i < wanted_count_ * element; i += step) output[i] = ~wanted_[i];
}

void CollectiveWorkload::rewrite() {
  for (const TimedCall& call : calls_) {
    spoil(call.output);
    fill(dtype_, group_.rank(), const_cast<std::byte*>(call.input), input_count_, 0);
  }
}

Ref<Work> CollectiveWorkload::start(std::size_t index) {
  return operation_.start(group_, calls_[index]);
}

std::size_t CollectiveWorkload::wrong() {
  std::size_t all = 0;
  for (const TimedCall& call : calls_) {
    all += count_different(dtype_, call.output, wanted_.data(), wanted_count_);
  }
  return all;
}

}  // namespace dl::collectives::bench
