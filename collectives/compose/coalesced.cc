#include "collectives/compose/coalesced.h"

#include <cstring>
#include <vector>

#include "collectives/call/checks.h"
#include "collectives/waiting/finishing_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

struct Packed final : RefCounted {
  std::vector<std::byte> memory;
  std::vector<AllReduceOptions> parts;
  Ref<RefCounted> owner;  // of the parts' buffers
};

}  // namespace

Ref<Work> all_reduce_coalesced(ProcessGroup& group, std::span<const AllReduceOptions> parts,
                               const CallOptions& call) {
  auto packed = make_ref<Packed>();
  packed->parts.assign(parts.begin(), parts.end());
  packed->owner = call.keep_alive;
  const DType dtype = parts.empty() ? DType::kF32 : parts.front().dtype;
  const ReduceOp op = parts.empty() ? ReduceOp::kSum : parts.front().op;
  std::size_t count = 0;
  for (const AllReduceOptions& part : parts) {
    DL_CHECK(
        part.dtype == dtype && part.op == op, kInvalidArgument,
        "all_reduce_coalesced: one part is {} {}, another {} {}; coalesce those that are alike",
        short_name(dtype), name_of(op), short_name(part.dtype), name_of(part.op));
    static_cast<void>(checked(part, group.rank(), group.size()));
    count += part.count;
  }
  if (call.stream.device.type != DeviceType::kCPU) return group.all_reduce_list(parts, call);
  check_is_on_cpu({.what = {.op = OpKind::kAllReduce}, .options = &call}, group.backend());
  const std::size_t element = size_of(dtype);
  packed->memory.resize(count * element);
  std::byte* to = packed->memory.data();
  for (const AllReduceOptions& part : parts) {
    if (part.count > 0) std::memcpy(to, part.input, part.count * element);
    to += part.count * element;
  }
  CallOptions with = call;
  with.keep_alive = packed;
  Ref<Work> reduced = group.all_reduce({.input = packed->memory.data(),
                                        .output = packed->memory.data(),
                                        .count = count,
                                        .dtype = dtype,
                                        .op = op,
                                        .call = with});
  return finish_with(std::move(reduced), [packed, element] {
    const std::byte* from = packed->memory.data();
    for (const AllReduceOptions& part : packed->parts) {
      if (part.count > 0) std::memcpy(part.output, from, part.count * element);
      from += part.count * element;
    }
  });
}

}  // namespace dl::collectives
