#include "core/kernels/cuda/linear/bias_relu.h"

#include "core/args/linear_args.h"
#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/element_width.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cuda {
namespace {

template <typename T>
__device__ T biased(T element, const T* bias, std::int64_t column, bool relu) {
  Wide<T> value = wide(element);
  if (bias != nullptr) value += wide(bias[column]);
  return narrow<T>(relu ? formulas::Relu::value(value) : value);
}

// Each thread computes one pack of a row; kCount divides the number of columns.
template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads)
    kernel(T* y, const T* bias, bool relu, std::int64_t packs, std::int64_t columns) {
  const std::int64_t pack = thread_number();
  if (pack >= packs) return;
  const std::int64_t first = pack * kCount;
  auto& place = *reinterpret_cast<Pack<T, kCount>*>(y + first);
  auto values = place;
  const std::int64_t column = first % columns;
  for (int i = 0; i < kCount; ++i) {
    values.at[i] = biased(values.at[i], bias, column + i, relu);
  }
  place = values;
}

template <typename T>
void launch(void* y, const void* bias, bool relu, std::int64_t rows, std::int64_t columns,
            cudaStream_t stream) {
  constexpr int kCount = kPackOf<T>;
  const auto* const from = static_cast<const T*>(bias);
  auto* const to = static_cast<T*>(y);
  const std::int64_t all = rows * columns;
  if (columns % kCount == 0 && is_aligned(y)) {
    kernel<T, kCount>
        <<<blocks_for(all / kCount), kThreads, 0, stream>>>(to, from, relu, all / kCount, columns);
  } else {
    kernel<T, 1><<<blocks_for(all), kThreads, 0, stream>>>(to, from, relu, all, columns);
  }
}

// Each thread writes one byte of the mask. kCount divides 8, and also the columns unless it is 1.
template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads)
    mask_kernel(T* y, const T* bias, std::uint8_t* mask, std::int64_t rows, std::int64_t columns) {
  const std::int64_t bytes = (columns + 7) / 8;
  const std::int64_t row = thread_number() / bytes;
  if (row >= rows) return;
  const std::int64_t byte = thread_number() % bytes;
  const std::int64_t end = columns < 8 * byte + 8 ? columns : 8 * byte + 8;
  unsigned bits = 0;
  for (std::int64_t column = 8 * byte; column < end; column += kCount) {
    auto& place = *reinterpret_cast<Pack<T, kCount>*>(y + row * columns + column);
    auto values = place;
    for (int i = 0; i < kCount; ++i) {
      values.at[i] = biased(values.at[i], bias, column + i, true);
      const Wide<T> slope = formulas::Relu::gradient(Wide<T>(1), wide(values.at[i]));
      bits |= (slope != 0 ? 1U : 0U) << (column + i - 8 * byte);
    }
    place = values;
  }
  mask[row * relu_mask_row_bytes(columns) + byte] = static_cast<std::uint8_t>(bits);
}

template <typename T>
void launch_mask(void* y, const void* bias, void* mask, std::int64_t rows, std::int64_t columns,
                 cudaStream_t stream) {
  const auto* const from = static_cast<const T*>(bias);
  auto* const to = static_cast<T*>(y);
  auto* const bits = static_cast<std::uint8_t*>(mask);
  const unsigned blocks = blocks_for(rows * ((columns + 7) / 8));
  if (columns % 8 == 0 && is_aligned(y)) {
    mask_kernel<T, kPackOf<T>><<<blocks, kThreads, 0, stream>>>(to, from, bits, rows, columns);
  } else {
    mask_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(to, from, bits, rows, columns);
  }
}

}  // namespace

void bias_relu_mask_launch(DType dtype, void* y, const void* bias, void* mask, std::int64_t rows,
                           std::int64_t columns, cudaStream_t stream) {
  if (rows * columns == 0) return;
  switch (dtype) {
    case DType::kF16:
      return launch_mask<Half>(y, bias, mask, rows, columns, stream);
    case DType::kBF16:
      return launch_mask<BFloat16>(y, bias, mask, rows, columns, stream);
    default:
      return launch_mask<float>(y, bias, mask, rows, columns, stream);
  }
}

void bias_relu_launch(DType dtype, void* y, const void* bias, bool relu, std::int64_t rows,
                      std::int64_t columns, cudaStream_t stream) {
  if (rows * columns == 0 || (bias == nullptr && !relu)) return;
  switch (dtype) {
    case DType::kF16:
      return launch<Half>(y, bias, relu, rows, columns, stream);
    case DType::kBF16:
      return launch<BFloat16>(y, bias, relu, rows, columns, stream);
    case DType::kF64:
      return launch<double>(y, bias, relu, rows, columns, stream);
    default:
      return launch<float>(y, bias, relu, rows, columns, stream);
  }
}

}  // namespace dl::kernels::cuda
