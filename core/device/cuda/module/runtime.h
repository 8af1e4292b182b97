// Runtime: all that dlrun asks of CUDA besides kernels, as one interface.
//
// libdlrun_cuda.so has the real one (core/kernels/cuda/runtime/real_runtime.cc); unit tests use one
// that needs no GPU. Streams and events are the library's own handles (cudaStream_t, cudaEvent_t)
// and belong to the code that made them. Unless a comment says otherwise, a call that fails throws
// kInternal and names the CUDA function; any call may report an earlier kernel's failure. A call
// touches only devices that the process has named: a thread whose first call names none is given
// one of them, and a thread's own cudaSetDevice() stays in force (kernels/cuda/active_device.h).
// Thread-safety: all may be called from any thread.
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

// The state of a stream: its work is run, or recorded into a graph, or lost to a broken capture.
enum class CaptureState : std::uint8_t { kNone, kActive, kInvalidated };

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // Devices that this process may use, at least one; see module.h for what there is without.
  virtual int device_count() = 0;
  virtual DeviceProperties properties(int device) = 0;
  virtual MemoryInfo memory_info(int device) = 0;
  // Throws kNotImplemented where this build has no code for the device's architecture.
  virtual void check_device(int device) = 0;
  // For threads of dlrun's own in which libraries call CUDA: they take the thread's device, and go
  // back to it.
  virtual void adopt_device(int device) noexcept = 0;

  // Null where the device has no such block left.
  virtual void* allocate(int device, std::size_t bytes) = 0;
  virtual void deallocate(int device, void* block) noexcept = 0;
  // Host memory that all devices read and write themselves, taken in `device`'s name. Null where
  // there is none.
  virtual void* allocate_pinned(int device, std::size_t bytes) = 0;
  virtual void deallocate_pinned(void* block) noexcept = 0;
  // Between any two memories, in the stream's order. Returns early where both are pinned or on a
  // device; host memory must then stay as it is until the stream has passed.
  virtual void copy_async(void* to, const void* from, std::size_t bytes, void* stream) = 0;

  // Streams do not wait for CUDA's null stream.
  virtual void* make_stream(int device, bool high_priority) = 0;
  virtual void destroy_stream(void* stream) noexcept = 0;
  // These two throw kIndex for what a kernel found wrong in its data (a class that is none).
  virtual void synchronize_stream(void* stream) = 0;
  virtual void synchronize_device(int device) = 0;

  virtual void* make_event(int device, bool timing) = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record_event(void* event, void* stream) = 0;
  virtual bool query_event(void* event) = 0;  // whether the stream has passed it
  virtual void synchronize_event(void* event) = 0;
  // What `stream` gets from now on starts after `event`.
  virtual void wait_event(void* stream, void* event) = 0;
  virtual float elapsed_ms(void* begin, void* end) = 0;

  virtual CaptureState capture_state(void* stream) = 0;
  // Calls of other threads, and on other streams, go on as ever.
  virtual void begin_capture(void* stream) = 0;
  // A graph that can be launched; null where the capture broke.
  virtual void* end_capture(void* stream) = 0;
  virtual void launch_graph(void* graph, void* stream) = 0;
  virtual void destroy_graph(void* graph) noexcept = 0;
};

}  // namespace dl::cuda
