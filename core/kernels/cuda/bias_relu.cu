#include "core/kernels/cuda/bias_relu.h"

#include "core/kernels/cuda/device_types.h"
#include "core/kernels/functors.h"

namespace dl::kernels::cuda {
namespace {

// One pack of a row a thread; kCount divides the columns.
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
    Wide<T> value = wide(values.at[i]);
    if (bias != nullptr) value += wide(bias[column + i]);
    values.at[i] = narrow<T>(relu ? Relu()(value) : value);
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
  if (columns % kCount == 0 && reinterpret_cast<std::uintptr_t>(y) % 16 == 0) {
    kernel<T, kCount>
        <<<blocks_for(all / kCount), kThreads, 0, stream>>>(to, from, relu, all / kCount, columns);
  } else {
    kernel<T, 1><<<blocks_for(all), kThreads, 0, stream>>>(to, from, relu, all, columns);
  }
}

}  // namespace

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
