// What the allocators ask of a stream that has been given work on a block that is freed.
#pragma once

#include "core/base/error.h"
#include "core/device/cuda/module/runtime.h"

namespace dl::cuda {

// An event that is recorded there would be the graph's: none that could be queried.
inline bool is_captured(Runtime& runtime, void* stream) noexcept {
  try {
    return runtime.capture_state(stream) != CaptureState::kNone;
  } catch (const Error&) {  // the device is lost
    return false;
  }
}

// An event behind all work in the stream. Null if the device is lost, when its memory is not used
// any more.
inline void* event_behind(Runtime& runtime, int device, void* stream) noexcept {
  void* event = nullptr;
  try {
    event = runtime.make_event(device, false);
    runtime.record_event(event, stream);
    return event;
  } catch (const Error&) {
    if (event != nullptr) runtime.destroy_event(event);
    return nullptr;
  }
}

}  // namespace dl::cuda
