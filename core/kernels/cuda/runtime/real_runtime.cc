#include "core/kernels/cuda/runtime/real_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/kernels/cuda/runtime/active_device.h"
#include "core/kernels/cuda/runtime/errors.h"

namespace dl::cuda {
namespace {

constexpr std::size_t kOldestCudnn = 90000;

const Host* host_of_module = nullptr;
const char* (*op_names)(int) = nullptr;
constinit std::array<std::atomic<Fault*>, kMostDevices> faults{};
constinit Mutex faults_mutex;

cudaStream_t as_stream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t as_event(void* event) {
  return static_cast<cudaEvent_t>(event);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// Throws for a fault that kernels on any device have reported, and clears it.
void raise_faults() {
  for (std::atomic<Fault*>& place : faults) {
    Fault* const fault = place.load(std::memory_order_acquire);
    if (fault == nullptr) continue;
    const std::atomic_ref<unsigned> state(fault->state);
    if (state.load(std::memory_order_acquire) != 2U) continue;
    const Fault found = *fault;
    state.store(0U, std::memory_order_release);
    DL_CHECK(!found.of_probability, kInvalidArgument,
             "{}: element {} is {}, wanted a probability of [0, 1] (found by the device, some "
             "operations ago)",
             op_names(found.op), found.position, found.probability);
    throw_error(ErrorKind::kIndex,
                "{}: element {} of the index is {}, wanted a number in [0, {}) (found by the "
                "device, some operations ago)",
                op_names(found.op), found.position, found.value, found.limit);
  }
}

class CudaRuntime final : public Runtime {
 public:
  int device_count() override { return count_; }
  void adopt_device(int device) noexcept override { cuda::adopt_device(device); }

  DeviceProperties properties(int device) override {
    cudaDeviceProp p{};
    DL_CUDA_CHECK(cudaGetDeviceProperties(&p, device));
    return {.name = p.name,
            .uuid = uuid_text(p.uuid),
            .major = p.major,
            .minor = p.minor,
            .multi_processor_count = p.multiProcessorCount,
            .total_memory = p.totalGlobalMem};
  }

  MemoryInfo memory_info(int device) override {
    const OnDevice on(device);
    MemoryInfo info;
    DL_CUDA_CHECK(cudaMemGetInfo(&info.free, &info.total));
    return info;
  }

  void check_device(int device) override {
    int major = 0;
    int minor = 0;
    DL_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    DL_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    const OnDevice on(device);
    const cudaError_t status = probe_kernel();
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction ||
        status == cudaErrorUnsupportedPtxVersion) {
      cudaGetLastError();
      throw_error(ErrorKind::kNotImplemented,
                  "cuda:{}: {} is sm_{}{}, and this dlrun was built for {}; build it with "
                  "-DDLRUN_CUDA_ARCHITECTURES={}{}",
                  device, properties(device).name, major, minor, DLRUN_CUDA_ARCHITECTURES, major,
                  minor);
    }
    DL_CUDA_CHECK(status);
  }

  void* allocate(int device, std::size_t bytes) override {
    const OnDevice on(device);
    const RelaxedCapture relaxed;
    void* block = nullptr;
    const cudaError_t status = cudaMalloc(&block, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    DL_CUDA_CHECK(status);
    return block;
  }

  void deallocate(int device, void* block) noexcept override {
    try {
      const OnDevice on(device);
      const RelaxedCapture relaxed;
      cudaFree(block);
    } catch (const Error&) {  // the device is lost, and its memory with it
    }
  }

  void* allocate_pinned(int device, std::size_t bytes) override {
    const OnDevice on(device);
    const RelaxedCapture relaxed;
    void* block = nullptr;
    const cudaError_t status = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    DL_CUDA_CHECK(status);
    return block;
  }

  void deallocate_pinned(void* block) noexcept override {
    ensure_device();
    const RelaxedCapture relaxed;
    cudaFreeHost(block);
  }

  void copy_async(void* to, const void* from, std::size_t bytes, void* stream) override {
    ensure_device();
    DL_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream)));
  }

  void* make_stream(int device, bool high_priority) override {
    const OnDevice on(device);
    int least = 0;
    int greatest = 0;
    DL_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream = nullptr;
    DL_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                               high_priority ? greatest : least));
    return stream;
  }

  void destroy_stream(void* stream) noexcept override {
    ensure_device();
    cudaStreamDestroy(as_stream(stream));
  }

  void synchronize_stream(void* stream) override {
    ensure_device();
    DL_CUDA_CHECK(cudaStreamSynchronize(as_stream(stream)));
    raise_faults();
  }

  void synchronize_device(int device) override {
    const OnDevice on(device);
    DL_CUDA_CHECK(cudaDeviceSynchronize());
    raise_faults();
  }

  void* make_event(int device, bool timing) override {
    const OnDevice on(device);
    cudaEvent_t event = nullptr;
    DL_CUDA_CHECK(
        cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
    return event;
  }

  void destroy_event(void* event) noexcept override {
    ensure_device();
    cudaEventDestroy(as_event(event));
  }

  void record_event(void* event, void* stream) override {
    ensure_device();
    DL_CUDA_CHECK(cudaEventRecord(as_event(event), as_stream(stream)));
  }

  bool query_event(void* event) override {
    ensure_device();
    const RelaxedCapture relaxed;
    const cudaError_t status = cudaEventQuery(as_event(event));
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    DL_CUDA_CHECK(status);
    return true;
  }

  void synchronize_event(void* event) override {
    ensure_device();
    DL_CUDA_CHECK(cudaEventSynchronize(as_event(event)));
    raise_faults();
  }

  void wait_event(void* stream, void* event) override {
    ensure_device();
    DL_CUDA_CHECK(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0));
  }

  float elapsed_ms(void* begin, void* end) override {
    ensure_device();
    float ms = 0;
    DL_CUDA_CHECK(cudaEventElapsedTime(&ms, as_event(begin), as_event(end)));
    return ms;
  }

  CaptureState capture_state(void* stream) override {
    ensure_device();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    DL_CUDA_CHECK(cudaStreamIsCapturing(as_stream(stream), &status));
    switch (status) {
      case cudaStreamCaptureStatusActive:
        return CaptureState::kActive;
      case cudaStreamCaptureStatusInvalidated:
        return CaptureState::kInvalidated;
      default:
        return CaptureState::kNone;
    }
  }

  void begin_capture(void* stream) override {
    ensure_device();
    DL_CUDA_CHECK(cudaStreamBeginCapture(as_stream(stream), cudaStreamCaptureModeThreadLocal));
  }

  void* end_capture(void* stream) override {
    ensure_device();
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(as_stream(stream), &graph);
    if (status != cudaSuccess || graph == nullptr) {
      cudaGetLastError();
      return nullptr;
    }
    cudaGraphExec_t ready = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphDestroy(graph);
    DL_CUDA_CHECK(made);
    return ready;
  }

  void launch_graph(void* graph, void* stream) override {
    ensure_device();
    DL_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), as_stream(stream)));
  }

  void destroy_graph(void* graph) noexcept override {
    ensure_device();
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
  }

  void start() {
    const cudaError_t status = cudaGetDeviceCount(&count_);
    if (status == cudaErrorInsufficientDriver) {
      int driver = 0;
      cudaDriverGetVersion(&driver);
      throw_error(ErrorKind::kNotFound,
                  "cuda: the NVIDIA driver here serves CUDA {}.{}, this dlrun needs {}.{}; update "
                  "the driver, or use the device cpu",
                  driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                  CUDART_VERSION % 1000 / 10);
    }
    DL_CHECK(status != cudaErrorNoDevice && (status != cudaSuccess || count_ > 0), kNotFound,
             "cuda: there is a driver, but no device that this process may use; look at "
             "nvidia-smi and CUDA_VISIBLE_DEVICES, or use the device cpu");
    DL_CUDA_CHECK(status);
    const std::size_t cudnn = cudnnGetVersion();
    DL_CHECK(cudnn >= kOldestCudnn && cudnn / 10000 == CUDNN_MAJOR, kNotFound,
             "cuda: cuDNN {}.{} was found, wanted {}.0 or a newer {}.x", cudnn / 10000,
             cudnn / 100 % 100, kOldestCudnn / 10000, CUDNN_MAJOR);
    const std::size_t cublas = cublasLtGetVersion();
    DL_CHECK(cublas / 10000 == CUBLAS_VER_MAJOR, kNotFound,
             "cuda: cuBLASLt {}.{} was found, wanted {}.x", cublas / 10000, cublas / 100 % 100,
             CUBLAS_VER_MAJOR);
  }

 private:
  int count_ = 0;
};

}  // namespace

const Host& opener() noexcept {
  return *host_of_module;
}

Runtime& start_runtime(const Host* host, const char* (*name_of_op)(int)) {
  static CudaRuntime runtime;
  host_of_module = host;
  op_names = name_of_op;
  runtime.start();
  return runtime;
}

Fault* faults_of(int device) {
  std::atomic<Fault*>& place = faults[static_cast<std::size_t>(device)];
  if (Fault* const known = place.load(std::memory_order_acquire)) return known;
  const Lock lock(faults_mutex);
  if (Fault* const known = place.load(std::memory_order_relaxed)) return known;
  const RelaxedCapture relaxed;
  void* block = nullptr;
  DL_CUDA_CHECK(cudaHostAlloc(&block, sizeof(Fault), cudaHostAllocPortable | cudaHostAllocMapped));
  auto* const fault = new (block) Fault{};
  place.store(fault, std::memory_order_release);
  return fault;
}

}  // namespace dl::cuda
