#include "collectives/compose/coalesced.h"

#include <cstring>
#include <vector>

#include "collectives/call/checks.h"
#include "collectives/waiting/finishing_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// The parts of a list in one buffer. It is ordered by rank: for each rank, the elements of every
// part that go to it or come from it. A side of the operation that has one rank's elements only is
// this rank's place in the buffer.
struct Packed final : RefCounted {
  void pack() {
    const int ranks = row.input == Side::kEach ? size : 1;
    std::byte* to = input();
    for (int r = 0; r < ranks; ++r) {
      for (const Call& part : parts) {
        if (part.what.count > 0)
          std::memcpy(to,
                      static_cast<const std::byte*>(part.input) + part.gives.before(r) * element,
                      bytes_of(part));
        to += bytes_of(part);
      }
    }
  }
  void unpack() {
    const int ranks = row.output == Side::kEach ? size : 1;
    const std::byte* from = output();
    for (int r = 0; r < ranks; ++r) {
      for (const Call& part : parts) {
        if (part.what.count > 0)
          std::memcpy(static_cast<std::byte*>(part.output) + part.takes.before(r) * element, from,
                      bytes_of(part));
        from += bytes_of(part);
      }
    }
  }

  std::byte* input() { return side(row.input); }
  std::byte* output() { return side(row.output); }
  std::byte* side(Side side) {
    const bool is_smaller = side == Side::kWhole && row.input != row.output;
    return memory.data() + (is_smaller ? static_cast<std::size_t>(rank) * count * element : 0);
  }
  std::size_t bytes_of(const Call& part) const { return part.what.count * element; }

  OpRow row{};
  int rank = 0, size = 1;
  std::size_t count = 0, element = 1;  // of one rank
  std::vector<Call> parts;
  std::vector<std::byte> memory;
  Ref<RefCounted> owner;  // of the parts' buffers
};

template <typename Options>
Ref<Work> coalesced(ProcessGroup& group, std::span<const Options> parts,
                    const CallOptions& options) {
  const Call none = checked(Options{}, group.rank(), group.size());
  const Descriptor first = parts.empty() ? none.what : call_of(parts.front()).what;
  auto packed = make_ref<Packed>();
  packed->row = none.row();
  packed->rank = group.rank();
  packed->size = group.size();
  packed->element = size_of(first.dtype);
  packed->owner = options.keep_alive;
  for (const Options& part : parts) {
    Call call = checked(part, group.rank(), group.size());
    DL_CHECK(
        call.what.dtype == first.dtype && call.what.reduce == first.reduce, kInvalidArgument,
        "{}_coalesced: one part is {} {}, another {} {}; coalesce parts of one dtype and reduction",
        none.row().name, short_name(first.dtype), name_of(first.reduce),
        short_name(call.what.dtype), name_of(call.what.reduce));
    call.options = &options;
    call.what.order = options.order;
    packed->count += call.what.count;
    packed->parts.push_back(call);
  }
  if (options.stream.device.type != DeviceType::kCPU) return group.start_all(packed->parts);
  check_is_on_cpu({.what = none.what, .options = &options}, group.backend());
  const bool has_parts = packed->row.input == Side::kEach || packed->row.output == Side::kEach;
  packed->memory.resize(packed->count * packed->element *
                        static_cast<std::size_t>(has_parts ? group.size() : 1));
  packed->pack();
  CallOptions with = options;
  with.keep_alive = packed;
  Call whole = make_call(packed->row.op, {.input = packed->input(),
                                          .output = packed->output(),
                                          .count = packed->count,
                                          .dtype = first.dtype,
                                          .reduce = first.reduce,
                                          .options = &with});
  check(whole, group.rank(), group.size());
  return finish_with(group.start(whole), [packed] { packed->unpack(); });
}

}  // namespace

Ref<Work> all_reduce_coalesced(ProcessGroup& group, std::span<const AllReduceOptions> parts,
                               const CallOptions& call) {
  return coalesced(group, parts, call);
}

Ref<Work> all_gather_coalesced(ProcessGroup& group, std::span<const AllGatherOptions> parts,
                               const CallOptions& call) {
  return coalesced(group, parts, call);
}

Ref<Work> reduce_scatter_coalesced(ProcessGroup& group, std::span<const ReduceScatterOptions> parts,
                                   const CallOptions& call) {
  return coalesced(group, parts, call);
}

}  // namespace dl::collectives
