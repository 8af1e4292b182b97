#include "core/kernels/cuda/common/line_group.h"
#include "core/kernels/cuda/index/nonzero_kernels.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::int64_t kOfThread = 16;
constexpr std::int64_t kOfBlock = kOfThread * kGroupThreads;

// The elements of a thread, which are neighbours.
struct Span {
  std::int64_t begin, end;
};
__device__ inline Span span_of(const NonzeroArgs& args) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kOfBlock + threadIdx.x * kOfThread;
  const std::int64_t end = begin + kOfThread;
  return {begin, end < args.count ? end : args.count};
}
__device__ inline int true_in(const NonzeroArgs& args, const Span& span) {
  int count = 0;
  for (std::int64_t i = span.begin; i < span.end; ++i) count += args.mask[i] ? 1 : 0;
  return count;
}

__global__ void __launch_bounds__(kGroupThreads)
    count_true_kernel(NonzeroArgs args, std::int64_t* counts) {
  __shared__ int shared[kGroupThreads];
  const int count =
      Lines{}.combine(true_in(args, span_of(args)), shared, [](int a, int b) { return a + b; });
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

__global__ void __launch_bounds__(kGroupThreads)
    nonzero_kernel(NonzeroArgs args, const std::int64_t* totals, std::int64_t* out) {
  __shared__ int shared[kGroupThreads];
  const Span span = span_of(args);
  const int own = true_in(args, span);
  const int total = sum_up_to_this_thread(own, shared);
  std::int64_t place = (blockIdx.x == 0 ? 0 : totals[blockIdx.x - 1]) + total - own;
  for (std::int64_t i = span.begin; i < span.end; ++i) {
    if (!args.mask[i]) continue;
    std::int64_t rest = i;
    for (int d = args.dims; d-- > 0;) {
      const std::int64_t outer = rest / args.sizes[d];
      out[place * args.dims + d] = rest - outer * args.sizes[d];
      rest = outer;
    }
    ++place;
  }
}

}  // namespace

unsigned nonzero_blocks(std::int64_t count) {
  return static_cast<unsigned>((count + kOfBlock - 1) / kOfBlock);
}

void count_true_launch(const NonzeroArgs& args, std::int64_t* counts, cudaStream_t stream) {
  count_true_kernel<<<nonzero_blocks(args.count), kGroupThreads, 0, stream>>>(args, counts);
}

void nonzero_launch(const NonzeroArgs& args, const std::int64_t* totals, std::int64_t* out,
                    cudaStream_t stream) {
  nonzero_kernel<<<nonzero_blocks(args.count), kGroupThreads, 0, stream>>>(args, totals, out);
}

}  // namespace dl::kernels::cuda
