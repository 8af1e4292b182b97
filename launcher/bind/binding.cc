#include "launcher/bind/binding.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

using Cores = std::vector<Core>;

// The cores grouped by socket or NUMA node, in the order of each group's first core.
std::vector<Cores> domains(const Cores& cores, int Core::* number) {
  std::vector<Cores> result;
  for (const Core& core : cores) {
    const auto same = std::ranges::find_if(
        result, [&](const Cores& domain) { return domain.front().*number == core.*number; });
    if (same == result.end()) {
      result.push_back({core});
    } else {
      same->push_back(core);
    }
  }
  return result;
}

Binding to_cores(std::span<const Core> cores) {
  Binding binding;
  for (const Core& core : cores) {
    binding.cpus.insert(binding.cpus.end(), core.cpus.begin(), core.cpus.end());
    binding.places.push_back(core.cpus);
  }
  std::ranges::sort(binding.cpus);
  binding.threads = static_cast<int>(cores.size());
  return binding;
}

// Treats each hardware thread as a core, for more ranks than cores.
Cores hardware_threads(const Cores& cores) {
  Cores threads;
  for (const Core& core : cores) {
    for (const int cpu : core.cpus) threads.push_back({core.socket, core.numa_node, {cpu}});
  }
  return threads;
}

// The binding of rank i of n ranks that have `cores` to themselves.
Binding even_run(const Cores& cores, int n, int i) {
  const Cores threads =
      static_cast<std::size_t>(n) > cores.size() ? hardware_threads(cores) : cores;
  const auto size = static_cast<std::int64_t>(threads.size());
  const std::int64_t begin = size * i / n;
  // If ranks outnumber hardware threads, some share one.
  const std::int64_t end = std::max(begin + 1, size * (i + 1) / n);
  return to_cores(std::span(threads).subspan(static_cast<std::size_t>(begin),
                                             static_cast<std::size_t>(end - begin)));
}

Binding core_run(const Cores& cores, int n, int i, int threads) {
  const std::int64_t wanted = std::int64_t{n} * threads;
  Cores from = cores;
  if (wanted > std::ssize(from)) from = hardware_threads(cores);
  DL_CHECK(wanted <= std::ssize(from), kInvalidArgument,
           "--bind core: {} ranks of {} threads want {} CPUs, and {} can be used; take fewer ranks "
           "or --bind even, which lets ranks share a CPU",
           n, threads, wanted, from.size());
  return to_cores(std::span(from).subspan(static_cast<std::size_t>(i) * threads,
                                          static_cast<std::size_t>(threads)));
}

}  // namespace

std::vector<Binding> bind_ranks(const Topology& topology, const BindRequest& request) {
  std::vector<Binding> bindings(static_cast<std::size_t>(request.ranks));
  if (request.bind == Bind::kNone) return bindings;
  DL_CHECK(!topology.cores.empty(), kInternal, "bind_ranks: the machine has no core");
  const std::vector<Cores> groups =
      request.map_by == MapBy::kCore
          ? std::vector<Cores>{topology.cores}
          : domains(topology.cores,
                    request.map_by == MapBy::kNuma ? &Core::numa_node : &Core::socket);
  const int group_count = static_cast<int>(groups.size());
  const int threads = request.threads.value_or(
      std::max(1, static_cast<int>(topology.cores.size()) / request.ranks));
  int Core::* const domain = request.bind == Bind::kNuma ? &Core::numa_node : &Core::socket;
  const std::vector<Cores> all = domains(topology.cores, domain);
  std::vector<std::size_t> chosen(bindings.size());  // of `all`, by rank; for numa and socket
  for (int rank = 0; rank < request.ranks; ++rank) {
    const int group = rank % group_count;
    const Cores& cores = groups[static_cast<std::size_t>(group)];
    const int i = rank / group_count;                                       // among the ranks
    const int n = (request.ranks - group + group_count - 1) / group_count;  // of its group
    const auto at = static_cast<std::size_t>(rank);
    switch (request.bind) {
      case Bind::kNone:
        break;
      case Bind::kCore:
        bindings[at] = core_run(cores, n, i, threads);
        break;
      case Bind::kEven:
        bindings[at] = even_run(cores, n, i);
        break;
      case Bind::kNuma:
      case Bind::kSocket: {
        const std::vector<Cores> near = domains(cores, domain);
        const int number =
            near[near.size() * static_cast<std::size_t>(i) / static_cast<std::size_t>(n)].front().*
            domain;
        const auto found = std::ranges::find_if(
            all, [&](const Cores& one) { return one.front().*domain == number; });
        chosen[at] = static_cast<std::size_t>(found - all.begin());
        break;
      }
    }
  }
  if (request.bind != Bind::kNuma && request.bind != Bind::kSocket) return bindings;
  for (std::size_t rank = 0; rank < bindings.size(); ++rank) {
    const auto sharers = static_cast<int>(std::ranges::count(chosen, chosen[rank]));
    bindings[rank] = to_cores(all[chosen[rank]]);
    if (sharers > 1) {
      // Threads of several ranks must not be pinned to the same places.
      bindings[rank].places.clear();
      bindings[rank].threads = std::max(1, bindings[rank].threads / sharers);
    }
  }
  return bindings;
}

}  // namespace dl::launcher
