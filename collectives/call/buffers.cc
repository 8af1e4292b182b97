#include "collectives/call/buffers.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "collectives/call/checks.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace {

// Addresses as integers: comparing pointers into different arrays is undefined.
std::uintptr_t address(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
  return a_bytes > 0 && b_bytes > 0 && address(a) < address(b) + b_bytes &&
         address(b) < address(a) + a_bytes;
}

// Limits counts, so that the offset in bytes of any rank's part fits in a size_t.
constexpr std::size_t kMostElements =
    std::numeric_limits<std::size_t>::max() / (std::size_t{1} << 20);

void check_root(std::string_view operation, int root, int size) {
  DL_CHECK(root >= 0 && root < size, kInvalidArgument,
           "{}: root is {}, wanted a rank of this group, 0 to {}", operation, root, size - 1);
}

// Throws if `part` overlaps `whole` anywhere but at its own place.
void check_place(std::string_view operation, std::string_view part_name, const void* part,
                 std::size_t part_bytes, std::string_view whole_name, const void* whole,
                 std::size_t whole_bytes, std::size_t place) {
  DL_CHECK(static_cast<const std::byte*>(whole) + place == part ||
               !overlap(part, part_bytes, whole, whole_bytes),
           kInvalidArgument, "{}: {} overlaps {} elsewhere than at this rank's part", operation,
           part_name, whole_name);
}

struct Sums {
  std::size_t before = 0;  // elements before this rank's part
  std::size_t all = 0;
};

// Sums of one count for each rank.
Sums sums_of(OpKind op, std::string_view what, std::span<const std::size_t> counts, int rank,
             int size) {
  DL_CHECK(counts.size() == static_cast<std::size_t>(size), kInvalidArgument,
           "{}: {} has {} elements, wanted one for each of {} ranks", name_of(op), what,
           counts.size(), size);
  Sums sums;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    DL_CHECK(counts[r] <= kMostElements - sums.all, kInvalidArgument,
             "{}: the sum of {} is more than memory can hold", name_of(op), what);
    if (r == static_cast<std::size_t>(rank)) sums.before = sums.all;
    sums.all += counts[r];
  }
  return sums;
}

// On a root, which is given its own count twice.
void check_own_count(std::string_view operation, std::size_t count,
                     std::span<const std::size_t> counts, int rank) {
  const std::size_t own = counts[static_cast<std::size_t>(rank)];
  DL_CHECK(own == count, kInvalidArgument,
           "{}: count is {}, and counts[{}], which is this rank's, is {}", operation, count, rank,
           own);
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
  check_root("broadcast", o.root, size);
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

void check_reduce(const ReduceOptions& o, int rank, int size) {
  check_pointer("reduce", "input", o.input, o.count);
  check_root("reduce", o.root, size);
  check_reduction(o.dtype, o.op, "reduce");
  if (rank != o.root) return;
  check_pointer("reduce", "output", o.output, o.count);
  const std::size_t bytes = o.count * size_of(o.dtype);
  DL_CHECK(o.input == o.output || !overlap(o.input, bytes, o.output, bytes), kInvalidArgument,
           "reduce: input and output overlap in part; give the same pointer (in place) or separate "
           "buffers");
}

std::size_t check_parts(OpKind op, const AllGathervOptions& o, int rank, int size) {
  const std::string_view name = name_of(op);
  const Sums sums = sums_of(op, "counts", o.counts, rank, size);
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t element = size_of(o.dtype);
  check_pointer(name, "input", o.input, o.counts[own]);
  check_pointer(name, "output", o.output, sums.all);
  check_place(name, "input", o.input, o.counts[own] * element, "output", o.output,
              sums.all * element, sums.before * element);
  return sums.all;
}

std::size_t check_parts(OpKind op, const ReduceScattervOptions& o, int rank, int size) {
  const std::string_view name = name_of(op);
  const Sums sums = sums_of(op, "counts", o.counts, rank, size);
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t element = size_of(o.dtype);
  check_pointer(name, "input", o.input, sums.all);
  check_pointer(name, "output", o.output, o.counts[own]);
  check_reduction(o.dtype, o.op, name);
  check_place(name, "output", o.output, o.counts[own] * element, "input", o.input,
              sums.all * element, sums.before * element);
  return sums.all;
}

void check_parts(OpKind op, const GathervOptions& o, int rank, int size) {
  const std::string_view name = name_of(op);
  check_root(name, o.root, size);
  check_pointer(name, "input", o.input, o.count);
  if (rank != o.root) return;
  const Sums sums = sums_of(op, "counts", o.counts, rank, size);
  const std::size_t element = size_of(o.dtype);
  check_own_count(name, o.count, o.counts, rank);
  check_pointer(name, "output", o.output, sums.all);
  check_place(name, "input", o.input, o.count * element, "output", o.output, sums.all * element,
              sums.before * element);
}

void check_parts(OpKind op, const ScattervOptions& o, int rank, int size) {
  const std::string_view name = name_of(op);
  check_root(name, o.root, size);
  check_pointer(name, "output", o.output, o.count);
  if (rank != o.root) return;
  const Sums sums = sums_of(op, "counts", o.counts, rank, size);
  const std::size_t element = size_of(o.dtype);
  check_own_count(name, o.count, o.counts, rank);
  check_pointer(name, "input", o.input, sums.all);
  check_place(name, "output", o.output, o.count * element, "input", o.input, sums.all * element,
              sums.before * element);
}

void check_parts(OpKind op, const AllToAllvOptions& o, int rank, int size) {
  const std::string_view name = name_of(op);
  const std::size_t sent = sums_of(op, "send_counts", o.send_counts, rank, size).all;
  const std::size_t received = sums_of(op, "receive_counts", o.receive_counts, rank, size).all;
  check_pointer(name, "input", o.input, sent);
  check_pointer(name, "output", o.output, received);
  const auto own = static_cast<std::size_t>(rank);
  DL_CHECK(o.send_counts[own] == o.receive_counts[own], kInvalidArgument,
           "{}: rank {} sends {} elements to itself and receives {}", name, rank,
           o.send_counts[own], o.receive_counts[own]);
  if (o.input == o.output) {
    DL_CHECK(std::equal(o.send_counts.begin(), o.send_counts.end(), o.receive_counts.begin()),
             kInvalidArgument,
             "{}: in place, every rank must receive as much as it sends to that rank", name);
    return;
  }
  const std::size_t element = size_of(o.dtype);
  DL_CHECK(!overlap(o.input, sent * element, o.output, received * element), kInvalidArgument,
           "{}: input and output overlap in part; give the same pointer (in place) or separate "
           "buffers",
           name);
}

void check_peer(const Descriptor& what, int peer, int rank, int size, const void* buffer) {
  const bool is_any = what.op == OpKind::kRecv && peer == kAnySource && size > 1;
  DL_CHECK(is_any || (peer >= 0 && peer < size && peer != rank), kInvalidArgument,
           "{}: peer is {}, wanted another rank of this group of {} (this is rank {})",
           name_of(what.op), peer, size, rank);
  check_pointer(name_of(what.op), "buffer", buffer, what.count);
}

void check_call(const Descriptor& what, const CallOptions& call, std::string_view backend) {
  DL_CHECK(call.stream.device.type == DeviceType::kCPU, kNotImplemented,
           "{}: a {} group moves CPU memory only, not {}'s", name_of(what.op), backend,
           call.stream.device.str());
  DL_CHECK(what.count <= kMostElements, kInvalidArgument,
           "{}: {} elements are more than memory can hold", name_of(what.op), what.count);
}

}  // namespace dl::collectives
