// SLURM sends its signals to every process of a step, ranks too.
#pragma once

namespace dl {

// In a job that may be asked to save (should_checkpoint()): from now on SIGTERM ends this process
// only if dlrun sent it, and SIGUSR1 does nothing, unless the program handles or ignores them.
// Throws as should_checkpoint() does.
void outlive_signals_of_preemption();

}  // namespace dl
