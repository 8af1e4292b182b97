#include "collectives/waiting/wait_policy.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/system/machine/cgroup.h"

namespace dl::collectives {

using namespace std::chrono_literals;

WaitPolicy wait_policy(int local_ranks, int usable, int online) noexcept {
  const bool own_core = usable >= local_ranks || usable * local_ranks <= online;
  return own_core ? WaitPolicy{.spin = 1ms, .yields = false}
                  : WaitPolicy{.spin = 50us, .yields = true};
}

WaitPolicy wait_policy(int local_ranks) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int online = std::max(static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), 1);
  // Fails if the machine has more CPUs than the set can hold: then CPUs are not short.
  const int usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : online;
  // A process that uses up its cgroup's quota by spinning is stopped for the rest of the period.
  const std::optional<double> quota = cpu_quota();
  const int granted = quota ? std::max(static_cast<int>(std::ceil(*quota)), 1) : online;
  return wait_policy(local_ranks, std::min(usable, granted), std::min(online, granted));
}

}  // namespace dl::collectives
