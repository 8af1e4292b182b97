#include "tests/host_device/nccl_calls.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/tensor/half.h"
#include "tests/host_device/runtime.h"

namespace dl::host_device::nccl {
namespace {

bool is_message(const Call& call) {
  return call.kind == Kind::kSend || call.kind == Kind::kReceive;
}
bool reduces(const Call& call) {
  return call.kind <= Kind::kReduceScatter;
}

// The types that dlrun's module passes; 0 for others.
std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

struct Range {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};
struct Buffers {
  Range input, output;
  bool is_in_place = false;  // as NCCL's header allows it
};

// What this rank reads and writes.
Buffers buffers_of(const Call& call, int size, int rank) {
  const std::size_t part = call.count * size_of(call.type);
  const std::size_t all = part * static_cast<std::size_t>(size);
  const std::size_t own = part * static_cast<std::size_t>(rank);
  Buffers b{.input = {static_cast<const std::byte*>(call.input), part},
            .output = {static_cast<const std::byte*>(call.output), part}};
  switch (call.kind) {
    case Kind::kReduce:
      if (rank != call.root) b.output = {};
      break;
    case Kind::kBroadcast:
      if (rank != call.root) b.input = {};
      break;
    case Kind::kReduceScatter:
      b.input.bytes = all;
      b.is_in_place = b.output.data == b.input.data + own;
      return b;
    case Kind::kAllGather:
      b.output.bytes = all;
      b.is_in_place = b.input.data == b.output.data + own;
      return b;
    case Kind::kSend:
      b.output = {};
      break;
    case Kind::kReceive:
      b.input = {};
      break;
    default:
      break;
  }
  b.is_in_place = b.input.data == b.output.data;
  return b;
}

bool overlap(const Range& a, const Range& b) {
  return a.bytes > 0 && b.bytes > 0 && a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

// A rank's message to itself, in place: NCCL leaves it out.
bool is_same_message(const Call& a, const Call& b, int rank) {
  const void* const from = a.kind == Kind::kSend ? a.input : b.input;
  const void* const to = a.kind == Kind::kSend ? b.output : a.output;
  return is_message(a) && is_message(b) && a.kind != b.kind && a.root == rank && b.root == rank &&
         from == to && a.count * size_of(a.type) == b.count * size_of(b.type);
}

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Combines two values, in float if they are shorter, and rounds.
template <typename T>
T combine(ncclRedOp_t op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Wrapping = std::make_unsigned_t<T>;
    const auto x = static_cast<Wrapping>(a), y = static_cast<Wrapping>(b);
    switch (op) {
      case ncclProd:
        return static_cast<T>(x * y);
      case ncclMax:
        return std::max(a, b);
      case ncclMin:
        return std::min(a, b);
      default:
        return static_cast<T>(x + y);
    }
  } else {
    const Wide<T> x = a, y = b;
    switch (op) {
      case ncclProd:
        return T(x * y);
      case ncclMax:
        return T(std::fmax(x, y));
      case ncclMin:
        return T(std::fmin(x, y));
      default:
        return T(x + y);
    }
  }
}

// A mean is, as NCCL's, a sum of what was multiplied by 1/n before; of integers one that is divided
// afterwards.
template <typename T>
void reduce(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
            ncclRedOp_t op) {
  const auto n = static_cast<int>(inputs.size());
  const auto value = [&](int r, std::size_t i) {
    T x = reinterpret_cast<const T*>(inputs[static_cast<std::size_t>(r)])[i];
    if constexpr (!std::is_integral_v<T>) {
      if (op == ncclAvg) x = combine(ncclProd, x, T(static_cast<Wide<T>>(1.0 / n)));
    }
    return x;
  };
  for (std::size_t i = 0; i < count; ++i) {
    T sum = value(0, i);
    for (int r = 1; r < n; ++r) sum = combine(op, sum, value(r, i));
    if constexpr (std::is_integral_v<T>) {
      if (op == ncclAvg) sum = static_cast<T>(sum / n);
    }
    reinterpret_cast<T*>(output)[i] = sum;
  }
}

void reduce(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
            ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return reduce<std::int8_t>(inputs, output, count, op);
    case ncclUint8:
      return reduce<std::uint8_t>(inputs, output, count, op);
    case ncclInt32:
      return reduce<std::int32_t>(inputs, output, count, op);
    case ncclInt64:
      return reduce<std::int64_t>(inputs, output, count, op);
    case ncclUint32:
      return reduce<std::uint32_t>(inputs, output, count, op);
    case ncclUint64:
      return reduce<std::uint64_t>(inputs, output, count, op);
    case ncclFloat16:
      return reduce<Half>(inputs, output, count, op);
    case ncclBfloat16:
      return reduce<BFloat16>(inputs, output, count, op);
    case ncclFloat32:
      return reduce<float>(inputs, output, count, op);
    default:
      return reduce<double>(inputs, output, count, op);
  }
}

// One collective, as a rank of `world` makes it.
class Collective {
 public:
  Collective(World& world, const Call& call)
      : world_(world),
        call_(call),
        size_(static_cast<std::size_t>(world.size())),
        rank_(static_cast<std::size_t>(world.rank())),
        element_(size_of(call.type)),
        input_(const_cast<std::byte*>(static_cast<const std::byte*>(call.input))),
        output_(static_cast<std::byte*>(call.output)) {}

  bool run() {
    switch (call_.kind) {
      case Kind::kBroadcast:
        return broadcast();
      case Kind::kAllGather:
        return all_gather();
      default:
        return reduce_parts() && spread_parts();
    }
  }

 private:
  struct Part {
    std::size_t begin, count;  // elements
  };
  // The elements that a rank adds up.
  Part part(std::size_t r) const {
    if (call_.kind == Kind::kReduceScatter) return {r * call_.count, call_.count};
    const std::size_t begin = call_.count * r / size_;
    return {begin, call_.count * (r + 1) / size_ - begin};
  }
  void add(bool sends, std::size_t peer, std::byte* data, std::size_t bytes) {
    const auto what = static_cast<std::uint64_t>(call_.kind) << 24 |
                      static_cast<std::uint64_t>(reduces(call_) ? call_.type : 0) << 16 |
                      static_cast<std::uint64_t>(call_.op) << 8 | static_cast<unsigned>(round_);
    transfers_.push_back({.sends = sends,
                          .peer = static_cast<int>(peer),
                          .data = data,
                          .bytes = bytes,
                          .what = what | static_cast<std::uint64_t>(call_.root) << 32});
  }
  bool move() {
    ++round_;
    return world_.run(std::exchange(transfers_, {}));
  }

  bool broadcast() {
    const std::size_t bytes = call_.count * element_;
    const auto root = static_cast<std::size_t>(call_.root);
    for (std::size_t r = 0; rank_ == root && r < size_; ++r) {
      if (r != rank_) add(true, r, input_, bytes);
    }
    if (rank_ != root) add(false, root, output_, bytes);
    if (!move()) return false;
    if (rank_ == root) std::memmove(output_, input_, bytes);
    return true;
  }

  bool all_gather() {
    const std::size_t bytes = call_.count * element_;
    for (std::size_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      add(true, r, input_, bytes);
      add(false, r, output_ + r * bytes, bytes);
    }
    if (!move()) return false;
    std::memmove(output_ + rank_ * bytes, input_, bytes);
    return true;
  }

  // Every rank's part of all others' inputs comes to it.
  bool reduce_parts() {
    const auto [begin, count] = part(rank_);
    const std::size_t bytes = count * element_;
    // Others' values are aligned there as an allocation's are.
    std::vector<std::unique_ptr<std::byte[]>> arrived(size_);
    std::vector<const std::byte*> inputs(size_);
    for (std::size_t r = 0; r < size_; ++r) {
      if (r == rank_) {
        inputs[r] = input_ + begin * element_;
        continue;
      }
      arrived[r] = std::make_unique_for_overwrite<std::byte[]>(bytes);
      inputs[r] = arrived[r].get();
      add(true, r, input_ + part(r).begin * element_, part(r).count * element_);
      add(false, r, arrived[r].get(), bytes);
    }
    if (!move()) return false;
    if (call_.kind == Kind::kReduceScatter) {
      result_ = output_;
    } else if (call_.kind == Kind::kAllReduce || world_.rank() == call_.root) {
      result_ = output_ + begin * element_;
    } else {
      kept_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      result_ = kept_.get();
    }
    reduce(inputs, result_, count, call_.type, call_.op);
    return true;
  }

  // To all of an all-reduce, to the root of a reduce.
  bool spread_parts() {
    if (call_.kind == Kind::kReduceScatter) return true;
    const auto gets = [this](std::size_t r) {
      return call_.kind == Kind::kAllReduce || static_cast<int>(r) == call_.root;
    };
    for (std::size_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      if (gets(r)) add(true, r, result_, part(rank_).count * element_);
      if (gets(rank_)) add(false, r, output_ + part(r).begin * element_, part(r).count * element_);
    }
    return move();
  }

  World& world_;
  const Call& call_;
  const std::size_t size_;
  const std::size_t rank_;
  const std::size_t element_;
  std::byte* const input_;
  std::byte* const output_;
  int round_ = 0;
  std::vector<Transfer> transfers_;
  std::byte* result_ = nullptr;  // of this rank's part
  std::unique_ptr<std::byte[]> kept_;
};

std::vector<Transfer> messages_of(const std::vector<Call>& group) {
  constexpr std::uint64_t kMessage = ~std::uint64_t{0};
  std::vector<Transfer> messages;
  for (const Call& call : group) {
    if (!is_message(call)) continue;
    const bool sends = call.kind == Kind::kSend;
    const void* const data = sends ? call.input : call.output;
    messages.push_back({.sends = sends,
                        .peer = call.root,
                        .data = const_cast<std::byte*>(static_cast<const std::byte*>(data)),
                        .bytes = call.count * size_of(call.type),
                        .what = kMessage});
  }
  return messages;
}

}  // namespace

std::string fault_of(const Call& call, int size, int rank) {
  if (call.root < 0 || call.root >= size) return "there is no rank " + std::to_string(call.root);
  if (size_of(call.type) == 0) return "type " + std::to_string(call.type) + " is not offered";
  if (call.op < ncclSum || call.op >= ncclNumOps) {
    return "operation " + std::to_string(call.op) + " is not known";
  }
  const Buffers b = buffers_of(call, size, rank);
  for (const Range& range : {b.input, b.output}) {
    if (range.bytes == 0) continue;
    if (place_of(range.data) == Place::kPageable) return "a buffer is not the device's";
    if (reinterpret_cast<std::uintptr_t>(range.data) % size_of(call.type) != 0) {
      return "a buffer is not aligned as its type";
    }
  }
  if (!b.is_in_place && overlap(b.input, b.output)) return "input and output overlap";
  return {};
}

std::string fault_of(const std::vector<Call>& group, int size, int rank) {
  for (const Call& a : group) {
    const Range written = buffers_of(a, size, rank).output;
    for (const Call& b : group) {
      const Buffers other = buffers_of(b, size, rank);
      if (&a == &b || written.bytes == 0 || is_same_message(a, b, rank)) continue;
      if (overlap(written, other.input) || overlap(written, other.output)) {
        return "two calls of a group use the same memory";
      }
    }
  }
  return {};
}

bool lacks_half(const std::vector<Call>& group, int rank) {
  const auto to_itself = [&](Kind kind) {
    return std::ranges::count_if(
        group, [&](const Call& call) { return call.kind == kind && call.root == rank; });
  };
  return to_itself(Kind::kSend) != to_itself(Kind::kReceive);
}

bool connect(World& world, const std::vector<Call>& group) {
  if (!std::ranges::all_of(group, is_message) && !world.connect_all()) return false;
  return world.connect(messages_of(group));
}

void run(World& world, const std::vector<Call>& group) {
  for (const Call& call : group) {
    if (!is_message(call) && !Collective(world, call).run()) return;
  }
  world.run(messages_of(group));
}

}  // namespace dl::host_device::nccl
