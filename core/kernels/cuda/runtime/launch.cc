#include "core/kernels/cuda/runtime/launch.h"

#include <array>
#include <mutex>

#include "core/kernels/cuda/runtime/real_runtime.h"

namespace dl::cuda {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  DL_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

const Launch::Limits& limits_of(int device) {
  static std::array<Launch::Limits, kMostDevices> known;
  static std::array<std::once_flag, kMostDevices> asked;
  const auto i = static_cast<std::size_t>(device);
  std::call_once(asked[i], [&] {
    known[i] = {.sm_count = attribute(cudaDevAttrMultiProcessorCount, device),
                .max_threads_per_sm = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device),
                .compute_capability = attribute(cudaDevAttrComputeCapabilityMajor, device) * 10 +
                                      attribute(cudaDevAttrComputeCapabilityMinor, device),
                .l2_bytes = static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, device))};
  });
  return known[i];
}

}  // namespace

Workspace::Workspace(std::size_t bytes, cudaStream_t stream)
    : device_(active_device()),
      data_(bytes == 0 ? nullptr : opener().allocate(device_, bytes, stream)),
      bytes_(bytes) {}

Workspace::~Workspace() {
  if (data_ != nullptr) opener().deallocate(device_, data_);
}

Launch::Launch()
    : device_(active_device()),
      stream_(static_cast<cudaStream_t>(opener().current_stream(device_))),
      limits_(&limits_of(device_)),
      faults_(faults_of(device_)) {}

}  // namespace dl::cuda
