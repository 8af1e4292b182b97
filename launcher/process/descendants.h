// All that lives below this process. A subreaper inherits the orphans of its tree: if it kills its
// children until none is left, it has killed the whole tree, in all sessions and process groups.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/deadline.h"

namespace dl::launcher {

// Names in `ps`. They do not contain `dlrun`, so that `killall dlrun` and `pkill -f` reach neither.
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

// Whether some thread of a child, or of a child's child, has a processor or waits for one or for a
// disk: it is not done, however long the machine keeps it from going on.
bool a_descendant_runs();

// Whether the kernel is taking the process apart, or has done so.
bool is_ending(pid_t pid);

// Sends a signal to every child, and to the process group that it leads, if it does.
void signal_children(int signal);

// SIGKILL to every child until none is left, orphans that arrive meanwhile included; reaps them.
void kill_descendants() noexcept;
// Gives up at `deadline`. False: some are left, as a process that sleeps uninterruptibly in the
// kernel takes no SIGKILL.
bool kill_descendants(Deadline deadline) noexcept;

// "state D (uninterruptible: a disk or a driver), in fuse_wait_answer": what a process waits for.
std::string why_it_stays(pid_t pid);
// All processes below this one but for zombies, the warden and the supervisor:
// "4711 (cat), state D ...".
std::vector<std::string> living_descendants();

// Kills all but the children that `is_kept` names; `on_ended` gets the waitpid() status of each
// process that was reaped. SIGCHLD must be blocked.
void kill_descendants_but(const std::function<bool(pid_t)>& is_kept,
                          const std::function<void(pid_t, int)>& on_ended);

}  // namespace dl::launcher
