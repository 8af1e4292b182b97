// Read before every .cu file that is compiled for the host device: what the CUDA compiler knows of
// itself. A launch `kernel<<<blocks, threads, 0, stream>>>(arguments)` has become
// `kernel % dl::host_device::config(blocks, threads, 0, stream)(arguments)` by then.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
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
// Runs `thread` for every thread of every block. The blocks come one after another; the threads of
// a block too, up to the barrier, and in another order behind each: a kernel that lacks a needed
// barrier reads values that are not written yet.
void run_grid(dim3 grid, dim3 threads, const std::function<void()>& thread);
// What a launch may ask for; the error that the device would answer with.
cudaError_t check_launch(dim3 grid, dim3 threads, std::size_t shared_bytes);
void remember(cudaError_t error);

template <typename... Arguments>
struct Launch {
  dim3 grid;
  dim3 threads;
  std::size_t shared_bytes;
  cudaStream_t stream;
  std::tuple<Arguments...> arguments;
};

struct Config {
  dim3 grid;
  dim3 threads;
  std::size_t shared_bytes;
  cudaStream_t stream;

  template <typename... Arguments>
  Launch<Arguments...> operator()(const Arguments&... arguments) const {
    return {grid, threads, shared_bytes, stream, {arguments...}};
  }
};

inline Config config(dim3 grid, dim3 threads, std::size_t shared_bytes, cudaStream_t stream) {
  return {grid, threads, shared_bytes, stream};
}

template <typename... Parameters, typename... Arguments>
void operator%(void (*kernel)(Parameters...), const Launch<Arguments...>& launch) {
  cudaError_t status = check_launch(launch.grid, launch.threads, launch.shared_bytes);
  if (status == cudaSuccess) {
    std::tuple<Parameters...> values = launch.arguments;
    status = enqueue(launch.stream, [kernel, grid = launch.grid, threads = launch.threads,
                                     values = std::move(values)] {
      run_grid(grid, threads, [&] { std::apply(kernel, values); });
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
