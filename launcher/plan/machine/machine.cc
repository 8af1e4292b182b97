#include "launcher/plan/machine/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <string_view>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/cgroup.h"

namespace dl::launcher {
int Machine::usable_cores() const {
  int cores = std::max(1, static_cast<int>(cpus.size()));
  // A quota of 1.5 keeps two threads half busy; one thread would leave half a CPU unused.
  if (quota) cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(*quota))));
  return cores;
}

std::string host_name() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) != 0) throw_errno(errno, "gethostname");
  return host;
}

Machine this_machine() {
  Machine machine;
  machine.host = host_name();

  // The kernel's set may be larger than cpu_set_t on big machines.
  for (int room = CPU_SETSIZE;; room *= 2) {
    cpu_set_t* set = CPU_ALLOC(room);
    const std::size_t bytes = CPU_ALLOC_SIZE(room);
    const int failed = ::sched_getaffinity(0, bytes, set) == 0 ? 0 : errno;
    for (int cpu = 0; failed == 0 && cpu < room; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) machine.cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (failed == 0) break;
    if (failed != EINVAL || room > (1 << 20)) throw_errno(failed, "sched_getaffinity");
  }
  machine.quota = cpu_quota();
  // SLURM confines a job to its CPUs only if the cluster is configured to do so.
  const auto allocated = env::get_int(env::Var::kSlurmCpusOnNode);
  if (allocated && *allocated > 0 && *allocated < machine.quota.value_or(HUGE_VAL)) {
    machine.quota = static_cast<double>(*allocated);
  }
  return machine;
}

}  // namespace dl::launcher
