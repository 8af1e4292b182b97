// dlrun as a task of the step that another dlrun has started by srun (srun_step.h). In dlrun-srun;
// dlrun executes that (hand_over.cc).
#pragma once

#include <optional>
#include <string_view>

#include "core/base/unique_fd.h"
#include "launcher/process/own_process.h"

namespace dl::launcher {

// In the handshake of a task with its front.
inline constexpr std::string_view kSrunJob = "dlrun-srun";
constexpr std::string_view purpose_of(bool to_agent) {
  return to_agent ? "to agent" : "from agent";
}

// As `ps` and `killall` know it: the user has started dlrun, and not dlrun-srun.
void be_called_dlrun();

// A task's two connections to its front.
struct LinesToFront {
  UniqueFd in;
  UniqueFd out;
};

// Reads the key from standard input and connects to the front. nullopt: this process is no such
// task. Throws Error.
std::optional<LinesToFront> connect_as_task_of_srun(CommandLine line);

}  // namespace dl::launcher
