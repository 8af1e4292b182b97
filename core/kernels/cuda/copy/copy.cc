#include "core/kernels/declared/elementwise.h"

#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/copy/copy_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {

void copy(const Tensor& source, const Tensor& destination) {
  if (destination.numel() == 0) return;
  const Launch launch;
  const DType from = source.dtype();
  const DType to = destination.dtype();
  const bool alike = same_layout(source, destination);
  if (alike && from == to) {
    if (source.data_ptr() == destination.data_ptr()) return;
    DL_CUDA_CHECK(cudaMemcpyAsync(destination.data_ptr(), source.data_ptr(), destination.nbytes(),
                                  cudaMemcpyDeviceToDevice, launch.stream()));
    return;
  }
  if (alike && convert_flat(source.data_ptr(), from, destination.data_ptr(), to,
                            destination.numel(), launch.stream())) {
    DL_CUDA_LAUNCHED("convert_flat");
    return;
  }
  const Shape& shape = destination.sizes();
  const auto loop = make_loop<2>(shape, {destination.strides(), strides_in(source, shape)});
  for_each_part(loop, [&](const OffsetMap<2>& map, const std::array<std::int64_t, 2>& first) {
    const auto width_of = [](DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); };
    char* const out = static_cast<char*>(destination.data_ptr()) + first[0] * width_of(to);
    const char* const in = static_cast<const char*>(source.data_ptr()) + first[1] * width_of(from);
    if (from == to) {
      copy_strided(size_of(from), in, out, map, launch.stream());
    } else {
      convert_strided(in, from, out, to, map, launch.stream());
    }
  });
  DL_CUDA_LAUNCHED("copy");
}

void fill(const Tensor& destination, Scalar value) {
  if (destination.numel() == 0) return;
  const Launch launch;
  const std::uint64_t element = element_bits(value, destination.dtype());
  const bool dense = destination.is_contiguous() || destination.is_channels_last();
  if (dense && element == 0) {
    DL_CUDA_CHECK(
        cudaMemsetAsync(destination.data_ptr(), 0, destination.nbytes(), launch.stream()));
    return;
  }
  const std::size_t width = size_of(destination.dtype());
  const auto loop = make_loop<1>(destination.sizes(), {destination.strides()});
  for_each_part(loop, [&](const OffsetMap<1>& map, const std::array<std::int64_t, 1>& first) {
    fill_strided(
        width, element,
        static_cast<char*>(destination.data_ptr()) + first[0] * static_cast<std::int64_t>(width),
        map, launch.stream());
  });
  DL_CUDA_LAUNCHED("fill");
}

}  // namespace dl::kernels::cuda
