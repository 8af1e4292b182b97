// CUDA's convolutions, by cuDNN on channels-last images. dlrun's own plain kernel computes f64,
// images without pixels, shapes for which cuDNN has no deterministic algorithm (the log says so),
// and all convolutions if backends::cudnn::enabled is false. f16 and bf16 are summed in f32; f32 in
// f32 or, with backends::cudnn::allow_tf32 (the default), in TF32. Bias and ReLU are one more pass
// over the result.
//
// The algorithm for each shape is cached: the one that cuDNN's heuristic prefers, or with
// backends::cudnn::benchmark the one that was fastest at the first call (unless that was in a
// capture). Only deterministic algorithms are used.
#include "core/kernels/declared/conv.h"

#include <cstdint>
#include <limits>

#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/conv/cudnn_conv.h"
#include "core/kernels/cuda/copy/copy_kernels.h"
#include "core/kernels/cuda/linear/bias_relu.h"
#include "core/kernels/cuda/reduce/reduce_kernels.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/cuda/runtime/real_runtime.h"
#include "core/kernels/element_width.h"

namespace dl::kernels::cuda {
namespace {

ConvShape shape_of(const Shape& x, const Shape& weight, const Shape& y, const Conv2dArgs& args) {
  const auto narrow = [&](std::int64_t value) {
    DL_CHECK(value <= std::numeric_limits<std::int32_t>::max(), kNotImplemented,
             "conv2d: a size of {} among {} and {}, CUDA's convolutions take at most {}", value,
             x.str(), weight.str(), std::numeric_limits<std::int32_t>::max());
    return static_cast<std::int32_t>(value);
  };
  return {.n = narrow(x[0]),
          .c_in = narrow(x[1]),
          .h = narrow(x[2]),
          .w = narrow(x[3]),
          .c_out = narrow(weight[0]),
          .kh = narrow(weight[2]),
          .kw = narrow(weight[3]),
          .out_h = narrow(y[2]),
          .out_w = narrow(y[3]),
          .stride_h = narrow(args.stride[0]),
          .stride_w = narrow(args.stride[1]),
          .pad_h = narrow(args.padding[0]),
          .pad_w = narrow(args.padding[1]),
          .dilation_h = narrow(args.dilation[0]),
          .dilation_w = narrow(args.dilation[1]),
          .groups = narrow(args.groups)};
}

// cuDNN does not support f64 in channels-last, nor images without pixels (whose padding can still
// give a result).
bool is_for_cudnn(const Tensor& x) {
  return x.dtype() != DType::kF64 && x.numel() != 0 &&
         dl::cuda::opener().math->cudnn_enabled.load(std::memory_order_relaxed);
}

// With one tap or one channel, both layouts of weights are the same.
bool has_cudnn_layout(const Tensor& weight) {
  const Shape& s = weight.sizes();
  return (s[1] == 1 || (s[2] == 1 && s[3] == 1)) && is_aligned(weight.data_ptr());
}

// Between the row-major [o][i][kh][kw] of `weight` and cuDNN's [o][kh][kw][i].
enum class Towards : std::uint8_t { kCudnn, kTensor };
void reorder(Towards towards, const Tensor& weight, void* cudnns, const Launch& launch) {
  const Shape& s = weight.sizes();
  const Strides ours{s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
  const Strides theirs{s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]};
  const bool out = towards == Towards::kCudnn;
  const auto loop = make_loop<2>(s, {out ? theirs : ours, out ? ours : theirs});
  const std::size_t width = size_of(weight.dtype());
  for_each_part(loop, [&](const OffsetMap<2>& map, const std::array<std::int64_t, 2>& first) {
    const auto step = static_cast<std::int64_t>(width);
    char* const to = static_cast<char*>(out ? cudnns : weight.data_ptr()) + first[0] * step;
    const char* const from =
        static_cast<const char*>(out ? weight.data_ptr() : cudnns) + first[1] * step;
    copy_strided(width, from, to, map, launch.stream());
  });
  DL_CUDA_LAUNCHED("reorder");
}

// The weights in cuDNN's layout, in temporary memory if their own layout differs.
class CudnnWeight {
 public:
  CudnnWeight(const Tensor& weight, const Launch& launch)
      : copy_(has_cudnn_layout(weight) ? 0 : weight.nbytes(), launch.stream()),
        data_(copy_.bytes() == 0 ? weight.data_ptr() : copy_.data()) {
    if (copy_.bytes() != 0) reorder(Towards::kCudnn, weight, copy_.data(), launch);
  }
  const void* data() const noexcept { return data_; }

 private:
  Workspace copy_;
  const void* data_;
};

// Aligned images for cuDNN. Its algorithms are chosen without regard to the operands' alignment,
// and a slice of a batch may begin at any address. Images that it writes are new, aligned memory.
class CudnnImages {
 public:
  CudnnImages(const Tensor& images, const Launch& launch)
      : copy_(is_aligned(images.data_ptr()) ? 0 : images.nbytes(), launch.stream()),
        data_(copy_.bytes() == 0 ? images.data_ptr() : copy_.data()) {
    if (copy_.bytes() == 0) return;
    DL_CUDA_CHECK(cudaMemcpyAsync(copy_.data(), images.data_ptr(), copy_.bytes(),
                                  cudaMemcpyDeviceToDevice, launch.stream()));
  }
  const void* data() const noexcept { return data_; }

 private:
  Workspace copy_;
  const void* data_;
};

}  // namespace

void conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dArgs& args,
            const Tensor& y) {
  if (y.numel() == 0) return;
  const Launch launch;
  const ConvShape shape = shape_of(x.sizes(), weight.sizes(), y.sizes(), args);
  const auto by_cudnn = [&] {
    const CudnnImages images(x, launch);
    const CudnnWeight wanted(weight, launch);
    return cudnn_conv(ConvDirection::kForward, shape, y.dtype(), images.data(), wanted.data(),
                      y.data_ptr(), launch);
  };
  if (!is_for_cudnn(x) || !by_cudnn()) {
    conv2d_direct_launch(y.dtype(), shape, x.data_ptr(), weight.data_ptr(), y.data_ptr(),
                         launch.stream());
  }
  bias_relu_launch(y.dtype(), y.data_ptr(), bias.defined() ? bias.data_ptr() : nullptr, args.relu,
                   y.numel() / shape.c_out, shape.c_out, launch.stream());
  DL_CUDA_LAUNCHED("conv2d");
}

void conv2d_backward_data(const Tensor& dy, const Tensor& weight, const Conv2dArgs& args,
                          const Tensor& dx) {
  if (dx.numel() == 0) return;
  const Launch launch;
  const ConvShape shape = shape_of(dx.sizes(), weight.sizes(), dy.sizes(), args);
  const auto by_cudnn = [&] {
    const CudnnImages images(dy, launch);
    const CudnnWeight wanted(weight, launch);
    return cudnn_conv(ConvDirection::kBackwardData, shape, dx.dtype(), images.data(), wanted.data(),
                      dx.data_ptr(), launch);
  };
  if (!is_for_cudnn(dx) || !by_cudnn()) {
    conv2d_direct_data_launch(dx.dtype(), shape, dy.data_ptr(), weight.data_ptr(), dx.data_ptr(),
                              launch.stream());
    DL_CUDA_LAUNCHED("conv2d_backward_data");
  }
}

void conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Conv2dArgs& args,
                            const Tensor& dweight, const Tensor& dbias) {
  const Launch launch;
  if (dbias.defined()) {
    sum_columns(dy.data_ptr(), dy.numel() / dbias.numel(), dbias.numel(), false, dbias);
  }
  if (dy.numel() == 0) {
    DL_CUDA_CHECK(cudaMemsetAsync(dweight.data_ptr(), 0, dweight.nbytes(), launch.stream()));
    return;
  }
  const ConvShape shape = shape_of(x.sizes(), dweight.sizes(), dy.sizes(), args);
  const auto by_cudnn = [&] {
    const CudnnImages images(x, launch);
    const CudnnImages gradient(dy, launch);
    const bool direct = has_cudnn_layout(dweight);
    const Workspace theirs(direct ? 0 : dweight.nbytes(), launch.stream());
    const bool done =
        cudnn_conv(ConvDirection::kBackwardWeight, shape, dweight.dtype(), images.data(),
                   gradient.data(), direct ? dweight.data_ptr() : theirs.data(), launch);
    if (done && !direct) reorder(Towards::kTensor, dweight, theirs.data(), launch);
    return done;
  };
  if (!is_for_cudnn(x) || !by_cudnn()) {
    conv2d_direct_weight_launch(dweight.dtype(), shape, x.data_ptr(), dy.data_ptr(),
                                dweight.data_ptr(), launch.stream());
    DL_CUDA_LAUNCHED("conv2d_backward_weight");
  }
}

}  // namespace dl::kernels::cuda
