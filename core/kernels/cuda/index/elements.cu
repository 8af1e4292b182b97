#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/index/elements_kernels.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

struct Found {
  bool present;
  std::int64_t index;
};
__device__ inline Found find(const IndexRange& by, std::int64_t index, std::int64_t position,
                             const dl::cuda::FaultPlace& fault) {
  const std::int64_t from_start = by.from_end && index < 0 ? index + by.size : index;
  if (by.is_checked || (from_start >= 0 && from_start < by.size)) return {true, from_start};
  dl::cuda::fault::report(fault, position, index, by.size);
  return {false, 0};
}

__global__ void __launch_bounds__(kThreads)
    add_offsets_kernel(IndexRange by, const std::int64_t* index, std::int64_t* offsets,
                       OffsetMap<2> map, dl::cuda::FaultPlace fault) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<2> at = map(static_cast<std::uint32_t>(element));
  offsets[at.at[0]] += find(by, index[at.at[1]], element, fault).index * by.step;
}

template <typename Bits>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(IndexRange by, const Bits* source, const std::int64_t* index, Bits* out,
                  OffsetMap<3> map, dl::cuda::FaultPlace fault) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<3> at = map(static_cast<std::uint32_t>(element));
  const Found found = find(by, index[at.at[1]], element, fault);
  out[at.at[0]] = found.present ? source[at.at[2] + found.index * by.step] : Bits(0);
}

__global__ void __launch_bounds__(kThreads)
    scatter_keys_kernel(IndexRange by, const std::int64_t* index, std::uint64_t* keys,
                        std::int64_t* numbers, OffsetMap<2> map, dl::cuda::FaultPlace fault) {
  const std::int64_t element = thread_number();
  if (element >= map.count) return;
  const Offsets<2> at = map(static_cast<std::uint32_t>(element));
  const Found found = find(by, index[at.at[1]], element, fault);
  keys[element] =
      found.present ? static_cast<std::uint64_t>(at.at[0] + found.index * by.step) : kNoPlace;
  numbers[element] = element;
}

// Whether this thread's key begins a run; `end` is then the first number behind it.
__device__ inline bool begins_run(const ScatterArgs& args, std::int64_t first, std::int64_t& end) {
  if (first >= args.map.count) return false;
  const std::uint64_t key = args.keys[first];
  if (key == kNoPlace || (first > 0 && args.keys[first - 1] == key)) return false;
  end = first + 1;
  while (end < args.map.count && args.keys[end] == key) ++end;
  return true;
}

__device__ inline std::int64_t source_of(const ScatterArgs& args, std::int64_t place) {
  return args.map(static_cast<std::uint32_t>(args.numbers[place])).at[0];
}

// The last of a run wins.
template <typename Bits>
__global__ void __launch_bounds__(kThreads) set_kernel(ScatterArgs args) {
  const std::int64_t first = thread_number();
  std::int64_t end = 0;
  if (!begins_run(args, first, end)) return;
  static_cast<Bits*>(args.target)[args.keys[first]] =
      static_cast<const Bits*>(args.source)[source_of(args, end - 1)];
}

template <typename M>
__device__ M combined(ScatterMode how, M a, M b) {
  using Whole = std::uint64_t;  // integers wrap around
  switch (how) {
    case ScatterMode::kMultiply:
      if constexpr (std::is_floating_point_v<M>) return a * b;
      return static_cast<M>(static_cast<Whole>(a) * static_cast<Whole>(b));
    case ScatterMode::kKeepLarger:
      return b != b || a < b ? b : a;
    case ScatterMode::kKeepSmaller:
      return b != b || b < a ? b : a;
    default:
      if constexpr (std::is_floating_point_v<M>) return a + b;
      return static_cast<M>(static_cast<Whole>(a) + static_cast<Whole>(b));
  }
}

template <typename M>
__global__ void __launch_bounds__(kThreads, kFewBlocks) combine_kernel(ScatterArgs args) {
  const std::int64_t first = thread_number();
  std::int64_t end = 0;
  if (!begins_run(args, first, end)) return;
  const auto to = static_cast<std::int64_t>(args.keys[first]);
  M total = load_as<M>(args.target, args.dtype, to);
  for (std::int64_t i = first; i < end; ++i) {
    total = combined(args.how, total, load_as<M>(args.source, args.dtype, source_of(args, i)));
  }
  store_as<M>(args.target, args.dtype, to, total);
}

}  // namespace

void add_offsets_launch(const IndexRange& by, const std::int64_t* index, std::int64_t* offsets,
                        const OffsetMap<2>& map, dl::cuda::FaultPlace fault, cudaStream_t stream) {
  add_offsets_kernel<<<blocks_for(map.count), kThreads, 0, stream>>>(by, index, offsets, map,
                                                                     fault);
}

void gather_launch(const IndexRange& by, std::size_t width, const void* source,
                   const std::int64_t* index, void* out, const OffsetMap<3>& map,
                   dl::cuda::FaultPlace fault, cudaStream_t stream) {
  visit_width(width, [&]<typename Bits>() {
    gather_kernel<Bits><<<blocks_for(map.count), kThreads, 0, stream>>>(
        by, static_cast<const Bits*>(source), index, static_cast<Bits*>(out), map, fault);
  });
}

void scatter_keys_launch(const IndexRange& by, const std::int64_t* index, std::uint64_t* keys,
                         std::int64_t* numbers, const OffsetMap<2>& map, dl::cuda::FaultPlace fault,
                         cudaStream_t stream) {
  scatter_keys_kernel<<<blocks_for(map.count), kThreads, 0, stream>>>(by, index, keys, numbers, map,
                                                                      fault);
}

void scatter_launch(const ScatterArgs& args, cudaStream_t stream) {
  const unsigned blocks = blocks_for(args.map.count);
  if (args.how == ScatterMode::kSet) {
    return visit_width(size_of(args.dtype), [&]<typename Bits>() {
      set_kernel<Bits><<<blocks, kThreads, 0, stream>>>(args);
    });
  }
  with_loaded(args.dtype,
              [&]<typename M>() { combine_kernel<M><<<blocks, kThreads, 0, stream>>>(args); });
}

}  // namespace dl::kernels::cuda
