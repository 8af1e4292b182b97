// Adapts the flight recorder to groups: converts collectives' types to the recorder's.
#pragma once

#include <memory>

#include "collectives/call/descriptor.h"
#include "collectives/record/recorder.h"
#include "core/profiler/recorder.h"

namespace dl::collectives {

// The names of the recorder's numbers in this build.
record::Names recorded_names();

// `peer`: the other rank of a send or recv, or kAnySource.
inline record::What record_of(const Descriptor& d, std::uint32_t hash, int peer = -1) noexcept {
  return {.sequence = d.sequence,
          .count = d.count,
          .root = d.root,
          .op = static_cast<std::uint8_t>(d.op),
          .dtype = static_cast<std::uint8_t>(d.dtype),
          .reduce = static_cast<std::uint8_t>(d.reduce),
          .order = static_cast<std::uint8_t>(d.order),
          .hash = static_cast<std::uint16_t>(hash),
          .is_message = d.op == OpKind::kSend || d.op == OpKind::kRecv,
          .peer = peer};
}

// A profile's span for the call on the caller's thread: "dlrun::all_reduce". The running operation
// has another span, "shm:all_reduce", which is made from the flight recorder's slot.
inline profiler::Span call_span(const Descriptor& d) noexcept {
  return profiler::Span({"dlrun::", name_of(d.op)}, profiler::Category::kCommunication);
}
inline profiler::Span wait_span() noexcept {
  return profiler::Span("dlrun::wait", profiler::Category::kCommunication);
}

// The recorder of this process: the one that dlrun made (DLRUN_RECORDER_FD), else private memory
// that is written to DLRUN_RECORDER_DIR when a group breaks. Null if DLRUN_RECORDER is off.
std::shared_ptr<record::Recorder> open_recorder(int rank, int world_size, std::uint64_t generation);

}  // namespace dl::collectives
