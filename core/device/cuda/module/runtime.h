// Runtime: an interface to every CUDA call of dlrun except kernels.
//
// libdlrun_cuda.so has the real one (core/kernels/cuda/runtime/real_runtime.cc); unit tests use one
// that needs no GPU. Streams and events are the library's own handles (cudaStream_t, cudaEvent_t)
// and belong to the code that made them. Unless a comment says otherwise, a call that fails throws
// kInternal and names the CUDA function; any call may report an earlier kernel's failure. A call
// initialises only devices that the process has named: the first call of a thread that names no
// device uses one of these. A thread's own cudaSetDevice() stays in force
// (core/kernels/cuda/runtime/active_device.h). Thread-safety: any thread may call all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dl::cuda {

// In one process.
inline constexpr int kMostDevices = 64;

struct DeviceProperties {
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-...", as nvidia-smi prints it; the same in every process
  int major = 0;     // compute capability
  int minor = 0;
  int multi_processor_count = 0;
  std::size_t total_memory = 0;
};

struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};

// What happens to work on a stream: it runs, it is captured, or it is lost because the capture was
// invalidated.
enum class CaptureState : std::uint8_t { kNone, kActive, kInvalidated };

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // Devices that this process may use, at least one; without any, opening the module throws
  // (module.h).
  virtual int device_count() = 0;
  virtual DeviceProperties properties(int device) = 0;
  virtual MemoryInfo memory_info(int device) = 0;
  // Throws kNotImplemented if this build has no code for the device's architecture.
  virtual void check_device(int device) = 0;
  // Sets the device of a thread of dlrun on which libraries call CUDA.
  virtual void adopt_device(int device) noexcept = 0;

  // Null if the device is out of memory.
  virtual void* allocate(int device, std::size_t bytes) = 0;
  virtual void deallocate(int device, void* block) noexcept = 0;
  // Pinned host memory that all devices can access, allocated in the context of `device`. Null if
  // there is none.
  virtual void* allocate_pinned(int device, std::size_t bytes) = 0;
  virtual void deallocate_pinned(void* block) noexcept = 0;
  // Copies between any two memories, in the stream's order. Returns before the copy is done if both
  // are pinned or on a device; the caller must not change host memory until the stream has passed
  // the copy.
  virtual void copy_async(void* to, const void* from, std::size_t bytes, void* stream) = 0;

  // The stream does not synchronise with CUDA's null stream.
  virtual void* make_stream(int device, bool high_priority) = 0;
  virtual void destroy_stream(void* stream) noexcept = 0;
  // These two throw kIndex if a kernel has found an index or class out of range.
  virtual void synchronize_stream(void* stream) = 0;
  virtual void synchronize_device(int device) = 0;

  virtual void* make_event(int device, bool timing) = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record_event(void* event, void* stream) = 0;
  virtual bool query_event(void* event) = 0;  // true if the stream has passed it
  virtual void synchronize_event(void* event) = 0;
  // Work submitted to `stream` from now on starts after `event`.
  virtual void wait_event(void* stream, void* event) = 0;
  virtual float elapsed_ms(void* begin, void* end) = 0;

  virtual CaptureState capture_state(void* stream) = 0;
  // Calls of other threads and on other streams are not affected.
  virtual void begin_capture(void* stream) = 0;
  // A graph that can be launched; null if the capture was invalidated.
  virtual void* end_capture(void* stream) = 0;
  virtual void launch_graph(void* graph, void* stream) = 0;
  virtual void destroy_graph(void* graph) noexcept = 0;
};

}  // namespace dl::cuda
