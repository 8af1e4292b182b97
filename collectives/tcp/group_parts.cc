// Group's operations on parts. An operation with equal counts runs as its v-variant, under its own
// name.
//
// The caller copies its own part: a long copy in the driver would delay other groups.
#include <cstring>

#include "collectives/algorithms/parts.h"
#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/tcp/group.h"

namespace dl::collectives::tcp {
namespace {

void copy(std::byte* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

// A copy of the input of an in-place operation, together with the buffer's owner.
struct Copied final : RefCounted {
  Copied(const void* from, std::size_t bytes, Ref<RefCounted> with)
      : memory(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes),
        owner(std::move(with)) {}
  std::vector<std::byte> memory;
  Ref<RefCounted> owner;
};

// The parts of all ranks on the root, which alone knows them; elsewhere this rank's own part.
template <typename Options>
std::vector<Part> rooted_parts(const Options& o, int rank, int size) {
  const std::size_t element = size_of(o.dtype);
  if (rank == o.root) return pack(o.counts, element);
  std::vector<Part> parts(static_cast<std::size_t>(size));
  parts[static_cast<std::size_t>(rank)] = {0, o.count * element};
  return parts;
}

}  // namespace

Ref<Work> Group::start_gather(const Descriptor& what, const GathervOptions& o) {
  check_parts(what.op, o, rank(), size());
  check_start(what, o.call);
  const std::vector<Part> parts = rooted_parts(o, rank(), size());
  if (rank() == o.root) {
    const Part own = parts[static_cast<std::size_t>(rank())];
    copy(static_cast<std::byte*>(o.output) + own.offset, o.input, own.bytes);
  }
  return start(what, o.call, o.input, o.output, gather_schedule(parts, o.root, rank(), size()));
}

Ref<Work> Group::start_scatter(const Descriptor& what, const ScattervOptions& o) {
  check_parts(what.op, o, rank(), size());
  check_start(what, o.call);
  const std::vector<Part> parts = rooted_parts(o, rank(), size());
  if (rank() == o.root) {
    const Part own = parts[static_cast<std::size_t>(rank())];
    copy(static_cast<std::byte*>(o.output), static_cast<const std::byte*>(o.input) + own.offset,
         own.bytes);
  }
  return start(what, o.call, o.input, o.output, scatter_schedule(parts, o.root, rank(), size()));
}

Ref<Work> Group::start_all_to_all(const Descriptor& what, const AllToAllvOptions& o) {
  check_parts(what.op, o, rank(), size());
  check_start(what, o.call);
  const std::vector<Part> send = pack(o.send_counts, size_of(o.dtype));
  const std::vector<Part> receive = pack(o.receive_counts, size_of(o.dtype));
  CallOptions call = o.call;
  const void* input = o.input;
  if (o.input == o.output) {
    const Part last = send.back();
    auto copied = make_ref<Copied>(o.input, last.offset + last.bytes, call.holds);
    input = copied->memory.data();
    call.holds = copied;
  } else {
    const auto own = static_cast<std::size_t>(rank());
    copy(static_cast<std::byte*>(o.output) + receive[own].offset,
         static_cast<const std::byte*>(o.input) + send[own].offset, send[own].bytes);
  }
  return start(what, call, input, o.output, all_to_all_schedule(send, receive, rank(), size()));
}

Ref<Work> Group::gather(const GatherOptions& o) {
  return start_gather(descriptor_of(o), as_parts(o, equal_counts(o.count, size())));
}

Ref<Work> Group::gatherv(const GathervOptions& o) {
  return start_gather({.root = o.root, .op = OpKind::kGatherv, .dtype = o.dtype}, o);
}

Ref<Work> Group::scatter(const ScatterOptions& o) {
  return start_scatter(descriptor_of(o), as_parts(o, equal_counts(o.count, size())));
}

Ref<Work> Group::scatterv(const ScattervOptions& o) {
  return start_scatter({.root = o.root, .op = OpKind::kScatterv, .dtype = o.dtype}, o);
}

Ref<Work> Group::all_to_all(const AllToAllOptions& o) {
  return start_all_to_all(descriptor_of(o), as_parts(o, equal_counts(o.count, size())));
}

Ref<Work> Group::all_to_allv(const AllToAllvOptions& o) {
  return start_all_to_all({.op = OpKind::kAllToAllv, .dtype = o.dtype}, o);
}

Ref<Work> Group::all_gatherv(const AllGathervOptions& o) {
  const Descriptor what{.count = check_parts(OpKind::kAllGatherv, o, rank(), size()),
                        .op = OpKind::kAllGatherv,
                        .dtype = o.dtype};
  check_start(what, o.call);
  const std::vector<Part> parts = pack(o.counts, size_of(o.dtype));
  const Part own = parts[static_cast<std::size_t>(rank())];
  copy(static_cast<std::byte*>(o.output) + own.offset, o.input, own.bytes);
  return start(what, o.call, o.input, o.output, all_gather_schedule(parts, rank(), size()));
}

Ref<Work> Group::reduce_scatterv(const ReduceScattervOptions& o) {
  const Descriptor what{.count = check_parts(OpKind::kReduceScatterv, o, rank(), size()),
                        .op = OpKind::kReduceScatterv,
                        .dtype = o.dtype,
                        .reduce = o.op,
                        .order = o.call.order};
  check_start(what, o.call);
  const std::vector<Part> parts = pack(o.counts, size_of(o.dtype));
  return start(what, o.call, o.input, o.output,
               exchange_shares(parts, rank(), size(), Region::kOutput, 0));
}

}  // namespace dl::collectives::tcp
