// What the parts of the host device's cuDNN share.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

// cuDNN's headers declare it only.
struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};

namespace dl::host_device {

// Returns the status; cudnnGetLastErrorString() says why from then on.
cudnnStatus_t refuse(cudnnStatus_t status, const char* why);

// A graph was compiled, or the algorithms of a convolution timed.
void count_search();

}  // namespace dl::host_device

// How often that was, since the process began.
extern "C" long dl_host_device_search_count();
// From then on graphs are planned, but no longer run, as by an engine that the device lacks; or run
// again.
extern "C" void dl_host_device_refuse_graphs(bool refuses);
