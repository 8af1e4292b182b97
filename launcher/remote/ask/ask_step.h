// Asks the nodes of this process's allocation of SLURM through a step of srun.
//
// The step has one task a node. Each task reads all questions on its standard input, runs those of
// its node, and answers in frames (step_frames.h).
#pragma once

#include <vector>

#include "launcher/remote/ask/ask_hosts.h"

namespace dl::launcher::remote {

// As ask_hosts(), which calls it.
std::vector<HostAnswer> ask_by_srun(const std::vector<HostQuestion>& questions,
                                    const AskHostsOptions& options);

// The hidden option that makes dlrun a task of such a step.
inline constexpr const char* kAnswerWord = "--as-step-answer";
// Returns dlrun's exit code. Throws Error.
int answer_in_step();

}  // namespace dl::launcher::remote
