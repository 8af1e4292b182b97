// should_checkpoint(): lets all ranks of a job save after the same step, when the job has to end
// soon.
//
//     for (int step = first; step < last; ++step) {
//       train(step);
//       if (dl::should_checkpoint()) {
//         save(step + 1);
//         return 0;
//       }
//     }
//
// A request to save comes from SIGTERM with --preempt, or from --preempt-before when the time of
// the SLURM allocation is about to end. If all ranks have returned true and then ended with exit
// code 0, dlrun ends with exit code 75. docs/guides/slurm.md shows the Python equivalent.
//
// Thread-safety: any thread, one call at a time.
#pragma once

namespace dl {

// Call it once a step, on every rank, after the same step. It works with any backend, before or
// after init_process_group(), with or without DDP. Returns false until a request to save comes. All
// ranks return true at the same call number S and at later calls. When S is chosen, no rank has
// made more than S calls.
//
// A call writes one shared word and reads another. After the request, one call waits until dlrun's
// agents have agreed on S; it does not wait for other ranks. Without dlrun, and in a forked child
// of a rank, it always returns false. Throws kTimeout if dlrun does not answer within DLRUN_TIMEOUT
// (600 s), kConnection if dlrun is gone, kAuthentication, kIo.
bool should_checkpoint();

}  // namespace dl
