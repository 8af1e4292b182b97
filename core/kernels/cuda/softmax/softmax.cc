#include "core/kernels/declared/softmax.h"

#include "core/kernels/cuda/common/row_packs.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/cuda/softmax/softmax_kernels.h"

namespace dl::kernels::cuda {
namespace {

SoftmaxArgs args_of(const Tensor& tensor, std::int64_t dim, bool logarithm) {
  const auto d = static_cast<std::size_t>(dim);
  SoftmaxArgs args{.dtype = tensor.dtype(), .logarithm = logarithm, .size = tensor.sizes()[d]};
  for (std::size_t i = d + 1; i < tensor.sizes().size(); ++i) args.step *= tensor.sizes()[i];
  args.lines_count = tensor.numel() / args.size;
  args.lines = lines_of_packs(args.dtype, args.size, args.step > 1);
  return args;
}

void forward(const Tensor& input, std::int64_t dim, const Tensor& out, bool logarithm) {
  if (input.numel() == 0) return;
  const Launch launch;
  softmax_launch(args_of(input, dim, logarithm), input.data_ptr(), out.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("softmax");
}

void backward(const Tensor& grad, const Tensor& output, std::int64_t dim, const Tensor& out,
              bool logarithm) {
  if (grad.numel() == 0) return;
  const Launch launch;
  softmax_backward_launch(args_of(output, dim, logarithm), grad.data_ptr(), output.data_ptr(),
                          out.data_ptr(), launch.stream());
  DL_CUDA_LAUNCHED("softmax_backward");
}

}  // namespace

void softmax(const Tensor& input, std::int64_t dim, const Tensor& out) {
  forward(input, dim, out, false);
}
void log_softmax(const Tensor& input, std::int64_t dim, const Tensor& out) {
  forward(input, dim, out, true);
}
void softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                      const Tensor& out) {
  backward(grad, output, dim, out, false);
}
void log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                          const Tensor& out) {
  backward(grad, output, dim, out, true);
}

}  // namespace dl::kernels::cuda
