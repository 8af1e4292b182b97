// The loops behind the element-wise kernels: flat where all operands lie alike, strided otherwise.
#pragma once

#include <cstdint>

#include "core/device/parallel.h"
#include "core/kernels/strided_loop.h"
#include "core/tensor/tensor.h"

namespace dl::kernels::cpu {

inline constexpr std::int64_t kElementwiseGrain = 32 * 1024;  // elements worth a thread

// True where a walk over the memory in order meets the same element of both.
inline bool lie_alike(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.is_channels_last() && b.is_channels_last();
}

// run(in, in_step, out, out_step, length)
template <typename In, typename Out, typename Run>
void unary_loop(const Tensor& input, const Tensor& output, const Run& run) {
  const In* const in = input.data<In>();
  Out* const out = output.data<Out>();
  if (lie_alike(input, output)) {
    parallel_for(output.numel(), kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
      run(in + begin, 1, out + begin, 1, end - begin);
    });
    return;
  }
  const auto loop = make_loop<2>(
      output.sizes(),
      {output.strides(), broadcast_strides(input.sizes(), input.strides(), output.sizes())});
  parallel_for(loop.count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const auto& at, std::int64_t length) {
      run(in + at[1], loop.inner_stride(1), out + at[0], loop.inner_stride(0), length);
    });
  });
}

// run(a, a_step, b, b_step, out, out_step, length); a step of 0 is one value for all.
template <typename In, typename Out, typename Run>
void binary_loop(const Tensor& a, const Tensor& b, const Tensor& output, const Run& run) {
  const In* const left = a.data<In>();
  const In* const right = b.data<In>();
  Out* const out = output.data<Out>();
  const std::int64_t left_step = a.numel() == 1 ? 0 : 1;
  const std::int64_t right_step = b.numel() == 1 ? 0 : 1;
  if ((lie_alike(a, output) || (left_step == 0 && lie_alike(b, output))) &&
      (lie_alike(b, output) || right_step == 0)) {
    parallel_for(output.numel(), kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
      run(left + begin * left_step, left_step, right + begin * right_step, right_step, out + begin,
          1, end - begin);
    });
    return;
  }
  const Shape& shape = output.sizes();
  const auto loop =
      make_loop<3>(shape, {output.strides(), broadcast_strides(a.sizes(), a.strides(), shape),
                           broadcast_strides(b.sizes(), b.strides(), shape)});
  parallel_for(loop.count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const auto& at, std::int64_t length) {
      run(left + at[1], loop.inner_stride(1), right + at[2], loop.inner_stride(2), out + at[0],
          loop.inner_stride(0), length);
    });
  });
}

// One functor over a run of elements; its arguments are of type OpMath<In>.
template <typename F, typename In, typename Out>
void apply_unary(const F& f, const In* in, std::int64_t in_step, Out* out, std::int64_t out_step,
                 std::int64_t length) {
  using M = OpMath<In>;
  if (in_step == 1 && out_step == 1) {
    for (std::int64_t i = 0; i < length; ++i) out[i] = static_cast<Out>(f(static_cast<M>(in[i])));
  } else {
    for (std::int64_t i = 0; i < length; ++i) {
      out[i * out_step] = static_cast<Out>(f(static_cast<M>(in[i * in_step])));
    }
  }
}

template <typename F, typename In, typename Out>
void apply_binary(const F& f, const In* a, std::int64_t a_step, const In* b, std::int64_t b_step,
                  Out* out, std::int64_t out_step, std::int64_t length) {
  using M = OpMath<In>;
  if (a_step == 1 && b_step == 1 && out_step == 1) {
    for (std::int64_t i = 0; i < length; ++i) {
      out[i] = static_cast<Out>(f(static_cast<M>(a[i]), static_cast<M>(b[i])));
    }
  } else if (a_step == 1 && b_step == 0 && out_step == 1) {
    const M right = static_cast<M>(*b);
    for (std::int64_t i = 0; i < length; ++i) {
      out[i] = static_cast<Out>(f(static_cast<M>(a[i]), right));
    }
  } else {
    for (std::int64_t i = 0; i < length; ++i) {
      out[i * out_step] =
          static_cast<Out>(f(static_cast<M>(a[i * a_step]), static_cast<M>(b[i * b_step])));
    }
  }
}

}  // namespace dl::kernels::cpu
