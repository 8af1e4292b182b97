// dlrun as a task of the step that another dlrun has started by srun (srun_front.h).
#pragma once

#include <string_view>

#include "core/base/unique_fd.h"
#include "launcher/output/frame.h"

namespace dl::launcher {

// In the handshake of a task with its front.
inline constexpr std::string_view kSrunJob = "dlrun-srun";
constexpr std::string_view purpose_of(Stream stream) {
  return stream == Stream::kOut ? "stdout" : "stderr";
}

// Reads the job's key from standard input, connects to the front, and makes the connections this
// process's stdout and stderr. The key is in DLRUN_KEY_FD then, and standard input is empty. The
// result is where the front's signals come from, one byte each; its end is the front's. Not
// connected: this process is no such task. Throws Error.
UniqueFd become_task_of_srun();

}  // namespace dl::launcher
