#include <algorithm>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/loss/pair_loss_kernels.h"
#include "core/kernels/formulas/scalars.h"

namespace dl::kernels::cuda {
namespace {

template <typename M>
__device__ M operand(const PairLossOperands& in, const void* data, std::int64_t i) {
  return data == nullptr ? M(1) : load_as<M>(data, in.dtype, i);
}

template <typename M>
__device__ formulas::LossElement<M> loss_element(const PairLossOperands& in, std::int64_t i) {
  return {load_as<M>(in.input, in.dtype, i), load_as<M>(in.target, in.dtype, i),
          operand<M>(in, in.pos_weight, i), static_cast<M>(in.a)};
}

// Calls f.operator()<Formula>(): all threads take the same branch.
template <typename M, typename F>
__device__ M with_loss(PairLoss fn, const F& f) {
  switch (fn) {
#define DL_PAIR_LOSS(enumerator, name, Formula, ...) \
  case PairLoss::enumerator:                         \
    return f.template operator()<formulas::Formula>();
#include "core/elementwise/losses.def"
  }
  return M(0);
}

template <typename M>
__device__ M loss_at(const PairLossOperands& in, std::int64_t i,
                     const dl::cuda::FaultPlace& fault) {
  const formulas::LossElement<M> e = loss_element<M>(in, i);
  if (in.fn == PairLoss::kBce) {
    const bool is_input = !(e.x >= M(0) && e.x <= M(1));
    if (is_input || !(e.t >= M(0) && e.t <= M(1))) {
      dl::cuda::fault::report_probability(fault, i, static_cast<double>(is_input ? e.x : e.t));
    }
  }
  const M value = with_loss<M>(in.fn, [&]<typename F>() { return F::value(e); });
  return value * operand<M>(in, in.weight, i);
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    pair_loss_kernel(PairLossOperands in, void* out, dl::cuda::FaultPlace fault) {
  const std::int64_t i = thread_number();
  if (i < in.count) store_as<M>(out, in.dtype, i, loss_at<M>(in, i, fault));
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    pair_loss_sum_kernel(PairLossOperands in, double* partial, dl::cuda::FaultPlace fault) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kGroupThreads + threadIdx.x;
       i < in.count; i += static_cast<std::int64_t>(gridDim.x) * kGroupThreads) {
    total += static_cast<double>(loss_at<M>(in, i, fault));
  }
  total = Lines{}.combine(total, shared, Add());
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    pair_loss_parts_kernel(DType dtype, const double* partial, int parts, double divisor,
                           void* out) {
  __shared__ double shared[kGroupThreads];
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += kGroupThreads) {
    total += partial[i];
  }
  total = Lines{}.combine(total, shared, Add());
  if (threadIdx.x == 0) store_as<M>(out, dtype, 0, static_cast<M>(total / divisor));
}

template <typename M>
__global__ void __launch_bounds__(kThreads)
    pair_loss_gradient_kernel(PairLossOperands in, const void* grad, bool reduced, double divisor,
                              bool of_target, void* d) {
  const std::int64_t i = thread_number();
  if (i >= in.count) return;
  const formulas::LossElement<M> e = loss_element<M>(in, i);
  const M slope = with_loss<M>(
      in.fn, [&]<typename F>() { return of_target ? F::target_slope(e) : F::slope(e); });
  const M g = load_as<M>(grad, in.dtype, reduced ? 0 : i);
  const M scale = reduced ? static_cast<M>(static_cast<double>(g) / divisor) : g;
  store_as<M>(d, in.dtype, i, scale * operand<M>(in, in.weight, i) * slope);
}

}  // namespace

void pair_loss_launch(const PairLossOperands& in, void* out, dl::cuda::FaultPlace fault,
                      cudaStream_t stream) {
  with_arithmetic(in.dtype, [&]<typename M>() {
    pair_loss_kernel<M><<<blocks_for(in.count), kThreads, 0, stream>>>(in, out, fault);
  });
}

void pair_loss_sum_launch(const PairLossOperands& in, double divisor, double* partial, void* out,
                          dl::cuda::FaultPlace fault, cudaStream_t stream) {
  const auto parts =
      static_cast<int>(std::clamp<std::int64_t>(in.count / (4 * kGroupThreads), 1, kLossParts));
  with_arithmetic(in.dtype, [&]<typename M>() {
    pair_loss_sum_kernel<M><<<parts, kGroupThreads, 0, stream>>>(in, partial, fault);
    pair_loss_parts_kernel<M>
        <<<1, kGroupThreads, 0, stream>>>(in.dtype, partial, parts, divisor, out);
  });
}

void pair_loss_gradient_launch(const PairLossOperands& in, const void* grad, bool reduced,
                               double divisor, bool of_target, void* d, cudaStream_t stream) {
  with_arithmetic(in.dtype, [&]<typename M>() {
    pair_loss_gradient_kernel<M>
        <<<blocks_for(in.count), kThreads, 0, stream>>>(in, grad, reduced, divisor, of_target, d);
  });
}

}  // namespace dl::kernels::cuda
