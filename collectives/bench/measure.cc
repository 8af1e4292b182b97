#include "collectives/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collectives/algorithms/reduce.h"
#include "collectives/algorithms/schedule.h"
#include "core/base/error.h"

namespace dl::collectives::bench {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration span) {
  return std::chrono::duration<double, std::micro>(span).count();
}

double percentile(std::vector<double> sorted, double share) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

// Values that every dtype holds and whose sums are exact: 0 or 1, by rank and place. A period that
// no power of two divides, so that a slice in the wrong place shows.
constexpr std::size_t kPeriod = 251;

void fill(DType dtype, int rank, std::byte* to, std::size_t count, std::size_t from) {
  const std::size_t element = size_of(dtype);
  std::vector<std::byte> pattern(kPeriod * element);
  std::vector<std::uint8_t> bits(kPeriod);
  for (std::size_t i = 0; i < kPeriod; ++i) {
    bits[i] = ((from + i) % kPeriod * 7 + static_cast<std::size_t>(rank) * 3) % 5 < 2 ? 1 : 0;
  }
  const std::uint16_t half = dtype == DType::kF16 ? 0x3c00 : 0x3f80;
  for (std::size_t i = 0; i < kPeriod; ++i) {
    std::byte* const at = pattern.data() + i * element;
    if (bits[i] == 0) continue;
    if (dtype == DType::kF32) {
      const float one = 1;
      std::memcpy(at, &one, sizeof one);
    } else if (dtype == DType::kF64) {
      const double one = 1;
      std::memcpy(at, &one, sizeof one);
    } else if (is_floating(dtype)) {
      std::memcpy(at, &half, sizeof half);
    } else {
      *at = std::byte{1};  // little-endian
    }
  }
  for (std::size_t i = 0; i < count; i += kPeriod) {
    std::memcpy(to + i * element, pattern.data(), std::min(kPeriod, count - i) * element);
  }
}

struct Buffers {
  std::vector<std::byte> input, output;
  std::size_t count = 0;  // elements as the call takes them
  std::size_t input_count = 0;
  std::size_t output_count = 0;
  std::byte* input_at = nullptr;
  std::byte* output_at = nullptr;
};

Buffers make_buffers(const Options& o, ProcessGroup& group, std::size_t bytes, bool in_place) {
  const auto size = static_cast<std::size_t>(group.size());
  const auto rank = static_cast<std::size_t>(group.rank());
  const std::size_t element = size_of(o.dtype);
  const bool gathers = o.op == OpKind::kAllGather;
  const bool scatters = o.op == OpKind::kReduceScatter;
  std::size_t full = std::max<std::size_t>(bytes / element, 1);
  if (gathers || scatters) full = std::max(full / size, std::size_t{1}) * size;
  if (o.op == OpKind::kBarrier) full = 0;
  Buffers b;
  b.count = gathers || scatters ? full / size : full;
  b.input_count = gathers ? b.count : full;
  b.output_count = scatters ? b.count : full;
  b.input.resize(b.input_count * element);
  b.output.resize(b.output_count * element);
  b.input_at = b.input.data();
  b.output_at = b.output.data();
  if (in_place) {
    if (gathers) {
      b.input_at = b.output_at + rank * b.count * element;
    } else if (scatters) {
      b.output_at = b.input_at + rank * b.count * element;
    } else {
      b.input_at = b.output_at;
    }
  }
  return b;
}

Ref<Work> start(const Options& o, ProcessGroup& group, const Buffers& b) {
  const CallOptions call{.timeout = o.timeout};
  switch (o.op) {
    case OpKind::kAllReduce:
      return group.all_reduce({.input = b.input_at,
                               .output = b.output_at,
                               .count = b.count,
                               .dtype = o.dtype,
                               .op = o.reduce,
                               .call = call});
    case OpKind::kReduceScatter:
      return group.reduce_scatter({.input = b.input_at,
                                   .output = b.output_at,
                                   .count = b.count,
                                   .dtype = o.dtype,
                                   .op = o.reduce,
                                   .call = call});
    case OpKind::kAllGather:
      return group.all_gather({.input = b.input_at,
                               .output = b.output_at,
                               .count = b.count,
                               .dtype = o.dtype,
                               .call = call});
    case OpKind::kBroadcast:
      return group.broadcast(
          {.buffer = b.input_at, .count = b.count, .dtype = o.dtype, .root = o.root, .call = call});
    default:
      return group.barrier({.call = call});
  }
}

// What the operation must have left in its output, made without it.
std::vector<std::byte> expected(const Options& o, ProcessGroup& group, const Buffers& b) {
  const std::size_t element = size_of(o.dtype);
  std::vector<std::byte> wanted(b.output_count * element);
  if (o.op == OpKind::kBroadcast) fill(o.dtype, o.root, wanted.data(), b.output_count, 0);
  if (o.op == OpKind::kAllGather) {
    for (int r = 0; r < group.size(); ++r) {
      fill(o.dtype, r, wanted.data() + static_cast<std::size_t>(r) * b.count * element, b.count, 0);
    }
  }
  if (o.op == OpKind::kAllReduce || o.op == OpKind::kReduceScatter) {
    const std::size_t from =
        o.op == OpKind::kReduceScatter ? static_cast<std::size_t>(group.rank()) * b.count : 0;
    std::vector<std::vector<std::byte>> shares;
    std::vector<const void*> pointers;
    for (int r = 0; r < group.size(); ++r) {
      shares.emplace_back(wanted.size());
      fill(o.dtype, r, shares.back().data(), b.output_count, from);
    }
    for (const auto& share : shares) pointers.push_back(share.data());
    combine(o.dtype, o.reduce, wanted.data(), pointers, b.output_count);
  }
  return wanted;
}

std::size_t count_wrong(const Options& o, ProcessGroup& group, const Buffers& b) {
  const std::size_t element = size_of(o.dtype);
  const std::vector<std::byte> wanted = expected(o, group, b);
  const std::byte* const got = o.op == OpKind::kBroadcast ? b.input_at : b.output_at;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < b.output_count; ++i) {
    wrong += std::memcmp(got + i * element, wanted.data() + i * element, element) != 0 ? 1 : 0;
  }
  group.all_reduce({.input = &wrong, .output = &wrong, .count = 1, .dtype = DType::kU64})->wait();
  return wrong;
}

// nccl-tests, doc/PERFORMANCE.md: what the busiest link carries.
double bus_factor(OpKind op, int size) {
  const double p = size;
  if (op == OpKind::kAllReduce) return 2 * (p - 1) / p;
  if (op == OpKind::kAllGather || op == OpKind::kReduceScatter) return (p - 1) / p;
  return op == OpKind::kBroadcast ? 1 : 0;
}

}  // namespace

Result measure(ProcessGroup& group, const Options& o, std::size_t bytes, bool in_place) {
  const Buffers b = make_buffers(o, group, bytes, in_place);
  const std::size_t element = size_of(o.dtype);
  const std::size_t iterations = iterations_for(o, bytes);
  std::vector<double> times;
  std::vector<double> rewrites;
  for (std::size_t i = 0; i < o.warmup + iterations; ++i) {
    const Clock::time_point begin = Clock::now();
    if (b.input_count > 0) fill(o.dtype, group.rank(), b.input_at, b.input_count, 0);
    const Clock::time_point written = Clock::now();
    group.barrier()->wait();
    const Clock::time_point started = Clock::now();
    start(o, group, b)->wait();
    const Clock::time_point stopped = Clock::now();
    if (i < o.warmup) continue;
    times.push_back(microseconds(stopped - started));
    rewrites.push_back(microseconds(written - begin));
  }
  Result result{.bytes = std::max(b.input_count, b.output_count) * element,
                .count = std::max(b.input_count, b.output_count),
                .in_place = in_place};
  if (o.check) result.wrong = count_wrong(o, group, b);
  group
      .all_reduce({.input = times.data(),
                   .output = times.data(),
                   .count = times.size(),
                   .dtype = DType::kF64,
                   .op = ReduceOp::kMax})
      ->wait();
  std::sort(times.begin(), times.end());
  std::sort(rewrites.begin(), rewrites.end());
  result.p50_us = percentile(times, 0.5);
  result.p99_us = percentile(times, 0.99);
  result.max_us = times.back();
  result.rewrite_us = percentile(rewrites, 0.5);
  result.algbw = static_cast<double>(result.bytes) / result.p50_us / 1e3;
  result.busbw = result.algbw * bus_factor(o.op, group.size());
  return result;
}

std::string_view algorithm_of(const Options& o, const Result& result, int size) {
  if (size == 1) return "copy";
  std::size_t count = result.count;
  if (o.op == OpKind::kAllGather || o.op == OpKind::kReduceScatter) {
    count /= static_cast<std::size_t>(size);
  }
  return name_of(plan({.count = count, .op = o.op, .dtype = o.dtype, .reduce = o.reduce}, size));
}

}  // namespace dl::collectives::bench
