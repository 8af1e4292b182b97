// The supervisor: the process that starts every rank, and the reason why nothing is left behind.
//
//   dlrun ── warden ── supervisor ── ranks ── whatever they start
//
// All three on the left are subreapers, so that each has everything below it, daemons included, as
// its descendants. Each shares a socket with each other one, which closes when one of them dies:
//
//   dlrun dies       the supervisor ends the tree; the warden does it if the supervisor does not
//   supervisor dies  the kernel kills the ranks, the warden inherits and kills the rest
//   warden dies      the supervisor kills the ranks and whatever they have started, as it would
//                    otherwise be alone with dlrun in keeping the promise that nothing is left
//
// When two of them die, the third one does it. Neither warden nor supervisor carries dlrun's name,
// so that `killall -9 dlrun` reaches neither.
//
// Supervisor and warden are made by fork() from a dlrun that has no threads yet, run in a session
// of their own (the terminal's signals go to dlrun alone), and keep dlrun's environment and
// working directory for the ranks.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"

namespace dl::launcher {

// Time that what is left behind by ranks which ended on their own gets to end too (a `tee` that
// still writes), before SIGTERM; then time before SIGKILL.
inline constexpr std::chrono::milliseconds kPatience{100};
inline constexpr std::chrono::milliseconds kLastGrace{200};
// The most that those of them get, beyond their patience, which still have something to do.
inline constexpr std::chrono::seconds kMostPatience{5};

// Time for the supervisor to end the tree when dlrun is gone, before the warden does it; and for
// the warden when the supervisor is gone, before dlrun does it.
inline constexpr std::chrono::seconds kTimeToEndTree{20};

struct SupervisorHandle {
  UniqueFd channel;      // dlrun's end (supervisor_channel.h)
  pid_t warden = -1;     // ends with the supervisor's exit code, 128+n if signal n ended that
  UniqueFd warden_life;  // readable (its end) when the warden is gone
};

// What kSpawn starts where it names no program of its own.
struct Job {
  std::string path;
  std::vector<std::string> argv;
  rlimit open_files;  // of the ranks: dlrun's own is higher
};

// `argv` is main's: its memory shows in `ps`, and is overwritten in the two new processes.
SupervisorHandle start_supervisor(const Job& job, int argc, char** argv);

}  // namespace dl::launcher
