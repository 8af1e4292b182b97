// The warden and the processes below dlrun, and why no process is left behind:
//
//   dlrun ── warden ─┬─ supervisor ── ranks ── whatever they start
//                    └─ helpers of dlrun's own (dlrun-rendezvous, srun, ssh)
//
// The warden is forked first, while dlrun has no threads yet. It stays single-threaded, so it can
// fork at any time: one supervisor for each generation, the first one at once. dlrun itself never
// forks again. When a supervisor has exited, the warden sweeps its generation: it kills everything
// left below itself except the helpers, and sends kSwept.
//
// dlrun, warden and supervisor are subreapers, so each has everything below it, daemons included,
// as its descendants. Each two of them share a socket, which closes when one of them dies:
//
//   dlrun dies       the supervisor ends the generation; the warden does it if the supervisor does
//                    not within kTimeToEndTree, and then ends the helpers
//   supervisor dies  the kernel kills the ranks, the warden inherits and kills the rest
//   warden dies      the supervisor kills the ranks and what they have started; helpers become
//                    children of dlrun, which ends the job
//
// An agent (--hosts, SLURM) also reads a stream from its frontend. If that closes and the agent
// does not end within kTimeToHear, it is stopped or stuck, and the warden kills it.
//
// If two of them die, the third one does their part. Neither warden nor supervisor has dlrun's
// name, so `killall -9 dlrun` reaches neither. Both run in a session of their own (the terminal's
// signals go to dlrun only), and keep dlrun's environment and working directory for the ranks.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "core/base/system/unique_fd.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start/start_process.h"

namespace dl::launcher {

// Time for a supervisor to end its generation when dlrun is gone, before the warden does it. Also
// the time for the warden to sweep when a supervisor is gone, before dlrun does it.
inline constexpr std::chrono::seconds kTimeToEndTree{20};
// Time for an agent to end when its frontend is gone, before the warden kills it.
inline constexpr std::chrono::seconds kTimeToHear{5};

struct WardenHandle {
  pid_t pid = -1;
  UniqueFd channel;           // to the warden; closes when it is gone (supervisor_channel.h)
  UniqueFd first_supervisor;  // the channel to the supervisor of the first generation, if any
};

// Overwrites `line`'s memory in the new processes. `front`: the stream from the frontend of an
// agent, which stays open in this process; -1: none. Throws kIo.
WardenHandle start_warden(const RankPrograms& programs, CommandLine line, int front = -1);
// Starts a warden without a supervisor, for a dlrun that has no ranks of its own (--hosts, SLURM).
WardenHandle start_warden_of_helpers(CommandLine line);

}  // namespace dl::launcher
