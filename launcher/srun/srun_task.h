// dlrun as a task of a step that another dlrun has started by srun (srun_step.h). It is in
// dlrun-srun, which dlrun executes (hand_over.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/system/unique_fd.h"
#include "launcher/process/own_process.h"
#include "rendezvous/net/handshake/job_key.h"

namespace dl::launcher {

// The job's name in the handshake of a task with its frontend.
inline constexpr std::string_view kSrunJob = "dlrun-srun";
constexpr std::string_view purpose_of(bool to_agent) {
  return to_agent ? "to agent" : "from agent";
}

// The value of DLRUN_SRUN_FRONTEND for the tasks of a step: "41234", or "41234:MUNGE:..." with the
// key as a credential. The key also goes through standard input, but srun passes that on 10 ms
// later. May run `scontrol`: call it before any thread exists, and not in an event loop.
std::string frontend_for_tasks(std::uint16_t port, const rendezvous::JobKey& key);

// Names this process dlrun for `ps` and `killall`, because the user has started dlrun, not
// dlrun-srun.
void be_called_dlrun();

// The two connections of a task to its frontend.
struct LinesToFrontend {
  UniqueFd in;
  UniqueFd out;
};

// Opens the credential with the key, or reads the key from standard input, and connects to the
// frontend. Returns nullopt if this process is no such task. Throws Error.
std::optional<LinesToFrontend> connect_as_task_of_srun(CommandLine line);

}  // namespace dl::launcher
