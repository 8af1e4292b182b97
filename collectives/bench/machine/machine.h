// The environment of a benchmark: the ranks, the CPUs they may use, and the versions of libraries.
// It is printed with every result. Values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/bench/machine/gpu.h"

namespace dl::collectives::bench {

// One rank, as plain bytes that the ranks can gather.
struct RankInfo {
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::array<std::uint64_t, 32> cpus{};  // bit i: CPU i may be used
  std::array<char, 64> host{};
  std::array<char, 64> model{};  // of the CPU
  std::int32_t device = -1;      // the GPU's number in its process; -1: none
  std::array<char, 64> gpu{};    // its name
  std::array<char, 48> uuid{};
};

// Collective: every rank calls it. In rank order.
std::vector<RankInfo> gather_ranks(ProcessGroup& group, const Gpu* gpu = nullptr);

// "0-3,8"
std::string cpu_list(const RankInfo& rank);
std::size_t cpu_count(const RankInfo& rank) noexcept;

// One clause for each host: "4 ranks share 2 CPUs on node1 (oversubscribed)", "2 ranks, 2 CPUs on
// node2". A host's CPUs are all CPUs that any of its ranks may use.
std::vector<std::string> occupancy(const std::vector<RankInfo>& ranks);

// True if two ranks use one GPU.
bool share_a_gpu(const std::vector<RankInfo>& ranks);

// "dlrun 1.2.3 (protocol 1), g++ 12.2.0, glibc 2.36, Linux 6.1.0"
std::string library_versions();

}  // namespace dl::collectives::bench
