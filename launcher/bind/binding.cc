#include "launcher/bind/binding.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

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

// The ranks of a node in groups that have cores to themselves.
struct RankGroup {
  Cores cores;
  std::vector<int> ranks;  // ascending
};

// Rank r is in group r mod n.
std::vector<RankGroup> groups_in_turn(std::vector<Cores> all, int ranks) {
  std::vector<RankGroup> groups;
  for (Cores& cores : all) groups.push_back({std::move(cores), {}});
  for (int rank = 0; rank < ranks; ++rank) {
    groups[static_cast<std::size_t>(rank) % groups.size()].ranks.push_back(rank);
  }
  return groups;
}

// Cores that a rank must have to itself.
int cores_wanted(const BindRequest& request) {
  if (request.bind == Bind::kCore) return request.threads.value_or(1);
  return request.bind == Bind::kEven ? 1 : 0;
}

// Ranks whose GPUs are near the same CPUs are in one group. Empty: not every rank has such cores,
// two groups would share a core, or the cores of one are too few.
std::vector<RankGroup> groups_near_gpus(const Cores& cores, const BindRequest& request) {
  std::vector<RankGroup> groups;
  if (request.near.size() != static_cast<std::size_t>(request.ranks)) return groups;
  std::map<std::vector<int>, std::size_t> number_of;
  std::set<int> taken;
  for (int rank = 0; rank < request.ranks; ++rank) {
    const std::vector<int>& near = request.near[static_cast<std::size_t>(rank)];
    const auto [known, is_new] = number_of.try_emplace(near, groups.size());
    if (is_new) {
      RankGroup& group = groups.emplace_back();
      for (const Core& core : cores) {
        if (!std::ranges::binary_search(near, core.cpus.front())) continue;
        if (!taken.insert(core.cpus.front()).second) return {};
        group.cores.push_back(core);
      }
    }
    groups[known->second].ranks.push_back(rank);
  }
  const bool fits = std::ranges::all_of(groups, [&](const RankGroup& group) {
    return !group.cores.empty() &&
           std::ssize(group.ranks) * cores_wanted(request) <= std::ssize(group.cores);
  });
  return fits ? groups : std::vector<RankGroup>();
}

std::vector<RankGroup> groups_of(const Cores& cores, const BindRequest& request) {
  switch (request.map_by) {
    case MapBy::kCore:
      break;
    case MapBy::kNuma:
      return groups_in_turn(domains(cores, &Core::numa_node), request.ranks);
    case MapBy::kSocket:
      return groups_in_turn(domains(cores, &Core::socket), request.ranks);
  }
  std::vector<RankGroup> near = groups_near_gpus(cores, request);
  return near.empty() ? groups_in_turn({cores}, request.ranks) : near;
}

// Threads of each rank if the user gave no number: as many as every group has cores for.
int threads_that_fit(const std::vector<RankGroup>& groups) {
  std::size_t fewest = std::numeric_limits<int>::max();
  for (const RankGroup& group : groups) {
    if (!group.ranks.empty()) fewest = std::min(fewest, group.cores.size() / group.ranks.size());
  }
  return std::max(1, static_cast<int>(fewest));
}

}  // namespace

std::vector<Binding> bind_ranks(const Topology& topology, const BindRequest& request) {
  std::vector<Binding> bindings(static_cast<std::size_t>(request.ranks));
  if (request.bind == Bind::kNone) return bindings;
  DL_CHECK(!topology.cores.empty(), kInternal, "bind_ranks: the machine has no core");
  const std::vector<RankGroup> groups = groups_of(topology.cores, request);
  const int threads = request.threads.value_or(threads_that_fit(groups));
  int Core::* const domain = request.bind == Bind::kNuma ? &Core::numa_node : &Core::socket;
  const std::vector<Cores> all = domains(topology.cores, domain);
  std::vector<std::size_t> chosen(bindings.size());  // of `all`, by rank; for numa and socket
  for (const RankGroup& group : groups) {
    const int n = static_cast<int>(group.ranks.size());
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(group.ranks[static_cast<std::size_t>(i)]);
      switch (request.bind) {
        case Bind::kNone:
          break;
        case Bind::kCore:
          bindings[at] = core_run(group.cores, n, i, threads);
          break;
        case Bind::kEven:
          bindings[at] = even_run(group.cores, n, i);
          break;
        case Bind::kNuma:
        case Bind::kSocket: {
          const std::vector<Cores> near = domains(group.cores, domain);
          const int number =
              near[near.size() * static_cast<std::size_t>(i) / static_cast<std::size_t>(n)]
                  .front().*
              domain;
          const auto found = std::ranges::find_if(
              all, [&](const Cores& one) { return one.front().*domain == number; });
          chosen[at] = static_cast<std::size_t>(found - all.begin());
          break;
        }
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
