// A CUDA device that is this processor: its kernels run as functions, its memory is the host's. So
// code for GPUs runs in tests without a GPU; its speed means nothing.
//
// libhost_device.so offers those calls of CUDA's runtime, cuBLASLt, cuDNN and NCCL that dlrun
// makes, over NVIDIA's own headers. The modules libdlrun_cuda.so and libdlrun_nccl.so are compiled
// once more as plain C++ and linked with it instead of with NVIDIA's libraries.
//
// A stream is a thread that does in order what it was given, later than the caller goes on: what
// waits for too little fails here as well. Memory is checked as by compute-sanitizer (memory.cc),
// and blocks and threads run in a random order (kernel.h). Thread-safety: any thread may call.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace dl::host_device {

// `work` runs on the stream's thread once all is done that the stream was given before. While the
// stream is being captured it goes into the graph instead, and runs at each of its launches: it
// must own copies of what it needs of the call. `work` must not call CUDA.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace dl::host_device

// How many pieces of work the streams were given since the process began, those of captures
// included: launches of kernels, copies, calls of libraries.
extern "C" long dl_host_device_work_count();
