// Finds the dlruns of this user among the processes of this host.
//
// Only /proc is read, and of processes of this user only: no process is signalled, stopped or
// asked. A process may end at any moment; then it is left out. The command line and the environment
// of a process are not read, because the kernel may block such a read.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/system/process/process_stat.h"
#include "core/base/system/unique_fd.h"
#include "launcher/jobs/card/job_card.h"
#include "launcher/jobs/view/job.h"

namespace dl::launcher::jobs {

// Every process of this user, by pid. For root: root's own. Throws kNotFound or kIo if /proc cannot
// be read.
std::map<pid_t, ProcessStat> own_processes();

// What a dlrun shows of itself.
struct FoundDlrun {
  pid_t pid = -1;
  ProcessStat stat;
  CardContent card;
  std::vector<UniqueFd> recorders;  // the flight recorders of its ranks
};

// nullopt: it is no dlrun with a card, it is gone, or this user may not look at it. Throws kIo if
// this process may open no more files.
std::optional<FoundDlrun> look_at_dlrun(pid_t pid);

// All dlruns of this user among `processes`, by pid.
std::vector<FoundDlrun> find_dlruns(const std::map<pid_t, ProcessStat>& processes);

// The processes that run as ranks of this dlrun, by their number in the PID namespace of the dlrun.
std::map<pid_t, pid_t> rank_processes(const FoundDlrun& dlrun,
                                      const std::map<pid_t, ProcessStat>& processes);

// True if a rank's process is gone, though its dlrun does not know it yet: the dlrun may be
// stopped. `pid`: as in rank_processes(). False if it cannot be told, for a dlrun of another PID
// namespace.
bool has_ended(const FoundDlrun& dlrun, pid_t pid);

// "4711@1234567"
std::string id_of(pid_t pid, unsigned long long start_ticks);

// The jobs of this user on this host.
HostJobs jobs_here();

}  // namespace dl::launcher::jobs
