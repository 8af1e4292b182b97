// should_checkpoint(): when a job has to make room, all of its ranks save after the same step.
//
//     for (int step = first; step < last; ++step) {
//       train(step);
//       if (dl::should_checkpoint()) {
//         save(step + 1);
//         return 0;
//       }
//     }
//
// dlrun is asked to save by SIGTERM with --preempt, or because the time of its SLURM allocation
// ends (--preempt-before); it ends with exit code 75 if all ranks have returned true and ended with
// 0. docs/guides/slurm.md shows the same for Python.
//
// Thread-safety: any thread; one call at a time counts.
#pragma once

namespace dl {

// Call it once a step, on every rank, after the same step: with any backend, before or after
// init_process_group(), with or without DDP. False until dlrun is asked to save. The call number S
// from which on it is true is the same on all ranks, and no rank has called more often by then.
//
// It reads and writes one shared word each; after the request one call waits until dlrun's agents
// have agreed on S, and for no other rank. Without dlrun, and in a child that a rank has forked, it
// is always false. Throws kTimeout if dlrun does not answer within DLRUN_TIMEOUT (600 s),
// kConnection if dlrun is gone, kAuthentication, kIo.
bool should_checkpoint();

}  // namespace dl
