#include <algorithm>
#include <limits>

#include "core/kernels/cuda/common/device_types.h"
#include "core/kernels/cuda/loss/class_loss_kernels.h"

namespace dl::kernels::cuda {
namespace {

template <typename M>
__device__ M class_weight(const NllOperands& in, std::int64_t c) {
  return in.weight == nullptr ? M(1) : load_as<M>(in.weight, in.dtype, c);
}

__device__ inline std::int64_t first_class(const NllOperands& in, std::int64_t i) {
  return i / in.positions * in.classes * in.positions + i % in.positions;
}

// The losses of a block's targets, and their sums. A group of lanes has a target.
template <typename M>
__global__ void __launch_bounds__(kGroupThreads, kFewBlocks)
    nll_loss_kernel(NllOperands in, const void* x, void* out, double* partial,
                    dl::cuda::FaultPlace fault) {
  __shared__ M shared[kGroupThreads];
  __shared__ double shared_sums[kGroupThreads];
  const Lines lines = in.lines;
  const M share = static_cast<M>(in.args.smoothing);
  double losses = 0;
  double weights = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * lines.lines();
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * lines.lines(); base < in.count;
       base += stride) {
    const std::int64_t i = base + lines.line();
    const bool present = i < in.count;
    const std::int64_t own = present ? in.target[i] : in.args.ignore_index;
    const std::int64_t first = present ? first_class(in, i) : 0;
    const bool counts = own != in.args.ignore_index;
    M all = 0;
    if (in.args.smoothing != 0) {  // the same in all threads
      for (std::int64_t c = lines.lane(); counts && c < in.classes; c += lines.lanes) {
        all -= class_weight<M>(in, c) * load_as<M>(x, in.dtype, first + c * in.positions);
      }
      all = lines.combine(all, shared, Add());
    }
    if (lines.lane() != 0 || !present) continue;
    M loss = 0;
    if (counts && (own < 0 || own >= in.classes)) {
      dl::cuda::fault::report(fault, i, own, in.classes);
      loss = std::numeric_limits<M>::quiet_NaN();
      losses = static_cast<double>(loss);
    } else if (counts) {
      loss = -class_weight<M>(in, own) * load_as<M>(x, in.dtype, first + own * in.positions);
      if (in.args.smoothing != 0) {
        loss = (M(1) - share) * loss + share / static_cast<M>(in.classes) * all;
      }
      losses += static_cast<double>(loss);
      weights += static_cast<double>(class_weight<M>(in, own));
    }
    if (!in.args.reduced) store_as<M>(out, in.dtype, i, loss);
  }
  losses = Lines{}.combine(losses, shared_sums, Add());
  weights = Lines{}.combine(weights, shared_sums, Add());
  if (threadIdx.x != 0) return;
  partial[2 * blockIdx.x] = losses;
  partial[2 * blockIdx.x + 1] = weights;
}

// One block: the sums of all parts, in a fixed order, and the reduced loss.
template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    nll_sums_kernel(NllOperands in, const double* partial, int parts, void* out, double* sums) {
  __shared__ double shared[kGroupThreads];
  const int part = static_cast<int>(threadIdx.x);
  static_assert(kNllParts <= kGroupThreads);
  double losses = part < parts ? partial[2 * part] : 0;
  double weights = part < parts ? partial[2 * part + 1] : 0;
  losses = Lines{}.combine(losses, shared, Add());
  weights = Lines{}.combine(weights, shared, Add());
  if (threadIdx.x != 0) return;
  if (!in.args.first_part) {
    losses += sums[0];
    weights += sums[1];
  }
  sums[0] = losses;
  sums[1] = weights;
  if (in.args.reduced && in.args.last_part) {
    store_as<M>(out, in.dtype, 0, static_cast<M>(in.args.reduce(losses, weights)));
  }
}

template <typename M>
__global__ void __launch_bounds__(kGroupThreads)
    nll_gradient_kernel(NllOperands in, const void* grad, const double* sums, void* d) {
  const Lines lines = in.lines;
  const std::int64_t i = result_of_group(lines);
  if (i >= in.count) return;
  const std::int64_t own = in.target[i];
  const bool counts = own != in.args.ignore_index;
  const M share = static_cast<M>(in.args.smoothing);
  const M each_share = share / static_cast<M>(in.classes);
  const M common = static_cast<M>(in.args.mean ? 1 / sums[1] : 1.0);
  M g = 0;
  if (counts) {
    g = in.args.reduced ? load_as<M>(grad, in.dtype, 0) * common : load_as<M>(grad, in.dtype, i);
  }
  const std::int64_t first = first_class(in, i);
  for (std::int64_t c = lines.lane(); c < in.classes; c += lines.lanes) {
    M value = counts && share != M(0) ? -g * each_share * class_weight<M>(in, c) : M(0);
    if (counts && c == own) value -= g * (M(1) - share) * class_weight<M>(in, c);
    store_as<M>(d, in.dtype, first + c * in.positions, value);
  }
}

std::int64_t blocks_of(const NllOperands& in) {
  return (in.count + in.lines.lines() - 1) / in.lines.lines();
}

}  // namespace

void nll_loss_launch(const NllOperands& in, const void* log_probabilities, double* partial,
                     void* out, double* sums, dl::cuda::FaultPlace fault, cudaStream_t stream) {
  const int parts = static_cast<int>(std::min<std::int64_t>(kNllParts, blocks_of(in)));
  with_arithmetic(in.dtype, [&]<typename M>() {
    if (parts > 0) {
      nll_loss_kernel<M><<<static_cast<unsigned>(parts), kGroupThreads, 0, stream>>>(
          in, log_probabilities, out, partial, fault);
    }
    nll_sums_kernel<M><<<1, kGroupThreads, 0, stream>>>(in, partial, parts, out, sums);
  });
}

void nll_loss_gradient_launch(const NllOperands& in, const void* grad, const double* sums, void* d,
                              cudaStream_t stream) {
  with_arithmetic(in.dtype, [&]<typename M>() {
    nll_gradient_kernel<M>
        <<<static_cast<unsigned>(blocks_of(in)), kGroupThreads, 0, stream>>>(in, grad, sums, d);
  });
}

}  // namespace dl::kernels::cuda
