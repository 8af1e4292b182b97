// The flight recorder as a group uses it: collectives' own types in the recorder's terms.
#pragma once

#include <memory>

#include "collectives/descriptor.h"
#include "collectives/record/recorder.h"

namespace dl::collectives {

// What the recorder's numbers stand for in this build.
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

// The recorder of this process: the one that dlrun made (DLRUN_RECORDER_FD), else memory of its
// own, written to DLRUN_RECORDER_DIR when a group breaks. Null where DLRUN_RECORDER is off.
std::shared_ptr<record::Recorder> open_recorder(int rank, int world_size, std::uint64_t generation);

}  // namespace dl::collectives
