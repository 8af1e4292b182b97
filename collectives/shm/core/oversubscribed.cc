// Core's functions for ranks that outnumber the cores: they track which ranks share a core.
#include "collectives/shm/core/oversubscribed.h"

#include <sched.h>

#include <algorithm>
#include <vector>

#include "collectives/shm/core/core.h"

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

// A rank that moves to another CPU publishes it at its next call only; a long wait yields in any
// case.
void Core::note_cpu() noexcept {
  const int cpu = ::sched_getcpu();
  Atomic<std::int32_t>& said = own().cpu;
  if (said.load(std::memory_order_relaxed) != cpu) said.store(cpu, std::memory_order_relaxed);
}

bool Core::waits_for_own_cpu() const noexcept {
  if (!front_) return true;  // the peer of a message may run on any CPU
  const std::int32_t cpu = own().cpu.load(std::memory_order_relaxed);
  return std::ranges::any_of(peers_, [&](const Peer& p) {
    return p.block->cpu.load(std::memory_order_relaxed) == cpu &&
           protocol_.needs(front_->transfer, p.who.rank);
  });
}

// Linux leaves three of four such ranks on one of two cores for a tenth of a second or longer,
// because threads that yield often do not look worth moving. So the rank moves itself, and restores
// its CPU set at once.
void Core::spread() {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) cpus.push_back(cpu);
  }
  std::vector<std::int32_t> where;
  for (const Peer& p : peers_) where.push_back(p.block->cpu.load(std::memory_order_relaxed));
  const int better = better_cpu(where, rank_, cpus);
  if (better < 0) return;
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(better, &there);
  if (::sched_setaffinity(0, sizeof there, &there) != 0) return;
  ::sched_setaffinity(0, sizeof usable, &usable);
}

}  // namespace dl::collectives::shm
