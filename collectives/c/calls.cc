// The C interface's calls as data.
#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "collectives/c/displaced.h"
#include "collectives/c/dl_comm.h"
#include "collectives/c/handles.h"
#include "collectives/call/checks.h"
#include "collectives/compose/coalesced.h"
#include "collectives/waiting/finishing_work.h"

using namespace dl::collectives;
using dl::DType;
using dl::Ref;
using dl::collectives::c::check_buffers;
using dl::collectives::c::dtype_of;
using dl::collectives::c::guarded;
using dl::collectives::c::op_of;
using dl::collectives::c::run;
using dl::collectives::c::time_of;

namespace dl::collectives::c {

DType dtype_of(dl_dtype dtype) {
  DL_CHECK(static_cast<unsigned>(dtype) < dl::kDTypeCount, kInvalidArgument,
           "dtype {} is not one that this operation takes", dtype);
  return static_cast<DType>(dtype);
}

ReduceOp op_of(dl_reduce_op op) {
  DL_CHECK(static_cast<unsigned>(op) < kReduceOpCount, kInvalidArgument,
           "dl_comm: {} is not a dl_reduce_op", op);
  return static_cast<ReduceOp>(op);
}

}  // namespace dl::collectives::c

namespace {

static_assert(static_cast<int>(DType::kF16) == DL_F16 && static_cast<int>(DType::kF32) == DL_F32);
static_assert(static_cast<int>(DType::kI64) == DL_I64 && static_cast<int>(DType::kBool) == DL_BOOL);
static_assert(dl::kDTypeCount == DL_C64);
static_assert(static_cast<int>(ReduceOp::kSum) == DL_SUM &&
              static_cast<int>(ReduceOp::kBxor) == DL_BXOR);
static_assert(static_cast<int>(Order::kTree) == DL_ORDER_TREE);
static_assert(static_cast<int>(OpKind::kAllReduce) == DL_OP_ALL_REDUCE &&
              static_cast<int>(OpKind::kRecv) == DL_OP_RECV &&
              static_cast<int>(OpKind::kAllToAll) == DL_OP_ALL_TO_ALL &&
              static_cast<int>(OpKind::kAllToAllv) == DL_OP_ALL_TO_ALLV);
static_assert(kAnySource == DL_ANY_SOURCE);

// Owns the caller's buffers: calls release(context) at its end.
class Released final : public dl::RefCounted {
 public:
  explicit Released(const dl_call& call) : release_(call.release), context_(call.context) {}

 private:
  ~Released() override { release_(context_); }

  const dl_release_function release_;
  void* const context_;
};

// The owners of the buffers of a list.
struct Owners final : dl::RefCounted {
  std::vector<Ref<dl::RefCounted>> owners;
};

// Throws if the call cannot be read. One of a later version has our fields, so its buffers are
// released.
Ref<dl::RefCounted> owner_of(const dl_call* call) {
  DL_CHECK(call != nullptr, kInvalidArgument, "dl_start: the call is NULL");
  Ref<dl::RefCounted> owner;
  if (call->struct_size >= sizeof *call && call->release != nullptr) {
    owner = dl::make_ref<Released>(*call);
  }
  DL_CHECK(call->struct_size == sizeof *call, kInvalidArgument,
           "dl_start: struct_size is {}, wanted sizeof(dl_call), {}", call->struct_size,
           sizeof *call);
  return owner;
}

// A dl_call as a checked Call, with what that points to.
class Translated {
 public:
  Translated(const dl_call& given, Ref<dl::RefCounted> owner, const ProcessGroup& group) {
    DL_CHECK(static_cast<unsigned>(given.op) < kOpKindCount, kInvalidArgument,
             "dl_start: {} is not a dl_op", given.op);
    DL_CHECK(given.input_displacements == nullptr && given.output_displacements == nullptr,
             kInvalidArgument, "dl_start_list: a call of a list has no displacements");
    DL_CHECK(static_cast<unsigned>(given.order) <= DL_ORDER_TREE, kInvalidArgument,
             "dl_start: {} is not a dl_order", given.order);
    options_ = {.timeout = time_of(given.timeout_s),
                .order = static_cast<Order>(given.order),
                .keep_alive = std::move(owner)};
    const auto op = static_cast<OpKind>(given.op);
    const DType dtype = floats_of(given, row_of(op));
    call_ = row_of(op).is_message ? message(given, op, dtype)
                                  : collective(given, op, dtype, group.rank(), group.size());
    check(call_, group.rank(), group.size());
  }
  Translated(const Translated&) = delete;
  Translated& operator=(const Translated&) = delete;

  const Call& call() const noexcept { return call_; }
  const CallOptions& options() const noexcept { return options_; }

 private:
  // The dtype that moves, and how many of it make one of the caller's elements.
  DType floats_of(const dl_call& given, const OpRow& row) {
    if (given.dtype != DL_C64 && given.dtype != DL_C128) return dtype_of(given.dtype);
    DL_CHECK(!row.reduces || given.reduce == DL_SUM || given.reduce == DL_AVG, kDType,
             "{}: complex numbers have no reductions but sum and avg", row.name);
    floats_ = 2;
    return given.dtype == DL_C64 ? DType::kF32 : DType::kF64;
  }
  std::size_t floats(std::size_t count) const {
    DL_CHECK(count <= std::numeric_limits<std::size_t>::max() / floats_, kInvalidArgument,
             "{} elements are more than memory can hold", count);
    return count * floats_;
  }
  Call message(const dl_call& given, OpKind op, DType dtype) {
    Call call = op == OpKind::kSend ? call_of(SendOptions{.buffer = given.input,
                                                          .count = floats(given.count),
                                                          .dtype = dtype,
                                                          .peer = given.peer,
                                                          .tag = given.tag})
                                    : call_of(RecvOptions{.buffer = given.output,
                                                          .count = floats(given.count),
                                                          .dtype = dtype,
                                                          .peer = given.peer,
                                                          .tag = given.tag});
    call.options = &options_;
    return call;
  }
  Call collective(const dl_call& given, OpKind op, DType dtype, int rank, int size) {
    const OpRow& row = row_of(op);
    const auto counts = [&](const size_t* from, std::vector<std::size_t>& to) {
      if (from == nullptr || !row.is_v_variant()) return std::span<const std::size_t>();
      if (floats_ == 1) return std::span(from, static_cast<std::size_t>(size));
      for (int r = 0; r < size; ++r) to.push_back(floats(from[r]));
      return std::span<const std::size_t>(to);
    };
    return make_call(op,
                     {.input = op == OpKind::kBroadcast ? given.output : given.input,
                      .output = given.output,
                      .count = floats(given.count),
                      .input_counts = counts(given.input_counts, input_counts_),
                      .output_counts = counts(given.output_counts, output_counts_),
                      .dtype = dtype,
                      .reduce = row.reduces ? op_of(given.reduce) : ReduceOp::kSum,
                      .root = given.peer,
                      .options = &options_},
                     rank, size);
  }

  CallOptions options_{};
  std::size_t floats_ = 1;
  std::vector<std::size_t> input_counts_{}, output_counts_{};
  Call call_{};
};

struct Bytes {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool is_written = false;
};

// Throws if a call of the list writes what another one reads or writes. What a call does to its own
// buffers is checked with that call.
void check_apart(std::span<const std::unique_ptr<Translated>> calls, int size) {
  std::vector<Bytes> buffers;
  buffers.reserve(2 * calls.size());
  const auto add = [&](const void* data, std::size_t bytes, bool is_written) {
    const auto* begin = static_cast<const std::byte*>(data);
    if (bytes > 0) buffers.push_back({begin, begin + bytes, is_written});
  };
  for (const auto& translated : calls) {
    const Call& call = translated->call();
    const std::size_t element = size_of(call.what.dtype);
    if (call.row().is_message) {
      add(call.memory(), call.what.count * element, call.what.op == OpKind::kRecv);
      continue;
    }
    const std::size_t in = call.gives.all(size) * element;
    const std::size_t out = call.takes.all(size) * element;
    // An input inside of the call's own output is its place there.
    const auto* output = static_cast<const std::byte*>(call.output);
    const auto* input = static_cast<const std::byte*>(call.input);
    const auto is_in = [](const std::byte* a, std::size_t a_bytes, const std::byte* b,
                          std::size_t b_bytes) {
      return !std::less<>()(a, b) && !std::less<>()(b + b_bytes, a + a_bytes);
    };
    if (is_in(output, out, input, in)) {
      add(input, in, true);
    } else {
      if (!is_in(input, in, output, out)) add(input, in, false);
      add(output, out, true);
    }
  }
  std::ranges::sort(buffers, std::less<>(), &Bytes::begin);
  Bytes read;     // of all buffers so far, the one that ends last
  Bytes written;  // of the written buffers so far, the one that ends last
  for (const Bytes& b : buffers) {
    const Bytes& before = b.is_written ? read : written;
    DL_CHECK(before.end == nullptr || !std::less<>()(b.begin, before.end), kInvalidArgument,
             "two operations of a list share memory that one of them writes");
    if (read.end == nullptr || std::less<>()(read.end, b.end)) read = b;
    if (b.is_written && (written.end == nullptr || std::less<>()(written.end, b.end))) written = b;
  }
}

// `Options`: of an operation that can be packed.
template <typename Options>
std::vector<Options> parts_of(std::span<const std::unique_ptr<Translated>> calls) {
  std::vector<Options> parts;
  parts.reserve(calls.size());
  for (const auto& translated : calls) {
    const Call& call = translated->call();
    Options part;
    part.input = call.input;
    part.output = call.output;
    part.count = call.what.count;
    part.dtype = call.what.dtype;
    if constexpr (requires { part.op; }) part.op = call.what.reduce;
    parts.push_back(part);
  }
  return parts;
}

Ref<Work> start_list(ProcessGroup& group, std::span<const dl_call> given,
                     std::span<const Ref<dl::RefCounted>> owners) {
  std::vector<std::unique_ptr<Translated>> calls;
  calls.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    calls.push_back(std::make_unique<Translated>(given[i], owners[i], group));
  }
  check_apart(calls, group.size());
  if (std::ranges::all_of(calls, [](const auto& c) { return c->call().row().is_message; })) {
    std::vector<Call> messages;
    messages.reserve(calls.size());
    for (const auto& c : calls) messages.push_back(c->call());
    return group.start_all(messages);
  }
  const OpKind op = calls.front()->call().what.op;
  const bool has_one_op =
      std::ranges::all_of(calls, [op](const auto& c) { return c->call().what.op == op; });
  CallOptions options = calls.front()->options();
  const auto all = dl::make_ref<Owners>();
  all->owners.assign(owners.begin(), owners.end());
  options.keep_alive = all;
  if (has_one_op && op == OpKind::kAllReduce) {
    return all_reduce_coalesced(group, parts_of<AllReduceOptions>(calls), options);
  }
  if (has_one_op && op == OpKind::kAllGather) {
    return all_gather_coalesced(group, parts_of<AllGatherOptions>(calls), options);
  }
  if (has_one_op && op == OpKind::kReduceScatter) {
    return reduce_scatter_coalesced(group, parts_of<ReduceScatterOptions>(calls), options);
  }
  dl::throw_error(dl::ErrorKind::kInvalidArgument,
                  "a list of operations is of messages, or of one of all_reduce, all_gather and "
                  "reduce_scatter");
}

Ref<Work> start_displaced(ProcessGroup& group, dl_call call, const Ref<dl::RefCounted>& owner) {
  DL_CHECK(static_cast<unsigned>(call.op) < kOpKindCount, kInvalidArgument,
           "dl_start: {} is not a dl_op", call.op);
  const bool is_complex = call.dtype == DL_C64 || call.dtype == DL_C128;
  const std::size_t element =
      is_complex ? (call.dtype == DL_C64 ? 8 : 16) : dl::size_of(dtype_of(call.dtype));
  dl::collectives::c::Displaced displaced =
      dl::collectives::c::pack(call, element, group.size(), owner);
  const auto kept = dl::make_ref<Owners>();
  kept->owners = {owner, displaced.packed};
  Ref<Work> work = group.start(Translated(call, kept, group).call());
  return displaced.unpack ? finish_with(std::move(work), std::move(displaced.unpack)) : work;
}

}  // namespace

dl_status dl_start(dl_comm* comm, const dl_call* call, dl_work** work) {
  // Before anything may fail, because it calls release() then.
  Ref<dl::RefCounted> owner;
  if (const dl_status bad = guarded([&] { owner = owner_of(call); }); bad != DL_OK) return bad;
  return run(comm, work, [&](ProcessGroup& group) {
    check_buffers(*comm, call->input, call->output);
    if (call->input_displacements != nullptr || call->output_displacements != nullptr) [[unlikely]]
      return start_displaced(group, *call, owner);
    return group.start(Translated(*call, owner, group).call());
  });
}

dl_status dl_start_list(dl_comm* comm, const dl_call* calls, size_t count, dl_work** work) {
  std::vector<Ref<dl::RefCounted>> owners;
  const dl_status bad = guarded([&] {
    DL_CHECK(calls != nullptr || count == 0, kInvalidArgument, "dl_start_list: calls is NULL");
    std::exception_ptr first;  // a bad call does not keep the buffers of those after it
    for (std::size_t i = 0; i < count; ++i) {
      try {
        owners.push_back(owner_of(calls + i));
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  });
  if (bad != DL_OK) return bad;
  return run(comm, work, [&](ProcessGroup& group) {
    for (size_t i = 0; i < count; ++i) check_buffers(*comm, calls[i].input, calls[i].output);
    return start_list(group, {calls, count}, owners);
  });
}
