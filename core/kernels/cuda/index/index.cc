// CUDA's gathering, scattering and masking. An index out of range is reported as a fault (fault.h)
// and gives zeros.
#include "core/kernels/declared/index.h"

#include "core/kernels/cuda/index/index_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"

namespace dl::kernels::cuda {
namespace {

IndexArgs around(const Tensor& tensor, std::int64_t dim, const Tensor& index) {
  const auto at = static_cast<std::size_t>(dim);
  IndexArgs args{
      .size = tensor.sizes()[at], .index = index.data<std::int64_t>(), .count = index.numel()};
  for (std::size_t d = 0; d < at; ++d) args.outer *= tensor.sizes()[d];
  for (std::size_t d = at + 1; d < tensor.sizes().size(); ++d) args.inner *= tensor.sizes()[d];
  return args;
}

void check_floating(const Tensor& tensor, std::string_view op) {
  if (!is_floating(tensor.dtype())) refuse_dtype(op, tensor.dtype(), "a floating dtype");
}

}  // namespace

void index_select(const Tensor& input, std::int64_t dim, const Tensor& index, const Tensor& out) {
  if (out.numel() == 0) return;
  const Launch launch;
  index_select_launch(around(input, dim, index), size_of(input.dtype()), input.data_ptr(),
                      out.data_ptr(), launch.fault(), launch.stream());
  DL_CUDA_LAUNCHED("index_select");
}

void index_select_backward(const Tensor& grad, std::int64_t dim, const Tensor& index,
                           const Tensor& out) {
  check_floating(grad, "index_select");
  if (grad.numel() == 0) return;
  const Launch launch;
  index_add_launch(around(out, dim, index), grad.dtype(), grad.data_ptr(), out.data_ptr(),
                   launch.stream());
  DL_CUDA_LAUNCHED("index_select_backward");
}

void mask_scale(const Tensor& input, const Tensor& mask, double scale, const Tensor& out) {
  check_floating(input, "dropout");
  if (input.numel() == 0) return;
  const Launch launch;
  mask_scale_launch(input.dtype(), input.data_ptr(), mask.data<bool>(), scale, out.data_ptr(),
                    input.numel(), launch.stream());
  DL_CUDA_LAUNCHED("mask_scale");
}

}  // namespace dl::kernels::cuda
