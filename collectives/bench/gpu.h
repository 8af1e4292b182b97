// The GPU that a rank measures on: its device, a stream of its own, and memory.
//
// Ownership: the stream is the Gpu's; the runtime outlives it. Memory outlives no Gpu. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/device/cuda/runtime.h"
#include "core/device/stream.h"

namespace dl::collectives::bench {

class Gpu {
 public:
  // Throws kNotImplemented where there is no code for the device.
  Gpu(cuda::Runtime& runtime, int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  cuda::Runtime& runtime() const noexcept { return runtime_; }
  const cuda::DeviceProperties& properties() const noexcept { return properties_; }
  int device() const noexcept { return stream_.device.index; }
  const Stream& stream() const noexcept { return stream_; }

  // In the stream's order.
  void copy(void* to, const void* from, std::size_t bytes) const;
  void synchronize() const;

  struct Free {
    cuda::Runtime* runtime;
    int device;  // kHost: pinned memory
    static constexpr int kHost = -1;
    void operator()(std::byte* block) const noexcept;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  // Throw kInvalidArgument where there is too little; the text says what is free.
  Memory allocate(std::size_t bytes) const;
  Memory allocate_pinned(std::size_t bytes) const;

 private:
  cuda::Runtime& runtime_;
  cuda::DeviceProperties properties_;
  Stream stream_;
};

// The GPU that --device names: "cuda" is the one that dlrun gave this rank, "cuda:1" that one.
// Throws what cuda::module() throws where there is none.
std::unique_ptr<Gpu> open_gpu(const std::string& device);

// ", driver 580.159.03", as far as the driver says so; else empty.
std::string driver_version();

}  // namespace dl::collectives::bench
