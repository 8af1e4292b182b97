#include "collectives/call/calls.h"

namespace dl::collectives {

Descriptor descriptor_of(const AllReduceOptions& o) noexcept {
  return {.count = o.count,
          .op = OpKind::kAllReduce,
          .dtype = o.dtype,
          .reduce = o.op,
          .order = o.call.order};
}

Descriptor descriptor_of(const BroadcastOptions& o) noexcept {
  return {.count = o.count, .root = o.root, .op = OpKind::kBroadcast, .dtype = o.dtype};
}

Descriptor descriptor_of(const AllGatherOptions& o) noexcept {
  return {.count = o.count, .op = OpKind::kAllGather, .dtype = o.dtype};
}

Descriptor descriptor_of(const ReduceScatterOptions& o) noexcept {
  return {.count = o.count,
          .op = OpKind::kReduceScatter,
          .dtype = o.dtype,
          .reduce = o.op,
          .order = o.call.order};
}

Descriptor descriptor_of(const ReduceOptions& o) noexcept {
  return {.count = o.count,
          .root = o.root,
          .op = OpKind::kReduce,
          .dtype = o.dtype,
          .reduce = o.op,
          .order = o.call.order};
}

Descriptor descriptor_of(const GatherOptions& o) noexcept {
  return {.count = o.count, .root = o.root, .op = OpKind::kGather, .dtype = o.dtype};
}

Descriptor descriptor_of(const ScatterOptions& o) noexcept {
  return {.count = o.count, .root = o.root, .op = OpKind::kScatter, .dtype = o.dtype};
}

Descriptor descriptor_of(const AllToAllOptions& o) noexcept {
  return {.count = o.count, .op = OpKind::kAllToAll, .dtype = o.dtype};
}

Descriptor descriptor_of(const SendOptions& o) noexcept {
  return {.count = o.count,
          .root = static_cast<std::int32_t>(o.tag),
          .op = OpKind::kSend,
          .dtype = o.dtype};
}

Descriptor descriptor_of(const RecvOptions& o) noexcept {
  return {.count = o.count,
          .root = static_cast<std::int32_t>(o.tag),
          .op = OpKind::kRecv,
          .dtype = o.dtype};
}

std::vector<std::size_t> equal_counts(std::size_t count, int size) {
  return std::vector<std::size_t>(static_cast<std::size_t>(size), count);
}

GathervOptions as_parts(const GatherOptions& o, std::span<const std::size_t> counts) noexcept {
  return {.input = o.input,
          .count = o.count,
          .output = o.output,
          .counts = counts,
          .dtype = o.dtype,
          .root = o.root,
          .call = o.call};
}

ScattervOptions as_parts(const ScatterOptions& o, std::span<const std::size_t> counts) noexcept {
  return {.input = o.input,
          .counts = counts,
          .output = o.output,
          .count = o.count,
          .dtype = o.dtype,
          .root = o.root,
          .call = o.call};
}

AllToAllvOptions as_parts(const AllToAllOptions& o, std::span<const std::size_t> counts) noexcept {
  return {.input = o.input,
          .send_counts = counts,
          .output = o.output,
          .receive_counts = counts,
          .dtype = o.dtype,
          .call = o.call};
}

}  // namespace dl::collectives
