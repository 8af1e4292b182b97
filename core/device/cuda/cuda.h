// NVIDIA GPUs: listing them, the calling thread's current device and stream, and synchronisation.
// Names and semantics are those of torch.cuda.
//
//   if (cuda::is_available()) model.to(Device{DeviceType::kCUDA, 0});
//
// CUDA is initialised at the first use of a device. A thread begins on device 0 and on that
// device's default stream, which all threads share. It is not CUDA's null stream: it does not wait
// for that stream, and a graph can be captured from it. Without CUDA, functions that need it throw
// as cuda/module.h says. Thread-safety: any thread may call; current device and stream are the
// calling thread's own.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "core/device/cuda/module/runtime.h"
#include "core/device/stream.h"

namespace dl::cuda {

// True if this build has CUDA and there are a driver and a device; unavailable_reason() of module.h
// says why not. Initialises no device: a device that this build has no code for throws
// kNotImplemented at its first use.
bool is_available() noexcept;
// How many devices this process sees (CUDA_VISIBLE_DEVICES); 0 if CUDA is not available.
int device_count() noexcept;
DeviceProperties get_device_properties(int device);

int current_device() noexcept;
// Throws kInvalidArgument if the device does not exist.
void set_device(int device);

// Waits for all work on a device (default: the current one). Throws kIndex if a kernel has found an
// index or class out of range since the last wait, kInternal if a kernel failed.
void synchronize();
void synchronize(int device);

Stream default_stream(int device);
Stream current_stream(int device);
inline Stream current_stream() {
  return current_stream(current_device());
}
// Makes a stream its device's current one for this thread; a null handle stands for the default.
void set_stream(const Stream& stream);
// Waits for all work on a stream; throws like synchronize().
void synchronize(const Stream& stream);
// Work submitted to `waiting` from now on starts after all work already submitted to `stream`.
void join(const Stream& waiting, const Stream& stream);

// Makes a device the thread's current one while it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
};

// Makes a stream and its device the thread's current ones while it lives.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream before_;
  int device_before_;
};

// Owns a stream that nothing else uses. The destructor does not wait: submitted work still runs,
// and memory that the stream uses (record_stream) may be freed later. The CUDA stream itself is
// kept for the next owner.
class OwnedStream {
 public:
  explicit OwnedStream(int device, bool high_priority = false);
  OwnedStream(OwnedStream&& other) noexcept
      : stream_(std::exchange(other.stream_, {})), high_priority_(other.high_priority_) {}
  OwnedStream& operator=(OwnedStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(high_priority_, other.high_priority_);
    return *this;
  }
  ~OwnedStream();
  const Stream& get() const noexcept { return stream_; }

 private:
  Stream stream_;
  bool high_priority_;
};

// A point in a stream's order of work.
class Event {
 public:
  explicit Event(int device, bool timing = false);
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  void record(const Stream& stream);
  // Work submitted to `stream` from now on starts after this point.
  void wait(const Stream& stream) const;
  bool query() const;
  void synchronize() const;
  // Both events need timing and must have passed.
  float elapsed_ms(const Event& end) const;
  void* handle() const noexcept { return event_; }

 private:
  void* event_;
};

// The device for resources that belong to all devices, such as pinned memory: the first that this
// process has named or used, else rank_device(). No other device is initialised.
int home_device();

// The device of this rank: the first that dlrun gave it (DLRUN_GPUS), else the visible device
// number local rank mod device_count().
Device rank_device();

// "cpu", "cuda" (the current device) or "cuda:1". Throws kInvalidArgument for another text; does
// not check that the device exists.
Device parse_device(std::string_view text);
// parse_device() for a program's --device option: "cuda" means this rank's GPU, and a GPU becomes
// the current device. Throws what rank_device() and set_device() throw.
Device choose_device(std::string_view text);

}  // namespace dl::cuda
