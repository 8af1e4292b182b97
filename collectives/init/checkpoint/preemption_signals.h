// SLURM sends its signals to every process of a step, including the ranks.
#pragma once

namespace dl {

// For a job that may be asked to save (should_checkpoint()). From now on SIGTERM ends this process
// only if dlrun sent it, and SIGUSR1 does nothing. If the program handles or ignores one of the
// two, it stays so. Throws what should_checkpoint() throws.
void outlive_signals_of_preemption();

}  // namespace dl
