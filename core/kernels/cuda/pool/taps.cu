#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/pool/taps_kernels.h"

namespace dl::kernels::cuda {
namespace {

template <typename M>
__global__ void __launch_bounds__(kThreads)
    taps_kernel(TapsArgs args, TapsPart part, FastDivisor by_outputs, std::uint32_t count) {
  const std::int64_t number = thread_number();
  if (number >= count) return;
  const std::uint32_t inner = args.by_inner.divisor();
  const std::uint32_t line = args.by_inner.divide(static_cast<std::uint32_t>(number));
  const std::uint32_t i = static_cast<std::uint32_t>(number) - line * inner;
  const std::uint32_t outer = by_outputs.divide(line);
  const std::uint32_t output = line - outer * part.outputs;
  const std::int64_t from = std::int64_t{outer} * args.inputs * inner + i;
  const std::int64_t to =
      (std::int64_t{outer} * args.outputs + part.first_output + output) * inner + i;
  M sum = part.accumulate ? load_as<M>(args.y, args.y_dtype, to) : M(0);
  for (int k = part.first[output]; k < part.first[output + 1]; ++k) {
    const std::int64_t at = from + std::int64_t{part.index[k]} * inner;
    sum += static_cast<M>(part.weight[k]) * load_as<M>(args.x, args.x_dtype, at);
  }
  store_as<M>(args.y, args.y_dtype, to, sum);
}

}  // namespace

void taps_launch(const TapsArgs& args, const TapsPart& part, cudaStream_t stream) {
  const std::uint32_t count = args.outer * part.outputs * args.by_inner.divisor();
  with_arithmetic(args.x_dtype, [&]<typename M>() {
    taps_kernel<M>
        <<<blocks_for(count), kThreads, 0, stream>>>(args, part, FastDivisor(part.outputs), count);
  });
}

}  // namespace dl::kernels::cuda
