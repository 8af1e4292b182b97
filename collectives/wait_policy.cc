#include "collectives/wait_policy.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace dl::collectives {

WaitPolicy wait_policy(int local_ranks, int usable, int online) noexcept {
  using namespace std::chrono_literals;
  const bool own_core = usable >= local_ranks || usable * local_ranks <= online;
  return own_core ? WaitPolicy{.spin = 1ms, .yields = false}
                  : WaitPolicy{.spin = 50us, .yields = true};
}

WaitPolicy wait_policy(int local_ranks) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int online = std::max(static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), 1);
  // Fails where the machine has more CPUs than the set can name: then nobody is short of them.
  const int usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : online;
  return wait_policy(local_ranks, usable, online);
}

}  // namespace dl::collectives
