// Rows of op_list.def that have no CUDA kernel: they refuse by name.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/base/error.h"
#include "core/kernels/cpu/all.h"

namespace dl::kernels::cuda {
namespace detail {

template <std::size_t kSize>
struct Name {
  constexpr Name(const char (&text)[kSize]) {  // NOLINT(google-explicit-constructor)
    std::copy_n(text, kSize, characters);
  }
  char characters[kSize];
};

template <Name name, typename Kernel>
struct Missing;
template <Name name, typename R, typename... Args>
struct Missing<name, R (*)(Args...)> {
  static R call(Args...) {
    throw_error(ErrorKind::kNotImplemented,
                "{}: there is no CUDA kernel; move the tensors to the cpu", name.characters);
  }
};

}  // namespace detail

#define DL_CUDA_MISSING(kernel) \
  inline constexpr auto kernel = &detail::Missing<#kernel, decltype(&cpu::kernel)>::call;

DL_CUDA_MISSING(copy)
DL_CUDA_MISSING(fill)
DL_CUDA_MISSING(add)
DL_CUDA_MISSING(sub)
DL_CUDA_MISSING(mul)
DL_CUDA_MISSING(div)
DL_CUDA_MISSING(minimum)
DL_CUDA_MISSING(maximum)
DL_CUDA_MISSING(eq)
DL_CUDA_MISSING(ne)
DL_CUDA_MISSING(lt)
DL_CUDA_MISSING(le)
DL_CUDA_MISSING(neg)
DL_CUDA_MISSING(exp)
DL_CUDA_MISSING(log)
DL_CUDA_MISSING(sqrt)
DL_CUDA_MISSING(tanh)
DL_CUDA_MISSING(tanh_backward)
DL_CUDA_MISSING(sigmoid)
DL_CUDA_MISSING(sigmoid_backward)
DL_CUDA_MISSING(pow)
DL_CUDA_MISSING(relu)
DL_CUDA_MISSING(relu_backward)
DL_CUDA_MISSING(conv2d)
DL_CUDA_MISSING(conv2d_backward_data)
DL_CUDA_MISSING(conv2d_backward_weight)
DL_CUDA_MISSING(max_pool2d)
DL_CUDA_MISSING(max_pool2d_backward)
DL_CUDA_MISSING(matmul)
DL_CUDA_MISSING(linear)
DL_CUDA_MISSING(linear_backward_bias)
DL_CUDA_MISSING(cross_entropy)
DL_CUDA_MISSING(cross_entropy_backward)
DL_CUDA_MISSING(mse_loss)
DL_CUDA_MISSING(mse_loss_backward)
DL_CUDA_MISSING(sum)
DL_CUDA_MISSING(max)
DL_CUDA_MISSING(max_backward)
DL_CUDA_MISSING(softmax)
DL_CUDA_MISSING(softmax_backward)
DL_CUDA_MISSING(log_softmax)
DL_CUDA_MISSING(log_softmax_backward)
DL_CUDA_MISSING(index_select)
DL_CUDA_MISSING(index_select_backward)
DL_CUDA_MISSING(mask_scale)
DL_CUDA_MISSING(philox_uniform)
DL_CUDA_MISSING(philox_normal)
DL_CUDA_MISSING(philox_dropout)
DL_CUDA_MISSING(amp_unscale)
DL_CUDA_MISSING(amp_update_scale)
DL_CUDA_MISSING(sgd_step)
DL_CUDA_MISSING(adam_step)

#undef DL_CUDA_MISSING

}  // namespace dl::kernels::cuda
