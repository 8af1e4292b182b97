#include "collectives/shm/peers/oversubscribed.h"

#include <sched.h>

#include <algorithm>
#include <vector>

namespace dl::collectives::shm {

int better_cpu(std::span<const std::int32_t> cpus, int rank, std::span<const int> usable) {
  const std::int32_t here = cpus[static_cast<std::size_t>(rank)];
  const auto ranks_on = [&](int cpu) { return std::ranges::count(cpus, cpu); };
  const bool is_last = std::ranges::count(cpus.subspan(static_cast<std::size_t>(rank)), here) == 1;
  if (!is_last || usable.empty() || std::ranges::any_of(cpus, [](int cpu) { return cpu < 0; })) {
    return -1;
  }
  const int best = *std::ranges::min_element(usable, {}, ranks_on);
  return ranks_on(best) + 2 <= ranks_on(here) ? best : -1;
}

void note_cpu(Block& own) noexcept {
  const int cpu = ::sched_getcpu();
  if (own.cpu.load(std::memory_order_relaxed) != cpu) {
    own.cpu.store(cpu, std::memory_order_relaxed);
  }
}

// Linux leaves three of four such ranks on one of two cores for a tenth of a second or longer:
// threads that yield often do not look worth moving. So the rank moves itself, and restores its CPU
// set at once.
void spread(const Peers& peers) {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) cpus.push_back(cpu);
  }
  std::vector<std::int32_t> where;
  for (const Peer& p : peers) where.push_back(p.block->cpu.load(std::memory_order_relaxed));
  const int better = better_cpu(where, peers.rank(), cpus);
  if (better < 0) return;
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(better, &there);
  if (::sched_setaffinity(0, sizeof there, &there) != 0) return;
  ::sched_setaffinity(0, sizeof usable, &usable);
}

}  // namespace dl::collectives::shm
