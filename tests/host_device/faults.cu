#include "tests/host_device/faults.h"

namespace dl::host_device::faults {
namespace {

constexpr int kThreads = 64;

int blocks_for(int threads) {
  return (threads + kThreads - 1) / kThreads;
}
__device__ int thread_number() {
  return static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
}

__global__ void number_kernel(float* out, int first, int end) {
  const int i = first + thread_number();
  if (i < end) out[i] = static_cast<float>(i);
}

__global__ void neighbours_kernel(const float* in, float* out, int count) {
  const int i = thread_number();
  if (i < count) out[i] = in[i] + in[i + 1];
}

__global__ void accumulate_kernel(const float* in, float* out, int count) {
  const int i = thread_number();
  if (i < count) out[i] += in[i];
}

__global__ void block_sum_kernel(const float* in, float* out) {
  *out += in[blockIdx.x];
}

__global__ void ordered_sum_kernel(const float* in, float* out, int count) {
  if (blockIdx.x != 0) return;
  for (int i = 0; i < count; ++i) *out += in[i];
}

template <bool kWaits>
__global__ void shift_kernel(float* out) {
  __shared__ float numbers[kThreads];
  const auto i = static_cast<int>(threadIdx.x);
  numbers[i] = static_cast<float>(i);
  if (kWaits) __syncthreads();
  out[i] = numbers[i == 0 ? 0 : i - 1];
}

__global__ void half_kernel(float* out) {
  __shared__ float numbers[2][kThreads / 2];
  const auto i = static_cast<int>(threadIdx.x);
  if (i < kThreads / 2) numbers[0][i] = 1;
  __syncthreads();
  if (i != 0) return;
  float sum = 0;
  for (int k = 0; k < kThreads; ++k) sum += numbers[k / (kThreads / 2)][k % (kThreads / 2)];
  *out = sum;
}

template <bool kShares>
__global__ void total_kernel(const float* in, float* out, int count) {
  __shared__ float sums[kThreads];
  const auto thread = static_cast<int>(threadIdx.x);
  sums[thread] = 0;
  if (kShares || thread == 0) {
    for (int i = thread; i < count; i += kShares ? kThreads : 1) sums[thread] += in[i];
  }
  __syncthreads();
  if (thread != 0) return;
  *out = 0;
  for (const float sum : sums) *out += sum;
}

struct alignas(4 * sizeof(float)) Four {
  float at[4];
};
__global__ void fours_kernel(const float* in, float* out, int count) {
  const int first = 4 * thread_number();
  if (first + 4 > count) return;
  *reinterpret_cast<Four*>(out + first) = *reinterpret_cast<const Four*>(in + first);
}

}  // namespace

void number(float* out, int count, cudaStream_t stream) {
  number_kernel<<<blocks_for(count), kThreads, 0, stream>>>(out, 0, count);
}

void number_from_before(float* out, int count, cudaStream_t stream) {
  number_kernel<<<blocks_for(count + 1), kThreads, 0, stream>>>(out, -1, count);
}

void add_neighbours(const float* in, float* out, int count, cudaStream_t stream) {
  neighbours_kernel<<<blocks_for(count), kThreads, 0, stream>>>(in, out, count);
}

void total(const float* in, float* out, int count, bool shares, cudaStream_t stream) {
  if (shares) {
    total_kernel<true><<<1, kThreads, 0, stream>>>(in, out, count);
  } else {
    total_kernel<false><<<1, kThreads, 0, stream>>>(in, out, count);
  }
}

void copy_fours(const float* in, float* out, int count, cudaStream_t stream) {
  fours_kernel<<<blocks_for(count / 4), kThreads, 0, stream>>>(in, out, count);
}

void accumulate(const float* in, float* out, int count, cudaStream_t stream) {
  accumulate_kernel<<<blocks_for(count), kThreads, 0, stream>>>(in, out, count);
}

void sum_block_after_block(const float* in, float* out, int blocks, cudaStream_t stream) {
  block_sum_kernel<<<blocks, 1, 0, stream>>>(in, out);
}

void sum_in_order(const float* in, float* out, int blocks, cudaStream_t stream) {
  ordered_sum_kernel<<<blocks, 1, 0, stream>>>(in, out, blocks);
}

void shift(float* out, bool waits, cudaStream_t stream) {
  if (waits) {
    shift_kernel<true><<<1, kThreads, 0, stream>>>(out);
  } else {
    shift_kernel<false><<<1, kThreads, 0, stream>>>(out);
  }
}

void sum_half_written(float* out, cudaStream_t stream) {
  half_kernel<<<1, kThreads, 0, stream>>>(out);
}

}  // namespace dl::host_device::faults
