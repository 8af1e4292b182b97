// The flight recorders of this node's ranks (collectives/record/format.h). dlrun makes the memory,
// each rank writes its own, and dlrun reads it after a failure. The memory survives the rank; it is
// freed when dlrun and the rank have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/record/recorder.h"
#include "core/base/system/unique_fd.h"

namespace dl::launcher {

// Makes the memory and seals its size. Returns an empty descriptor if DLRUN_RECORDER is off or
// why_no_recorders() gives a reason. Throws kIo.
UniqueFd make_recorder(const collectives::record::Who& who);

// "no flight recorders are kept: ..."; empty if they are kept, or not wanted.
std::string why_no_recorders();

// The clock of every recorder on this machine.
std::uint64_t recorder_ticks() noexcept;

// Facts about a rank that dlrun knows and the rank cannot write itself.
struct RankState {
  int pid = 0;
  collectives::record::End end = collectives::record::End::kUnknown;
  int status = 0;              // as waitpid() gives it
  std::uint64_t ended_at = 0;  // ticks
  std::string fate;            // fate_of() in report.h; empty: it has not ended
  bool was_stopped = false;
  bool is_cause = false;
};

struct RecorderCopy {
  std::unique_ptr<collectives::record::Memory> memory;
  bool was_opened = false;  // a program that uses dlrun's collectives has written it
};
RecorderCopy copy_recorder(int fd, const RankState& state);

}  // namespace dl::launcher
