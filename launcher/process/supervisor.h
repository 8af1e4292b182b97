// A supervisor: the process that starts the ranks of one generation, and ends all that is left of
// it (warden.h has the whole tree of processes).
//
// It is a subreaper with one thread. When dlrun dies, it ends the generation; when the warden dies,
// it kills the ranks and whatever they have started, as it would otherwise be alone with dlrun in
// keeping the promise that nothing is left.
#pragma once

#include <chrono>

#include "core/base/unique_fd.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start_process.h"

namespace dl::launcher {

// Processes that the ranks left behind get this time to end by themselves (a `tee` that still
// writes), before SIGTERM; then time before SIGKILL.
inline constexpr std::chrono::milliseconds kPatience{100};
inline constexpr std::chrono::milliseconds kLastGrace{200};
// The most that a process gets, beyond kPatience, while it still has something to do.
inline constexpr std::chrono::seconds kMostPatience{5};

// Serves `channel` until the generation is over, and exits. `warden_life` closes with the warden.
[[noreturn]] void be_supervisor(const RankProgram& program, UniqueFd channel, UniqueFd warden_life,
                                CommandLine line);

}  // namespace dl::launcher
