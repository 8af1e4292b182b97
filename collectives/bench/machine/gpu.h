// Gpu: the GPU on which a rank measures, with a stream of its own, and memory.
//
// Ownership: the Gpu owns the stream; the runtime and the Gpu must outlive the memory that
// allocate() returns. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/device/cuda/module/runtime.h"
#include "core/device/stream.h"

namespace dl::collectives::bench {

class Gpu {
 public:
  // Throws kNotImplemented if dlrun has no code for the device.
  Gpu(cuda::Runtime& runtime, int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  cuda::Runtime& runtime() const noexcept { return runtime_; }
  const cuda::DeviceProperties& properties() const noexcept { return properties_; }
  int device() const noexcept { return stream_.device.index; }
  const Stream& stream() const noexcept { return stream_; }

  // Queues a copy in the stream.
  void copy(void* to, const void* from, std::size_t bytes) const;
  void synchronize() const;

  struct Free {
    cuda::Runtime* runtime;
    int device;  // kHost: pinned memory
    static constexpr int kHost = -1;
    void operator()(std::byte* block) const noexcept;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  // Throw kInvalidArgument if there is too little memory. allocate() says in the text how much is
  // free.
  Memory allocate(std::size_t bytes) const;
  Memory allocate_pinned(std::size_t bytes) const;

 private:
  cuda::Runtime& runtime_;
  cuda::DeviceProperties properties_;
  Stream stream_;
};

// Opens the GPU that --device names: "cuda" is the one that dlrun assigned to this rank, "cuda:1"
// is number 1. Throws what cuda::module() throws if there is none.
std::unique_ptr<Gpu> open_gpu(const std::string& device);

// ", driver 580.159.03"; empty if the driver does not tell its version.
std::string driver_version();

}  // namespace dl::collectives::bench
