// Kernels with planted faults (faults.cu), and some without, which the host device must not accuse.
#pragma once

#include <cuda_runtime_api.h>

namespace dl::host_device::faults {

// out[i] = i for 0 <= i < count, by blocks of 64 threads.
void number(float* out, int count, cudaStream_t stream);
// The same from -1 on.
void number_from_before(float* out, int count, cudaStream_t stream);
// out[i] = in[i] + in[i + 1] for 0 <= i < count: reads count + 1 elements.
void add_neighbours(const float* in, float* out, int count, cudaStream_t stream);
// out[i] = in[i] for 0 <= i < count / 4 * 4, by 16 bytes at once.
void copy_fours(const float* in, float* out, int count, cudaStream_t stream);
// out[i] += in[i].
void accumulate(const float* in, float* out, int count, cudaStream_t stream);
// The sum of `blocks` elements: each block adds one to *out, which is 0.
void sum_block_after_block(const float* in, float* out, int blocks, cudaStream_t stream);
// The same bits in each run: one block adds them in a fixed order.
void sum_in_order(const float* in, float* out, int blocks, cudaStream_t stream);
// *out = the sum of `count` elements, by the threads of one block or by one of them.
void total(const float* in, float* out, int count, bool shares, cudaStream_t stream);
// out[i] = max(i, 1) - 1 for i < 64, which goes through shared memory.
void shift(float* out, bool waits, cudaStream_t stream);
// *out = the sum of 64 shared elements, the second half of which is never written.
void sum_half_written(float* out, cudaStream_t stream);

}  // namespace dl::host_device::faults
