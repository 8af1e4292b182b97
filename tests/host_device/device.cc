// Devices, and the calls that allocate, copy and fill memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "tests/host_device/kernel.h"
#include "tests/host_device/runtime.h"

namespace dl::host_device {
namespace {

constexpr int kMultiprocessors = 256;  // enough for as many parts of a sum as there may be
constexpr int kThreadsOfOne = 2048;
constexpr int kL2Bytes = 1 << 20;

// What CUDA_VISIBLE_DEVICES leaves of DLRUN_TEST_DEVICES (default: one): up to the first entry that
// is none.
std::vector<int> visible_devices() {
  const char* const given = std::getenv("DLRUN_TEST_DEVICES");
  const int present = given == nullptr ? 1 : std::atoi(given);
  std::vector<int> devices;
  const char* const mask = std::getenv("CUDA_VISIBLE_DEVICES");
  if (mask == nullptr) {
    for (int i = 0; i < present; ++i) devices.push_back(i);
    return devices;
  }
  for (const char* at = mask; *at != '\0';) {
    char* end = nullptr;
    const long number = std::strtol(at, &end, 10);
    if (end == at || number < 0 || number >= present) break;
    devices.push_back(static_cast<int>(number));
    at = *end == ',' ? end + 1 : end;
  }
  return devices;
}

const std::vector<int>& devices() {
  static const std::vector<int>& all = *new std::vector<int>(visible_devices());
  return all;
}

}  // namespace

int device_count() {
  return static_cast<int>(devices().size());
}

int physical_device(int device) {
  return devices().at(static_cast<std::size_t>(device));
}

}  // namespace dl::host_device

using namespace dl::host_device;

namespace {

bool is_device(int device) {
  return device >= 0 && device < device_count();
}

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : answer(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = this_thread().device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return answer(cudaErrorInvalidDevice);
  this_thread().device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return answer(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = kThreadsOfOne;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = kL2Bytes;
      return cudaSuccess;
    default:
      return answer(cudaErrorInvalidValue);
  }
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return answer(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "host device");
  properties->uuid.bytes[0] = static_cast<char>(physical_device(device) + 1);
  properties->major = 9;
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = kMemory;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return std::exchange(this_thread().error, cudaSuccess);
}

// The runtime's own tables of names are not at hand.
const char* cudaGetErrorName(cudaError_t error) {
  thread_local char text[32];
  std::snprintf(text, sizeof text, "cudaError %d", static_cast<int>(error));
  return text;
}

const char* cudaGetErrorString(cudaError_t) {
  return "an error of the host device";
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = kMemory;
  *free = kMemory - used_memory(this_thread().device);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (is_forbidden()) return answer(cudaErrorStreamCaptureUnsupported);
  return answer(allocate(data, bytes, Place::kDevice));
}

cudaError_t cudaFree(void* data) {
  if (is_forbidden()) return answer(cudaErrorStreamCaptureUnsupported);
  return answer(release(data, Place::kDevice));
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  if (is_forbidden()) return answer(cudaErrorStreamCaptureUnsupported);
  return answer(allocate(data, bytes, Place::kPinned));
}

cudaError_t cudaFreeHost(void* data) {
  if (is_forbidden()) return answer(cudaErrorStreamCaptureUnsupported);
  return answer(release(data, Place::kPinned));
}

// Pageable memory has been read when the call returns, and has been written.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind != cudaMemcpyDefault && kind != cudaMemcpyHostToDevice &&
      kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice) {
    return answer(cudaErrorInvalidMemcpyDirection);
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  const bool later = status != cudaStreamCaptureStatusNone;
  Work copy = [to, from, bytes] { std::memmove(to, from, bytes); };
  if (place_of(from) == Place::kPageable && !later) {
    const auto* const first = static_cast<const char*>(from);
    copy = [to, staged = std::vector<char>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    };
  }
  if (const cudaError_t given = enqueue(stream, std::move(copy)); given != cudaSuccess) {
    return answer(given);
  }
  return place_of(to) == Place::kPageable && !later ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return answer(enqueue(stream, [=] { std::memset(data, value, bytes); }));
}

cudaError_t cudaMemset2DAsync(void* data, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  if (width > pitch) return answer(cudaErrorInvalidValue);
  return answer(enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memset(static_cast<char*>(data) + row * pitch, value, width);
    }
  }));
}

}  // extern "C"
