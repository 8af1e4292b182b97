// How the allocators track streams that still use a freed block.
#pragma once

#include "core/base/error.h"
#include "core/device/cuda/module/runtime.h"

namespace dl::cuda {

// An event recorded on a captured stream becomes part of the graph and cannot be queried.
inline bool is_captured(Runtime& runtime, void* stream) noexcept {
  try {
    return runtime.capture_state(stream) != CaptureState::kNone;
  } catch (const Error&) {  // the device is lost
    return false;
  }
}

// An event after all work on the stream. Null if the device is lost; its memory is then never
// reused.
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
