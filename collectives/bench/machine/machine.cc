#include "collectives/bench/machine/machine.h"

#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

#include "core/base/version.h"

namespace dl::collectives::bench {
namespace {

template <std::size_t N>
void copy(std::array<char, N>& to, const std::string& from) {
  std::memcpy(to.data(), from.data(), std::min(from.size(), N - 1));
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "CPU";
}

RankInfo this_rank(int rank, const Gpu* gpu) {
  RankInfo info{.rank = rank, .pid = ::getpid()};
  std::array<char, 64> host{};
  ::gethostname(host.data(), host.size() - 1);
  copy(info.host, host.data());
  copy(info.model, cpu_model());
  if (gpu != nullptr) {
    info.device = gpu->device();
    copy(info.gpu, gpu->properties().name);
    copy(info.uuid, gpu->properties().uuid);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return info;
  for (std::size_t i = 0; i < info.cpus.size() * 64 && i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) info.cpus[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  return info;
}

bool may_use(const RankInfo& rank, std::size_t cpu) {
  return cpu < rank.cpus.size() * 64 && (rank.cpus[cpu / 64] >> (cpu % 64) & 1) != 0;
}

}  // namespace

std::vector<RankInfo> gather_ranks(ProcessGroup& group, const Gpu* gpu) {
  const RankInfo mine = this_rank(group.rank(), gpu);
  std::vector<RankInfo> all(static_cast<std::size_t>(group.size()));
  group
      .all_gather({.input = &mine, .output = all.data(), .count = sizeof mine, .dtype = DType::kU8})
      ->wait();
  return all;
}

std::size_t cpu_count(const RankInfo& rank) noexcept {
  std::size_t all = 0;
  for (const std::uint64_t word : rank.cpus) all += static_cast<std::size_t>(std::popcount(word));
  return all;
}

std::string cpu_list(const RankInfo& rank) {
  std::string text;
  for (std::size_t first = 0; first < rank.cpus.size() * 64; ++first) {
    if (!may_use(rank, first)) continue;
    std::size_t last = first;
    while (may_use(rank, last + 1)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
    first = last;
  }
  return text;
}

std::vector<std::string> occupancy(const std::vector<RankInfo>& ranks) {
  struct Host {
    RankInfo all;
    std::size_t ranks = 0;
  };
  std::vector<Host> hosts;
  for (const RankInfo& rank : ranks) {
    auto host = std::find_if(hosts.begin(), hosts.end(),
                             [&](const Host& h) { return h.all.host == rank.host; });
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {.all = {.host = rank.host}});
    for (std::size_t i = 0; i < rank.cpus.size(); ++i) host->all.cpus[i] |= rank.cpus[i];
    ++host->ranks;
  }
  std::vector<std::string> clauses;
  for (const Host& host : hosts) {
    const std::size_t cpus = cpu_count(host.all);
    clauses.push_back(
        host.ranks > cpus
            ? fmt::format("{} ranks share {} CPUs on {} (oversubscribed)", host.ranks, cpus,
                          host.all.host.data())
            : fmt::format("{} ranks, {} CPUs on {}", host.ranks, cpus, host.all.host.data()));
  }
  return clauses;
}

bool share_a_gpu(const std::vector<RankInfo>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t j = 0; j < i && ranks[i].device >= 0; ++j) {
      if (ranks[j].uuid == ranks[i].uuid) return true;
    }
  }
  return false;
}

std::string library_versions() {
  utsname kernel{};
  ::uname(&kernel);
#ifdef __clang__
  const std::string compiler = fmt::format("clang {}.{}", __clang_major__, __clang_minor__);
#else
  const std::string compiler = fmt::format("g++ {}.{}", __GNUC__, __GNUC_MINOR__);
#endif
  return fmt::format("dlrun {} (protocol {}), {}, glibc {}, {} {}", kVersion, kProtocolVersion,
                     compiler, ::gnu_get_libc_version(), kernel.sysname, kernel.release);
}

}  // namespace dl::collectives::bench
