#include "collectives/buffers.h"

#include <cstdint>
#include <limits>

#include "collectives/algorithms/reduce.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// Addresses as numbers: comparing pointers of different arrays is undefined.
std::uintptr_t address(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
  return a_bytes > 0 && b_bytes > 0 && address(a) < address(b) + b_bytes &&
         address(b) < address(a) + a_bytes;
}

void check_pointer(std::string_view operation, std::string_view what, const void* pointer,
                   std::size_t count) {
  DL_CHECK(pointer != nullptr || count == 0, kInvalidArgument, "{}: {} is null for {} elements",
           operation, what, count);
}

}  // namespace

void check_all_reduce(const AllReduceOptions& o) {
  check_pointer("all_reduce", "input", o.input, o.count);
  check_pointer("all_reduce", "output", o.output, o.count);
  check_reduction(o.dtype, o.op, "all_reduce");
  const std::size_t bytes = o.count * size_of(o.dtype);
  DL_CHECK(o.input == o.output || !overlap(o.input, bytes, o.output, bytes), kInvalidArgument,
           "all_reduce: input and output overlap in part; give the same pointer (in place) or "
           "separate buffers");
}

void check_broadcast(const BroadcastOptions& o, int size) {
  check_pointer("broadcast", "buffer", o.buffer, o.count);
  DL_CHECK(o.root >= 0 && o.root < size, kInvalidArgument,
           "broadcast: root is {}, wanted a rank of this group, 0 to {}", o.root, size - 1);
}

void check_all_gather(const AllGatherOptions& o, int rank, int size) {
  check_pointer("all_gather", "input", o.input, o.count);
  check_pointer("all_gather", "output", o.output, o.count);
  const std::size_t bytes = o.count * size_of(o.dtype);
  const auto* const own =
      static_cast<const std::byte*>(o.output) + static_cast<std::size_t>(rank) * bytes;
  DL_CHECK(
      own == o.input || !overlap(o.input, bytes, o.output, bytes * static_cast<std::size_t>(size)),
      kInvalidArgument,
      "all_gather: input overlaps output elsewhere than at output + rank * count");
}

void check_reduce_scatter(const ReduceScatterOptions& o, int rank, int size) {
  check_pointer("reduce_scatter", "input", o.input, o.count);
  check_pointer("reduce_scatter", "output", o.output, o.count);
  check_reduction(o.dtype, o.op, "reduce_scatter");
  const std::size_t bytes = o.count * size_of(o.dtype);
  const auto* const own =
      static_cast<const std::byte*>(o.input) + static_cast<std::size_t>(rank) * bytes;
  DL_CHECK(
      own == o.output || !overlap(o.input, bytes * static_cast<std::size_t>(size), o.output, bytes),
      kInvalidArgument,
      "reduce_scatter: output overlaps input elsewhere than at input + rank * count");
}

void check_peer(const Descriptor& what, int peer, int rank, int size, const void* buffer) {
  DL_CHECK(peer >= 0 && peer < size && peer != rank, kInvalidArgument,
           "{}: peer is {}, wanted another rank of this group of {} (this is rank {})",
           name_of(what.op), peer, size, rank);
  check_pointer(name_of(what.op), "buffer", buffer, what.count);
}

void check_call(const Descriptor& what, const CallOptions& call, std::string_view backend) {
  DL_CHECK(call.stream.device.type == DeviceType::kCPU, kNotImplemented,
           "{}: a {} group moves CPU memory only, not {}'s", name_of(what.op), backend,
           call.stream.device.str());
  // Room for the offsets of any rank's part.
  DL_CHECK(what.count <= std::numeric_limits<std::size_t>::max() / (std::size_t{1} << 20),
           kInvalidArgument, "{}: {} elements are more than memory can hold", name_of(what.op),
           what.count);
}

}  // namespace dl::collectives
