#include "collectives/compose/custom_reduce.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "collectives/call/checks.h"
#include "collectives/waiting/finishing_work.h"
#include "core/base/error.h"
#include "core/tensor/half.h"

namespace dl::collectives {
namespace {

// Memory of an operation, and the owner of the caller's buffers.
struct Scratch final : RefCounted {
  Scratch(std::size_t bytes, Ref<RefCounted> with) : memory(bytes), owner(std::move(with)) {}
  std::vector<std::byte> memory;
  Ref<RefCounted> owner;
};

CallOptions holding(const CallOptions& call, const Ref<Scratch>& scratch) {
  CallOptions with = call;
  with.keep_alive = scratch;
  return with;
}

Ref<Scratch> room_for_all(const ProcessGroup& group, const CallOptions& call, std::size_t bytes) {
  return make_ref<Scratch>(static_cast<std::size_t>(group.size()) * bytes, call.keep_alive);
}

template <typename T, typename Math>
void scale_as(void* to, const void* from, std::size_t count, double factor) {
  T* const out = static_cast<T*>(to);
  const T* const in = static_cast<const T*>(from);
  const auto by = static_cast<Math>(factor);
  for (std::size_t i = 0; i < count; ++i) out[i] = T(static_cast<Math>(in[i]) * by);
}

void scale(DType dtype, void* to, const void* from, std::size_t count, double factor) {
  switch (dtype) {
    case DType::kF16:
      return scale_as<Half, float>(to, from, count, factor);
    case DType::kBF16:
      return scale_as<BFloat16, float>(to, from, count, factor);
    case DType::kF32:
      return scale_as<float, float>(to, from, count, factor);
    default:
      return scale_as<double, double>(to, from, count, factor);
  }
}

void check_premul(std::string_view operation, DType dtype, ReduceOp op) {
  DL_CHECK(is_floating(dtype), kDType, "{}: a factor needs a floating dtype, got {}", operation,
           short_name(dtype));
  DL_CHECK(op == ReduceOp::kSum || op == ReduceOp::kAvg, kInvalidArgument,
           "{}: a factor works with sum and avg only, got {}", operation, name_of(op));
}

// The factor is applied before the group sees the call, so the group's own checks must come first.
template <typename Options>
void check_start(const ProcessGroup& group, const Options& options) {
  check_is_on_cpu(checked(options, group.rank(), group.size()), group.backend());
  if (const std::exception_ptr cause = group.error()) std::rethrow_exception(cause);
}

// The operation's size in bytes, which every group can move.
std::size_t bytes_of(std::string_view operation, const UserReduceOptions& o) {
  DL_CHECK(o.element_bytes > 0, kInvalidArgument, "{}: element_bytes is 0", operation);
  DL_CHECK(o.function != nullptr, kInvalidArgument, "{}: there is no function", operation);
  DL_CHECK(o.call.stream.device.type == DeviceType::kCPU, kNotImplemented,
           "{}: the function runs on the CPU and sees CPU memory only, not {}'s; copy the elements "
           "there",
           operation, o.call.stream.device.str());
  DL_CHECK(o.count <= SIZE_MAX / (std::size_t{1} << 20) / o.element_bytes, kInvalidArgument,
           "{}: {} elements of {} bytes are more than memory can hold", operation, o.count,
           o.element_bytes);
  return o.count * o.element_bytes;
}

// Folds the shares into the first one. They lie one behind the other, in rank order.
Ref<Work> fold(Ref<Work> gathered, Ref<Scratch> shares, const UserReduceOptions& o, int size) {
  return finish_with(std::move(gathered),
                     [shares = std::move(shares), function = o.function, count = o.count,
                      output = o.output, size, bytes = o.count * o.element_bytes] {
                       if (bytes == 0) return;
                       std::byte* const first = shares->memory.data();
                       for (int r = 1; r < size; ++r) {
                         function(first + static_cast<std::size_t>(r) * bytes, first, count);
                       }
                       std::memcpy(output, first, bytes);
                     });
}

}  // namespace

Ref<Work> premul_all_reduce(ProcessGroup& group, const AllReduceOptions& o, double factor) {
  check_premul("all_reduce", o.dtype, o.op);
  check_start(group, o);
  scale(o.dtype, o.output, o.input, o.count, factor);
  AllReduceOptions in_place = o;
  in_place.input = o.output;
  return group.all_reduce(in_place);
}

Ref<Work> premul_reduce(ProcessGroup& group, const ReduceOptions& o, double factor) {
  check_premul("reduce", o.dtype, o.op);
  check_start(group, o);
  ReduceOptions scaled = o;
  if (group.rank() == o.root) {
    scale(o.dtype, o.output, o.input, o.count, factor);
    scaled.input = o.output;
    return group.reduce(scaled);
  }
  const auto scratch = make_ref<Scratch>(o.count * size_of(o.dtype), o.call.keep_alive);
  scale(o.dtype, scratch->memory.data(), o.input, o.count, factor);
  scaled.input = scratch->memory.data();
  scaled.call = holding(o.call, scratch);
  return group.reduce(scaled);
}

Ref<Work> premul_reduce_scatter(ProcessGroup& group, const ReduceScatterOptions& o, double factor) {
  check_premul("reduce_scatter", o.dtype, o.op);
  check_start(group, o);
  const Ref<Scratch> scratch = room_for_all(group, o.call, o.count * size_of(o.dtype));
  scale(o.dtype, scratch->memory.data(), o.input, o.count * static_cast<std::size_t>(group.size()),
        factor);
  ReduceScatterOptions scaled = o;
  scaled.input = scratch->memory.data();
  scaled.call = holding(o.call, scratch);
  return group.reduce_scatter(scaled);
}

Ref<Work> user_all_reduce(ProcessGroup& group, const UserReduceOptions& o) {
  const std::size_t bytes = bytes_of("user_all_reduce", o);
  const AllReduceOptions as_bytes{
      .input = o.input, .output = o.output, .count = bytes, .dtype = DType::kU8};
  static_cast<void>(checked(as_bytes, group.rank(), group.size()));
  const Ref<Scratch> shares = room_for_all(group, o.call, bytes);
  Ref<Work> gathered = group.all_gather({.input = o.input,
                                         .output = shares->memory.data(),
                                         .count = bytes,
                                         .dtype = DType::kU8,
                                         .call = holding(o.call, shares)});
  return fold(std::move(gathered), shares, o, group.size());
}

Ref<Work> user_reduce(ProcessGroup& group, const UserReduceOptions& o, int root) {
  const std::size_t bytes = bytes_of("user_reduce", o);
  const ReduceOptions as_bytes{
      .input = o.input, .output = o.output, .count = bytes, .dtype = DType::kU8, .root = root};
  static_cast<void>(checked(as_bytes, group.rank(), group.size()));
  const bool is_root = group.rank() == root;
  const Ref<Scratch> shares = room_for_all(group, o.call, is_root ? bytes : 0);
  Ref<Work> gathered = group.gather({.input = o.input,
                                     .output = shares->memory.data(),
                                     .count = bytes,
                                     .dtype = DType::kU8,
                                     .root = root,
                                     .call = holding(o.call, shares)});
  return is_root ? fold(std::move(gathered), shares, o, group.size()) : gathered;
}

Ref<Work> user_reduce_scatter(ProcessGroup& group, const UserReduceOptions& o) {
  const std::size_t bytes = bytes_of("user_reduce_scatter", o);
  const ReduceScatterOptions as_bytes{
      .input = o.input, .output = o.output, .count = bytes, .dtype = DType::kU8};
  static_cast<void>(checked(as_bytes, group.rank(), group.size()));
  const Ref<Scratch> shares = room_for_all(group, o.call, bytes);
  Ref<Work> exchanged = group.all_to_all({.input = o.input,
                                          .output = shares->memory.data(),
                                          .count = bytes,
                                          .dtype = DType::kU8,
                                          .call = holding(o.call, shares)});
  return fold(std::move(exchanged), shares, o, group.size());
}

}  // namespace dl::collectives
