#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "collectives/record/format.h"
#include "core/base/system/machine/cgroup.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/doctor/checks/families.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/topo/devices.h"

namespace dl::launcher::doctor {
namespace {

constexpr std::uint64_t kFewOpenFiles = 1024;
constexpr std::uint64_t kManyOpenFiles = 65536;
// Threads that a rank has at least (its own, dlrun's, OpenMP's), and has with data loading.
constexpr std::uint64_t kLeastThreads = 8;
constexpr std::uint64_t kUsualThreads = 64;

Limit limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return {};
  const auto value = [](rlim_t n) { return n == RLIM_INFINITY ? kNoLimit : n; };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

std::string count_text(std::uint64_t n) {
  return n == kNoLimit ? "no limit" : fmt::format("{}", n);
}
std::string text_of(const Limit& limit, std::string (*text)(std::uint64_t)) {
  if (limit.soft == limit.hard) return text(limit.soft);
  return fmt::format("{}, at most {}", text(limit.soft), text(limit.hard));
}

struct Named {
  char letter;            // of ulimit
  std::string_view item;  // of limits.conf
  Limit limit;
  bool is_root;
};

// With the command that raises a soft limit; a hard one takes root and a new login. Each limit has
// a file of its own, so that one command does not undo another. PAM does not apply a line for "*"
// to root, so the line names root if dlrun runs as root.
Rule raise(bool applies, Verdict verdict, const std::string& why, const Named& named,
           std::uint64_t wanted) {
  const std::string value = wanted == kNoLimit ? "unlimited" : fmt::format("{}", wanted);
  if (named.limit.hard >= wanted) {
    return {applies, verdict, why, fmt::format("ulimit -{} {}", named.letter, value)};
  }
  return {applies, verdict, why + "; a higher limit counts from the next login",
          fmt::format("echo '{0} - {1} {2}' | sudo tee /etc/security/limits.d/dlrun-{1}.conf",
                      named.is_root ? "root" : "*", named.item, value)};
}

}  // namespace

LimitFacts read_limits(const std::string& root, int ranks) {
  LimitFacts facts{.ranks = ranks,
                   .is_root = ::geteuid() == 0,
                   .open_files = limit_of(RLIMIT_NOFILE),
                   .processes = limit_of(RLIMIT_NPROC),
                   .locked_memory = limit_of(RLIMIT_MEMLOCK),
                   .address_space = limit_of(RLIMIT_AS),
                   .file_size = limit_of(RLIMIT_FSIZE),
                   .pids_max = pids_limit(root).value_or(kNoLimit)};
  for (const topo::Device& device : topo::read_devices(root)) {
    facts.has_rdma = facts.has_rdma || device.kind == topo::DeviceKind::kInfiniBand;
    facts.has_gpu = facts.has_gpu || device.kind == topo::DeviceKind::kGpu;
  }
  return facts;
}

Checks check_limits(const LimitFacts& facts) {
  const auto ranks = static_cast<std::uint64_t>(facts.ranks);
  const auto needed = static_cast<std::uint64_t>(
      least_descriptor_limit(descriptors_for(facts.ranks, /*with_logs=*/true), kHighestRankFd));
  const Named files{'n', "nofile", facts.open_files, facts.is_root};
  const Named threads{'u', "nproc", facts.processes, facts.is_root};
  const Named locked{'l', "memlock", facts.locked_memory, facts.is_root};
  const Named space{'v', "as", facts.address_space, facts.is_root};
  const Named size{'f', "fsize", facts.file_size, facts.is_root};
  const std::uint64_t processes = std::min(facts.processes.soft, facts.pids_max);
  const bool is_cgroup = facts.pids_max < facts.processes.soft;
  const auto more_processes = [&](bool applies, Verdict verdict, const std::string& why) -> Rule {
    const std::uint64_t wanted = ranks * kUsualThreads * 2;
    if (!is_cgroup) return raise(applies, verdict, why, threads, wanted);
    return {applies, verdict, why,
            fmt::format("raise pids.max of the control group (docker: --pids-limit {0}; systemd: "
                        "TasksMax={0})",
                        wanted)};
  };
  Checks checks;
  checks.push_back(judged(
      "open files (ulimit -n)", text_of(facts.open_files, count_text),
      {raise(
           facts.open_files.hard < needed, Verdict::kWrong,
           fmt::format("dlrun needs {} for {} ranks with logs, and does not start", needed, ranks),
           files, std::max(needed, kManyOpenFiles)),
       raise(facts.open_files.soft < kFewOpenFiles, Verdict::kWarn,
             "a rank of a large job opens a socket to each other rank, and data loaders open files",
             files, std::min(kManyOpenFiles, std::max(kFewOpenFiles, facts.open_files.hard)))}));
  checks.push_back(judged(
      "processes and threads (ulimit -u)",
      fmt::format("{}{}", count_text(processes), is_cgroup ? " (pids.max)" : ""),
      {more_processes(processes < ranks * kLeastThreads, Verdict::kWrong,
                      fmt::format("{} ranks have at least {} threads, and the system refuses more",
                                  ranks, ranks * kLeastThreads)),
       more_processes(processes < ranks * kUsualThreads, Verdict::kWarn,
                      "OpenMP and data loaders start dozens of threads in each rank")}));
  checks.push_back(
      judged("locked memory (ulimit -l)", text_of(facts.locked_memory, size_text),
             {raise(facts.has_rdma && facts.locked_memory.soft != kNoLimit, Verdict::kWrong,
                    "InfiniBand and RoCE lock the memory that they transfer, and fail with `Cannot "
                    "allocate memory`",
                    locked, kNoLimit)}));
  const bool is_unlimited = facts.address_space.soft == kNoLimit;
  checks.push_back(judged(
      "address space (ulimit -v)", text_of(facts.address_space, size_text),
      {raise(facts.has_gpu && !is_unlimited, Verdict::kWrong,
             "CUDA reserves address space for the memory of all GPUs and of the host, and does not "
             "start",
             space, kNoLimit),
       raise(!is_unlimited, Verdict::kWarn,
             "a rank runs out of memory at this limit, although the host has more", space,
             kNoLimit)}));
  checks.push_back(judged(
      "file size (ulimit -f)", text_of(facts.file_size, size_text),
      {raise(facts.file_size.soft == 0, Verdict::kWrong,
             "dlrun cannot write the job's key to a file in memory, and starts no job", size,
             kNoLimit),
       raise(facts.file_size.soft < collectives::record::kBytes, Verdict::kWarn,
             "ranks have no flight recorders, so nothing says who waits for whom; logs end at this "
             "size",
             size, kNoLimit),
       raise(facts.file_size.soft != kNoLimit, Verdict::kWarn,
             "logs and checkpoints end at this size", size, kNoLimit)}));
  return checks;
}

}  // namespace dl::launcher::doctor
