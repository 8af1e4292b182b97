// Read before every .cu file that is compiled for the host device: what the CUDA compiler knows of
// itself. A launch `kernel<<<blocks, threads, 0, stream>>>(arguments)` has become
// `kernel % dl::host_device::config(blocks, threads, 0, stream)(arguments)` by then, and behind
// each shared variable stands begin_shared().
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <tuple>
#include <utility>

#include "tests/host_device/stream.h"

namespace dl::host_device {

// The position of the calling thread in a kernel.
struct Position {
  dim3 thread;
  dim3 block;
  dim3 grid;
  dim3 threads;
};
extern thread_local Position position;

void wait_for_block();
// Runs `thread` for every thread of every block. The blocks come one after another in a random
// order. So do the threads of a block, up to the barrier, and in another order behind each: a
// kernel that lacks a needed barrier reads values that are not written yet, and one that depends on
// the order of its blocks gives other values. DLRUN_TEST_ORDER seeds all orders (1).
void run_grid(dim3 grid, dim3 threads, const std::function<void()>& thread,
              const std::source_location& launch = std::source_location::current());
// Fills a block's shared variable when its first thread comes to it, so that it reads as NaN.
void begin_shared(void* variable, std::size_t bytes);
void fill_with_pattern(void* data, std::size_t bytes);
// What a launch may ask for; the error that the device would answer with.
cudaError_t check_launch(dim3 grid, dim3 threads, std::size_t shared_bytes);
void remember(cudaError_t error);

template <typename... Arguments>
struct Launch {
  dim3 grid;
  dim3 threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
  std::source_location where;
  std::tuple<Arguments...> arguments;
};

struct Config {
  dim3 grid;
  dim3 threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
  std::source_location where;

  template <typename... Arguments>
  Launch<Arguments...> operator()(const Arguments&... arguments) const {
    return {grid, threads, shared_bytes, stream, where, {arguments...}};
  }
};

inline Config config(dim3 grid, dim3 threads, std::size_t shared_bytes, cudaStream_t stream,
                     std::source_location where = std::source_location::current()) {
  return {grid, threads, shared_bytes, stream, where};
}

template <typename... Parameters, typename... Arguments>
void operator%(void (*kernel)(Parameters...), const Launch<Arguments...>& launch) {
  cudaError_t status = check_launch(launch.grid, launch.threads, launch.shared_bytes);
  if (status == cudaSuccess) {
    std::tuple<Parameters...> values = launch.arguments;
    status = enqueue(launch.stream, [kernel, grid = launch.grid, threads = launch.threads,
                                     where = launch.where, values = std::move(values)] {
      run_grid(grid, threads, [&] { std::apply(kernel, values); }, where);
    });
  }
  remember(status);
}

}  // namespace dl::host_device

// The CUDA compiler's headers have one for kernels as well.
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}

using std::isfinite;
using std::min;

#define __CUDACC__ 1
#define __launch_bounds__(...)
#define __noinline__
#undef __shared__
#define __shared__ static thread_local
#define threadIdx (dl::host_device::position.thread)
#define blockIdx (dl::host_device::position.block)
#define blockDim (dl::host_device::position.threads)
#define gridDim (dl::host_device::position.grid)

inline void __syncthreads() {
  dl::host_device::wait_for_block();
}
inline void __threadfence_system() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline unsigned atomicCAS(unsigned* at, unsigned wanted, unsigned value) {
  std::atomic_ref(*at).compare_exchange_strong(wanted, value);
  return wanted;
}

#include "tests/host_device/mma.h"
