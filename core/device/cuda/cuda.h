// NVIDIA GPUs: which there are, the calling thread's current device and stream, and waiting for
// them. Names and meanings are those of torch.cuda.
//
//   if (cuda::is_available()) model.to(Device{DeviceType::kCUDA, 0});
//
// CUDA starts at the first use of a device. A thread begins on device 0 and on that device's
// default stream, which all threads share; it is a stream of dlrun's own, which does not wait for
// CUDA's null stream and which a graph can be captured from. Functions that need CUDA throw what
// cuda/module.h says where there is none. Thread-safety: any thread may call; current device and
// stream are the calling thread's own.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "core/device/cuda/module/runtime.h"
#include "core/device/stream.h"

namespace dl::cuda {

// Whether there is a build, a driver and a device; unavailable_reason() of module.h says why not.
// Touches no device: one that this build has no code for throws kNotImplemented at its first use.
bool is_available() noexcept;
// How many devices this process sees (CUDA_VISIBLE_DEVICES); 0 where CUDA is not available.
int device_count() noexcept;
DeviceProperties get_device_properties(int device);

int current_device() noexcept;
// Throws kInvalidArgument for a device that is not there.
void set_device(int device);

// Waits until all work of a device (the current one) is done. Throws kIndex for what a kernel has
// found wrong in its data since the last wait, kInternal where a kernel failed.
void synchronize();
void synchronize(int device);

Stream default_stream(int device);
Stream current_stream(int device);
inline Stream current_stream() {
  return current_stream(current_device());
}
// Makes a stream its device's current one for this thread; a null handle stands for the default.
void set_stream(const Stream& stream);
// Waits for a stream's work; as synchronize().
void synchronize(const Stream& stream);
// What `waiting` gets from now on starts after all that `stream` has been given.
void join(const Stream& waiting, const Stream& stream);

// While it lives, a device is the thread's current one.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
};

// While it lives, a stream and its device are the thread's current ones.
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

// A stream of one's own. Work that it still has when the object goes is done all the same, and what
// the stream uses (record_stream) may go later: CUDA's stream is kept, and is the next owner's.
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

// A point in a stream's work.
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
  // What `stream` gets from now on starts after this point.
  void wait(const Stream& stream) const;
  bool query() const;
  void synchronize() const;
  // Both made with timing, both passed.
  float elapsed_ms(const Event& end) const;
  void* handle() const noexcept { return event_; }

 private:
  void* event_;
};

// For what belongs to all devices, as pinned memory does: the device that this process has named or
// used first, else rank_device()'s, so that no other is touched.
int home_device();

// The device of this rank: the first that dlrun gave it (DLRUN_GPUS), else its local rank's turn
// among those that the process sees.
Device rank_device();

// "cpu", "cuda" (the current device) or "cuda:1". Throws kInvalidArgument for another text; does
// not ask whether the device is there.
Device parse_device(std::string_view text);
// parse_device() for a program's --device: "cuda" is this rank's GPU, and the GPU becomes the
// current one. Throws what rank_device() and set_device() throw.
Device choose_device(std::string_view text);

}  // namespace dl::cuda
