// A supervisor: the process that starts the ranks of one generation, and ends all processes that
// are left of it (warden.h has the whole tree of processes).
//
// It is a subreaper with one thread. When dlrun dies, it ends the generation. When the warden dies,
// it kills the ranks and all that they have started: otherwise only it and dlrun could keep the
// promise that nothing is left behind.
#pragma once

#include <chrono>

#include "core/base/system/unique_fd.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start/start_process.h"

namespace dl::launcher {

// Between SIGTERM and SIGKILL, for the processes that the ranks have left behind.
inline constexpr std::chrono::milliseconds kLastGrace{200};

// Serves `channel` until the generation is over, then exits. `warden_life` closes when the warden
// dies.
[[noreturn]] void be_supervisor(const RankPrograms& programs, UniqueFd channel,
                                UniqueFd warden_life, CommandLine line);

}  // namespace dl::launcher
