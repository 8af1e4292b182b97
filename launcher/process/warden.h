// The processes below dlrun, and the reason why nothing is left behind:
//
//   dlrun ── warden ─┬─ supervisor ── ranks ── whatever they start
//                    └─ helpers of dlrun's own (dlrun-rendezvous, srun, ssh)
//
// The warden is forked first, from a dlrun that has no threads yet. It stays single-threaded, so
// that it can fork at any time: it forks one supervisor a generation, the first at once. To sweep a
// generation is one act: when its supervisor has exited, the warden kills all that is left below
// itself but the helpers, and says kSwept. dlrun itself never forks again.
//
// All three on the left are subreapers, so that each has everything below it, daemons included, as
// its descendants. Each two of them share a socket, which closes when one of them dies:
//
//   dlrun dies       the supervisor ends the generation; the warden does it if the supervisor does
//                    not within kTimeToEndTree, and then ends the helpers
//   supervisor dies  the kernel kills the ranks, the warden inherits and kills the rest
//   warden dies      the supervisor kills the ranks and what they have started; helpers fall to
//                    dlrun, which ends the job
//
// When two of them die, the third one does it. Neither warden nor supervisor carries dlrun's name,
// so that `killall -9 dlrun` reaches neither. Both run in a session of their own (the terminal's
// signals go to dlrun alone), and keep dlrun's environment and working directory for the ranks.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "core/base/unique_fd.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start_process.h"

namespace dl::launcher {

// Time for a supervisor to end its generation when dlrun is gone, before the warden does it; and
// for the warden to sweep when a supervisor is gone, before dlrun does it.
inline constexpr std::chrono::seconds kTimeToEndTree{20};

struct WardenHandle {
  pid_t pid = -1;
  UniqueFd channel;           // to the warden; closes when it is gone (supervisor_channel.h)
  UniqueFd first_supervisor;  // the channel to the supervisor of the first generation, if any
};

// `line`'s memory is overwritten in the new processes. Throws kIo.
WardenHandle start_warden(const RankProgram& program, CommandLine line);
// The same without a supervisor, for a dlrun that has no ranks of its own (--hosts, SLURM).
WardenHandle start_warden_of_helpers(CommandLine line);

}  // namespace dl::launcher
