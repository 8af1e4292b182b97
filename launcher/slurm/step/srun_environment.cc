#include "launcher/slurm/step/srun_line.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace dl::launcher {
namespace {

// clang-format off
// The input variables of srun's manual (SLURM 22.05), and some that later ones have, except those that
//   - tell srun which job this is: SLURM_CONF, SLURM_JOB_ID, SLURM_JOB_NODELIST, SLURM_JOB_NUM_NODES,
//     SLURM_WORKING_CLUSTER, SLURM_NODE_ALIASES
//   - an option of dlrun's line replaces: SLURM_NTASKS, SLURM_NPROCS, SLURM_NNODES,
//     SLURM_NTASKS_PER_NODE, SLURM_JOB_NAME
//   - say how SLURM measures or runs processes, which `#SBATCH` lines ask for: SLURM_ACCTG_FREQ,
//     SLURM_PROFILE, SLURM_CPU_FREQ_REQ, SLURM_GPU_FREQ, SLURM_NETWORK, SLURM_POWER, SLURM_UMASK
//   - belong to PMI, which dlrun's step does not use.
// clang-format on
constexpr const char* kRemoved[] = {
    // What srun says, and how it ends: --quiet contradicts --verbose.
    "SLURM_DEBUG", "SLURMD_DEBUG", "SLURM_DEBUG_FLAGS", "SLURM_EXIT_ERROR", "SLURM_EXIT_IMMEDIATE",
    "SLURM_DISABLE_STATUS", "SLURM_SRUN_REDUCE_TASK_EXIT_MSG", "SLURM_STEP_KILLED_MSG_NODE_ID",
    "SLURM_TEST_EXEC",
    // The program: an agent is started by its path, with this environment and in no container.
    "SLURM_BCAST", "SLURM_BCAST_EXCLUDE", "SLURM_COMPRESS", "SLURM_SEND_LIBS", "SLURM_CONTAINER",
    "SRUN_CONTAINER", "SLURM_CONTAINER_ID", "SRUN_CONTAINER_ID", "SLURM_EXPORT_ENV",
    "SRUN_EXPORT_ENV", "SLURM_PROLOG", "SLURM_EPILOG", "SLURM_TASK_PROLOG", "SLURM_TASK_EPILOG",
    "SLURM_REMOTE_CWD", "SLURM_WORKING_DIR", "SLURM_SRUN_MULTI", "SLURM_MPI_TYPE",
    // Streams: the key comes on standard input.
    "SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SRUN_INPUT", "SRUN_OUTPUT",
    "SRUN_ERROR", "SLURM_OPEN_MODE", "SLURM_LABELIO", "SLURM_UNBUFFEREDIO",
    // The placement of tasks: one on each node, in the order of the nodes.
    "SLURM_HOSTFILE", "SLURM_ARBITRARY_NODELIST", "SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE",
    "SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET", "SLURM_OVERCOMMIT", "SLURM_USE_MIN_NODES",
    "SLURM_SPREAD_JOB", "SLURM_SEGMENT_SIZE", "SRUN_SEGMENT_SIZE", "SLURM_CONSOLIDATE_SEGMENTS",
    "SRUN_CONSOLIDATE_SEGMENTS",
    // What a task gets: all that the job has on its node, beside other steps, and unbound.
    "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_OVERLAP", "SLURM_WHOLE", "SLURM_CORE_SPEC",
    "SLURM_THREAD_SPEC", "SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "SLURM_CPU_BIND_TYPE",
    "SLURM_CPU_BIND_VERBOSE", "SLURM_MEM_BIND", "SLURM_MEM_BIND_LIST", "SLURM_MEM_BIND_PREFER",
    "SLURM_MEM_BIND_SORT", "SLURM_MEM_BIND_TYPE", "SLURM_MEM_BIND_VERBOSE", "SLURM_ACCEL_BIND",
    "SLURM_GPU_BIND", "SLURM_HINT", "SRUN_CPUS_PER_TASK", "SLURM_GRES", "SLURM_STEP_GRES",
    "SLURM_GRES_FLAGS", "SLURM_TRES_BIND", "SLURM_RESV_PORTS", "SLURM_NCORES_PER_SOCKET",
    "SLURM_NSOCKETS_PER_NODE",
    // How the step ends: dlrun ends it.
    "SLURM_KILL_BAD_EXIT", "SLURM_NO_KILL", "SLURM_WAIT", "SLURM_TIMELIMIT", "SLURM_SIGNAL",
    "SLURM_OOM_KILL_STEP", "SLURM_THREADS",
    // The allocation, which is there: srun would look for another one, or wait.
    "SLURM_ACCOUNT", "SLURM_BURST_BUFFER", "SLURM_CLUSTERS", "SLURM_CLUSTER_CONSTRAINT",
    "SLURM_CONSTRAINT", "SLURM_DELAY_BOOT", "SLURM_DEPENDENCY", "SLURM_IMMEDIATE",
    "SLURM_PARTITION", "SLURM_QOS", "SLURM_REQ_SWITCH", "SLURM_RESERVATION", "SLURM_WAIT4SWITCH",
    "SLURM_WCKEY"};

// Removed too; sbatch sets them to what the job has asked for, and programs read them.
constexpr const char* kToldToRanks[] = {
    "SLURM_CPUS_PER_TASK",  "SLURM_CPUS_PER_GPU",    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",  "SLURM_GPUS_PER_SOCKET", "SLURM_GPUS_PER_TASK",
    "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES", "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",    "SLURM_MEM_PER_NODE",    "SLURM_THREADS_PER_CORE",
    "SLURM_TRES_PER_TASK"};

bool is_removed(std::string_view name) {
  const auto is_it = [name](const char* one) { return name == one; };
  return std::ranges::any_of(kRemoved, is_it) || std::ranges::any_of(kToldToRanks, is_it);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> told_to_ranks() {
  std::vector<std::pair<std::string, std::string>> told;
  for (const char* const name : kToldToRanks) {
    // srun's names, of which dlrun itself reads few.
    const char* const value = ::getenv(name);
    if (value != nullptr) told.emplace_back(name, value);
  }
  return told;
}

void clear_environment_for_srun() {
  for (const char* const name : kRemoved) ::unsetenv(name);
  for (const char* const name : kToldToRanks) ::unsetenv(name);
}

std::vector<std::string> environment_for_srun() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!is_removed(text.substr(0, text.find('=')))) kept.emplace_back(text);
  }
  return kept;
}

}  // namespace dl::launcher
