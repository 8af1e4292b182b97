#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/order/order_kernels.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

// Maps floats to integers in the same order: inverts negative numbers and puts positive ones above
// them. Both zeros have one key, and NaN has the largest.
template <typename Bits>
__device__ Bits key_of_bits(Bits bits, Bits infinity) {
  constexpr int kWidth = 8 * sizeof(Bits);
  constexpr Bits kHighest = Bits{1} << (kWidth - 1);
  const Bits magnitude = bits & ~kHighest;
  if (magnitude > infinity) return ~Bits{0};
  if (magnitude == 0) return kHighest;
  return (bits & kHighest) != 0 ? ~bits : bits | kHighest;
}

// A key has at most 32 bits, or 64 if the dtype has.
__device__ inline std::uint64_t key_at(const void* in, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return key_of_bits(std::bit_cast<std::uint32_t>(load_as<float>(in, dtype, at)),
                         std::uint32_t{0x7f800000});
    case DType::kF64:
      return key_of_bits(std::bit_cast<std::uint64_t>(load_as<double>(in, dtype, at)),
                         std::uint64_t{0x7ff0000000000000});
    case DType::kU64:
      return load_as<std::uint64_t>(in, dtype, at);
    case DType::kI64:
      return static_cast<std::uint64_t>(load_as<std::int64_t>(in, dtype, at)) ^
             (std::uint64_t{1} << 63);
    case DType::kU32:
      return static_cast<std::uint64_t>(load_as<std::int64_t>(in, dtype, at));
    default:
      return static_cast<std::uint32_t>(load_as<std::int64_t>(in, dtype, at)) ^
             (std::uint32_t{1} << 31);
  }
}

__global__ void __launch_bounds__(kThreads)
    element_keys_kernel(SortLines args, const void* in, std::uint64_t* keys,
                        std::int64_t* numbers) {
  const std::int64_t number = thread_number();
  if (number >= args.lines.count * args.size) return;
  const std::int64_t line = number / args.size;
  const std::int64_t at =
      args.lines(static_cast<std::uint32_t>(line)).at[1] + (number - line * args.size) * args.step;
  const std::uint64_t key = key_at(in, args.dtype, at);
  numbers[number] = number;
  if (size_of(args.dtype) == 8) {
    keys[number] = args.descending ? ~key : key;
  } else {
    const std::uint64_t low = args.descending ? static_cast<std::uint32_t>(~key) : key;
    keys[number] = static_cast<std::uint64_t>(line) << kKeyBits | low;
  }
}

__global__ void __launch_bounds__(kThreads)
    line_keys_kernel(const std::int64_t* numbers, std::int64_t count, std::int64_t size,
                     std::uint64_t* keys) {
  const std::int64_t i = thread_number();
  if (i < count) keys[i] = static_cast<std::uint64_t>(numbers[i] / size);
}

template <typename Bits>
__device__ void take(const TakeArgs& args, std::int64_t line, std::int64_t place,
                     std::int64_t from) {
  const Offsets<3> at = args.lines(static_cast<std::uint32_t>(line));
  static_cast<Bits*>(args.values)[at.at[0] + place * args.value_step] =
      static_cast<const Bits*>(args.in)[at.at[2] + from * args.step];
  args.indices[at.at[1] + place * args.index_step] = from;
}

template <typename Bits>
__global__ void __launch_bounds__(kThreads)
    take_first_kernel(TakeArgs args, const std::int64_t* numbers) {
  const std::int64_t number = thread_number();
  if (number >= args.lines.count * args.wanted) return;
  const std::int64_t line = number / args.wanted;
  const std::int64_t place = number - line * args.wanted;
  take<Bits>(args, line, place, numbers[line * args.size + place] - line * args.size);
}

__device__ inline bool is_nan_at(const TakeArgs& args, std::int64_t at) {
  if (args.dtype == DType::kF64) {
    const double x = static_cast<const double*>(args.in)[at];
    return x != x;
  }
  const float x = load_as<float>(args.in, args.dtype, at);
  return x != x;
}

template <typename Bits>
__global__ void __launch_bounds__(kThreads)
    take_median_kernel(TakeArgs args, const std::int64_t* numbers, bool may_be_nan,
                       bool ignore_nan) {
  const std::int64_t line = thread_number();
  if (line >= args.lines.count) return;
  const std::int64_t* const sorted = numbers + line * args.size;
  // The first NaN: they are at the end.
  std::int64_t good = 0;
  std::int64_t end = args.size;
  const std::int64_t first = args.lines(static_cast<std::uint32_t>(line)).at[2];
  while (may_be_nan && good < end) {
    const std::int64_t middle = good + (end - good) / 2;
    const std::int64_t at = first + (sorted[middle] - line * args.size) * args.step;
    if (is_nan_at(args, at)) {
      end = middle;
    } else {
      good = middle + 1;
    }
  }
  if (!may_be_nan) good = args.size;
  std::int64_t place = good > 0 ? (good - 1) / 2 : 0;
  if (good < args.size && !ignore_nan) place = good;
  take<Bits>(args, line, 0, sorted[place] - line * args.size);
}

}  // namespace

cudaError_t sort_pairs(void* scratch, std::size_t& bytes, const std::uint64_t* keys,
                       std::uint64_t* sorted, const std::int64_t* numbers, std::int64_t* out,
                       std::int64_t count, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted, numbers, out, count, 0, bits,
                                         stream);
}

void element_keys_launch(const SortLines& args, const void* in, std::uint64_t* keys,
                         std::int64_t* numbers, cudaStream_t stream) {
  element_keys_kernel<<<blocks_for(args.lines.count * args.size), kThreads, 0, stream>>>(
      args, in, keys, numbers);
}

void line_keys_launch(const std::int64_t* numbers, std::int64_t count, std::int64_t size,
                      std::uint64_t* keys, cudaStream_t stream) {
  line_keys_kernel<<<blocks_for(count), kThreads, 0, stream>>>(numbers, count, size, keys);
}

void take_first_launch(const TakeArgs& args, const std::int64_t* numbers, cudaStream_t stream) {
  visit_width(size_of(args.dtype), [&]<typename Bits>() {
    take_first_kernel<Bits>
        <<<blocks_for(args.lines.count * args.wanted), kThreads, 0, stream>>>(args, numbers);
  });
}

void take_median_launch(const TakeArgs& args, const std::int64_t* numbers, bool ignore_nan,
                        cudaStream_t stream) {
  visit_width(size_of(args.dtype), [&]<typename Bits>() {
    take_median_kernel<Bits><<<blocks_for(args.lines.count), kThreads, 0, stream>>>(
        args, numbers, is_floating(args.dtype), ignore_nan);
  });
}

}  // namespace dl::kernels::cuda
