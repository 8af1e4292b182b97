#include "collectives/call/checks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

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

// A limit for counts: the offset in bytes of any rank's part then fits in a size_t.
constexpr std::size_t kMostElements =
    std::numeric_limits<std::size_t>::max() / (std::size_t{1} << 20);

void check_pointer(std::string_view operation, std::string_view what, const void* pointer,
                   std::size_t count) {
  DL_CHECK(pointer != nullptr || count == 0, kInvalidArgument, "{}: {} is null for {} elements",
           operation, what, count);
}

std::size_t checked_sum(std::string_view operation, std::string_view what,
                        std::span<const std::size_t> counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) {
    DL_CHECK(count <= kMostElements - sum, kInvalidArgument,
             "{}: the sum of {} is more than memory can hold", operation, what);
    sum += count;
  }
  return sum;
}

void check_message(const Call& call, int rank, int size) {
  const bool is_any = call.what.op == OpKind::kRecv && call.peer == kAnySource && size > 1;
  DL_CHECK(is_any || (call.peer >= 0 && call.peer < size && call.peer != rank), kInvalidArgument,
           "{}: peer is {}, wanted another rank of this group of {} (this is rank {})",
           call.row().name, call.peer, size, rank);
  check_pointer(call.row().name, "buffer", call.what.op == OpKind::kSend ? call.input : call.output,
                call.what.count);
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

// The root of a gatherv or scatterv gives its own count twice: as `count`, and in `counts`.
void check_own_count(std::string_view operation, std::size_t count, const PartsView& parts,
                     int rank) {
  DL_CHECK(parts.count(rank) == count, kInvalidArgument,
           "{}: count is {}, and counts[{}], which is this rank's, is {}", operation, count, rank,
           parts.count(rank));
}

void check_same_or_apart(const Call& call, std::size_t in_bytes, std::size_t out_bytes) {
  DL_CHECK(
      call.input == call.output || !overlap(call.input, in_bytes, call.output, out_bytes),
      kInvalidArgument,
      "{}: input and output overlap in part; give the same pointer (in place) or separate buffers",
      call.row().name);
}

void check_exchange(const Call& call, int rank) {
  DL_CHECK(call.gives.count(rank) == call.takes.count(rank), kInvalidArgument,
           "{}: rank {} sends {} elements to itself and receives {}", call.row().name, rank,
           call.gives.count(rank), call.takes.count(rank));
  DL_CHECK(
      call.input != call.output || std::ranges::equal(call.gives.counts(), call.takes.counts()),
      kInvalidArgument, "{}: in place, every rank must receive as much as it sends to that rank",
      call.row().name);
}

void check_overlap(const Call& call, int rank, std::size_t in_bytes, std::size_t out_bytes) {
  const OpRow& row = call.row();
  const std::size_t element = size_of(call.what.dtype);
  if (row.input == row.output) {
    if (row.input == Side::kEach) check_exchange(call, rank);
    check_same_or_apart(call, in_bytes, out_bytes);
  } else if (row.output == Side::kEach) {
    check_place(row.name, "input", call.input, in_bytes, "output", call.output, out_bytes,
                call.takes.before(rank) * element);
  } else {
    check_place(row.name, "output", call.output, out_bytes, "input", call.input, in_bytes,
                call.gives.before(rank) * element);
  }
}

}  // namespace

void check_reduction(DType dtype, ReduceOp op, std::string_view operation) {
  DL_CHECK(!is_floating(dtype) || op < ReduceOp::kBand, kDType,
           "{}: {} has no meaning for {}; it takes integers and bool", operation, name_of(op),
           short_name(dtype));
  DL_CHECK(dtype != DType::kBool || op != ReduceOp::kAvg, kDType,
           "{}: avg has no meaning for bool; sum is \"or\", prod is \"and\"", operation);
}

void check(Call& call, int rank, int size) {
  const OpRow& row = call.row();
  Descriptor& what = call.what;
  DL_CHECK(static_cast<std::size_t>(what.dtype) < kDTypeCount &&
               static_cast<std::size_t>(what.reduce) < kReduceOpCount && what.order <= Order::kTree,
           kInvalidArgument,
           "{}: dtype {}, reduction {} or order {} is not one of its type's values", row.name,
           static_cast<int>(what.dtype), static_cast<int>(what.reduce),
           static_cast<int>(what.order));
  const std::chrono::nanoseconds timeout = call.options->timeout.value_or(std::chrono::seconds(0));
  DL_CHECK(timeout.count() >= 0, kInvalidArgument, "{}: timeout is {} s, wanted 0 or more",
           row.name, seconds_text(timeout));
  DL_CHECK(what.count <= kMostElements, kInvalidArgument,
           "{}: {} elements are more than memory can hold", row.name, what.count);
  if (row.is_message) return check_message(call, rank, size);
  DL_CHECK(row.root == Root::kNone || (what.root >= 0 && what.root < size), kInvalidArgument,
           "{}: root is {}, wanted a rank of this group, 0 to {}", row.name, what.root, size - 1);
  if (row.input == Side::kNone) return;
  if (what.op == OpKind::kBroadcast) {
    return check_pointer(row.name, "buffer", call.output, what.count);
  }
  std::size_t in = call.gives.all(size);
  std::size_t out = call.takes.all(size);
  if (row.is_v_variant()) {
    const bool has_two = row.input == row.output;
    if (!call.gives.counts().empty()) {
      in = checked_sum(row.name, has_two ? "send_counts" : "counts", call.gives.counts());
    }
    if (!call.takes.counts().empty()) {
      out = checked_sum(row.name, has_two ? "receive_counts" : "counts", call.takes.counts());
    }
    if (row.has_common_count) what.count = std::max(in, out);
  }
  const bool reads = call.reads(rank);
  const bool writes = call.writes(rank);
  if (row.is_v_variant() && row.root != Root::kNone && reads && writes) {
    const bool takes = row.root == Root::kTakes;
    check_own_count(row.name, takes ? call.gives.count() : call.takes.count(),
                    takes ? call.takes : call.gives, rank);
  }
  if (reads) check_pointer(row.name, "input", call.input, in);
  if (writes) check_pointer(row.name, "output", call.output, out);
  if (row.reduces) check_reduction(what.dtype, what.reduce, row.name);
  if (!reads || !writes) return;
  const std::size_t element = size_of(what.dtype);
  check_overlap(call, rank, in * element, out * element);
}

void check_is_on_cpu(const Call& call, std::string_view backend) {
  DL_CHECK(call.options->stream.device.type == DeviceType::kCPU, kNotImplemented,
           "{}: a {} group moves CPU memory only, not {}'s", call.row().name, backend,
           call.options->stream.device.str());
}

void check_waits_on_cpu(const Descriptor& operation, std::string_view backend, Stream stream) {
  DL_CHECK(stream.device.type == DeviceType::kCPU, kNotImplemented,
           "{}: wait({}): a {} group works on CPU memory; call wait() without a stream",
           text(operation), stream.device.str(), backend);
}

}  // namespace dl::collectives
