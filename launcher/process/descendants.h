// The processes below this one. A subreaper inherits the orphans of its tree: if it kills its
// children until none is left, it has killed the whole tree, in all sessions and process groups.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/deadline.h"

namespace dl::launcher {

// Names in `ps`. They do not contain `dlrun`, so that `killall dlrun` and `pkill -f dlrun` reach
// neither process.
inline constexpr const char* kSupervisorName = "rank-supervisor";
inline constexpr const char* kWardenName = "rank-warden";

// Makes this process the parent of orphans below it. Throws kIo.
void become_subreaper();

// Direct children, zombies included.
std::vector<pid_t> children_of_this_process();

// The process itself and all below it, parents before their children.
std::vector<pid_t> tree_of(pid_t root);

// The numbers of a process's threads.
std::vector<pid_t> threads_of(pid_t pid);

// True if the kernel is ending the process, or has ended it.
bool is_ending(pid_t pid);

// Reaps the children that have ended, but not the warden, for which WardenClient waits. dlrun has
// children that it has not started: a shell that executed dlrun had some, and as process 1 of a
// container it gets the orphans of every `exec` into the container.
void reap_orphans();

// Sends a signal to every child, and to the process group that the child leads, if it leads one.
void signal_children(int signal);

// Sends SIGKILL to every child until none is left, including orphans that arrive meanwhile, and
// reaps them.
void kill_descendants() noexcept;
// Gives up at `deadline`, because SIGKILL does not end a process that sleeps uninterruptibly in the
// kernel. Returns false if some processes are left.
bool kill_descendants(rendezvous::Deadline deadline) noexcept;

// Why a process has not ended, a clause: "state D (uninterruptible, until a disk or a driver lets
// it go), in fuse_wait_answer", "it runs as user 0, and user 1000 may not signal it".
std::string why_it_stays(pid_t pid);
// All processes below this one except zombies, the warden and the supervisor: "4711 (cat), state D
// ...".
std::vector<std::string> living_descendants();

// This process's warden and supervisor, as far as a signal has stopped them.
struct StoppedOverseer {
  pid_t pid = -1;
  std::string name;  // "the supervisor"
};
std::vector<StoppedOverseer> stopped_overseers();

// The processes that ranks have started and that are neither ended nor ending: all processes below
// this process's supervisor, parents before their children. Ranks included.
std::vector<pid_t> processes_of_ranks();

// Kills all descendants except the children for which `is_kept` returns true. `on_ended` gets the
// waitpid() status of each reaped process. SIGCHLD must be blocked.
void kill_descendants_but(const std::function<bool(pid_t)>& is_kept,
                          const std::function<void(pid_t, int)>& on_ended);

}  // namespace dl::launcher
