#include <algorithm>

#include "core/args/axis_taps.h"
#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/pool/taps_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/declared/pool.h"

namespace dl::kernels::cuda {
namespace {

// One launch for as many outputs as a part holds, or for as many taps of one output.
void along_axis(const AxisTaps& taps, const TapsArgs& args, const Launch& launch) {
  for (std::int64_t o = 0; o < taps.outputs();) {
    const auto begin_of = [&](std::int64_t output) {
      return taps.first[static_cast<std::size_t>(output)];
    };
    const std::int64_t begin = begin_of(o);
    std::int64_t end = o;
    while (end < taps.outputs() && end - o < TapsPart::kOutputs &&
           begin_of(end + 1) - begin <= TapsPart::kTaps) {
      ++end;
    }
    const std::int64_t outputs = std::max<std::int64_t>(1, end - o);
    const std::int64_t last = begin_of(o + outputs);
    std::int64_t k = begin;
    do {
      TapsPart part{.first_output = static_cast<std::uint32_t>(o),
                    .outputs = static_cast<std::uint32_t>(outputs),
                    .accumulate = k > begin};
      const std::int64_t count = std::min<std::int64_t>(last - k, TapsPart::kTaps);
      for (std::int64_t i = 0; i <= outputs; ++i) {
        part.first[i] =
            static_cast<std::uint16_t>(std::clamp<std::int64_t>(begin_of(o + i) - k, 0, count));
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const auto tap = static_cast<std::size_t>(k + i);
        part.index[i] = static_cast<std::uint32_t>(taps.index[tap]);
        part.weight[i] = taps.weight[tap];
      }
      taps_launch(args, part, launch.stream());
      k += count;
    } while (k < last);
    o += outputs;
  }
  DL_CUDA_LAUNCHED("taps2d");
}

}  // namespace

// First along the rows, whose sums keep the compute type, then along the columns.
void taps2d(const Taps2d& taps, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  const std::int64_t images = x.size(0);
  const std::int64_t channels = x.size(1);
  const std::int64_t between = images * taps.rows.outputs() * taps.columns.inputs * channels;
  DL_CHECK(std::max({x.numel(), between, y.numel()}) <= kMostElements, kNotImplemented,
           "{}: an image of {} elements, CUDA takes at most {}", taps.op,
           std::max({x.numel(), between, y.numel()}), kMostElements);
  const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const DType wide = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Launch launch;
  const Workspace sums(static_cast<std::size_t>(between) * size_of(wide), launch.stream());
  if (between > 0) {
    along_axis(taps.rows,
               {.x = x.data_ptr(),
                .x_dtype = x.dtype(),
                .y = sums.data(),
                .y_dtype = wide,
                .outer = narrow(images),
                .inputs = narrow(taps.rows.inputs),
                .outputs = narrow(taps.rows.outputs()),
                .by_inner = FastDivisor(narrow(taps.columns.inputs * channels))},
               launch);
  }
  along_axis(taps.columns,
             {.x = sums.data(),
              .x_dtype = wide,
              .y = y.data_ptr(),
              .y_dtype = y.dtype(),
              .outer = narrow(images * taps.rows.outputs()),
              .inputs = narrow(taps.columns.inputs),
              .outputs = narrow(taps.columns.outputs()),
              .by_inner = FastDivisor(narrow(channels))},
             launch);
}

}  // namespace dl::kernels::cuda
