// should_checkpoint(): lets all ranks of a job save after the same step when the job must make
// room.
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
// ends (--preempt-before). It ends with exit code 75 if all ranks have returned true and ended with
// exit code 0. docs/guides/slurm.md shows the Python equivalent.
//
// Thread-safety: any thread, one call at a time.
#pragma once

namespace dl {

// Call it once a step, on every rank, after the same step: with any backend, before or after
// init_process_group(), with or without DDP. Returns false until dlrun is asked to save. The call
// number S from which on it returns true is the same on all ranks, and no rank has made more calls
// by then.
//
// A call writes one shared word and reads another. After the request one call waits until dlrun's
// agents have agreed on S, but not for other ranks. Without dlrun, and in a forked child of a rank,
// it always returns false. Throws kTimeout if dlrun does not answer within DLRUN_TIMEOUT (600 s),
// kConnection if dlrun is gone, kAuthentication, kIo.
bool should_checkpoint();

}  // namespace dl
