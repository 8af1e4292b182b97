#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/base/system/machine/cgroup.h"
#include "core/base/system/small_file.h"
#include "launcher/doctor/checks/families.h"

namespace dl::launcher::doctor {
namespace {

// A Python program with PyTorch takes about this much before it has a model.
constexpr std::uint64_t kLeastOfRank = 256 * kMiB;
constexpr std::uint64_t kUsualOfRank = kGiB;
constexpr std::uint64_t kLeastShmOfRank = 16 * kMiB;
constexpr std::uint64_t kUsualShm = kGiB;
constexpr std::uint64_t kMostMemory = 1ULL << 60;

std::optional<std::uint64_t> memory_available(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  return std::nullopt;
}

Check check_room(const std::string& name, const std::string& found, std::uint64_t bytes, int ranks,
                 const std::string& mend) {
  const std::uint64_t of_rank = bytes / static_cast<std::uint64_t>(ranks);
  return judged(
      name, found,
      {{of_rank < kLeastOfRank, Verdict::kWrong,
        fmt::format("{} ranks get {} each, and the kernel kills one when it is used up", ranks,
                    size_text(of_rank)),
        mend},
       {of_rank < kUsualOfRank, Verdict::kWarn,
        fmt::format("{} ranks get {} each, which a model soon uses up", ranks, size_text(of_rank)),
        mend}});
}

Check check_shm(const MemoryFacts& facts) {
  const std::string name = "/dev/shm";
  const std::string users =
      "PyTorch's data loaders, NCCL and Open MPI keep shared memory there (dlrun's own collectives "
      "do not)";
  const std::string more = "sudo mount -o remount,size=8G /dev/shm";
  const std::string of_container =
      "; a container gets more by docker's --shm-size=8g, or by an emptyDir with medium: Memory";
  if (!facts.shm) {
    return judged(name, "missing",
                  {{true, Verdict::kWrong, users, "sudo mount -t tmpfs tmpfs /dev/shm"}});
  }
  const MemoryFacts::Shm& shm = *facts.shm;
  return judged(
      name,
      fmt::format("{} free of {}{}", size_text(shm.free), size_text(shm.bytes),
                  shm.is_writable ? "" : ", not writable"),
      {{!shm.is_writable, Verdict::kWrong, users, "sudo chmod 1777 /dev/shm"},
       {shm.free < kLeastShmOfRank * static_cast<std::uint64_t>(facts.ranks), Verdict::kWrong,
        users + ", and end with SIGBUS or `No space left on device`" + of_container, more},
       {shm.bytes < kUsualShm, Verdict::kWarn,
        users + ", and data loaders with large batches need more" + of_container, more}});
}

}  // namespace

MemoryFacts read_memory(const std::string& root, int ranks) {
  MemoryFacts facts{.ranks = ranks,
                    .shm = std::nullopt,
                    .available = memory_available(root),
                    .cgroup_left = memory_left_by_cgroup(root),
                    .huge_pages = first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled")};
  // Version 1 of control groups has a huge number for no limit.
  if (facts.cgroup_left && *facts.cgroup_left > kMostMemory) facts.cgroup_left.reset();
  const std::string shm = root + "/dev/shm";
  struct statvfs room{};
  if (::statvfs(shm.c_str(), &room) == 0) {
    facts.shm = {.is_writable = ::access(shm.c_str(), W_OK | X_OK) == 0,
                 .bytes = static_cast<std::uint64_t>(room.f_blocks) * room.f_frsize,
                 .free = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize};
  }
  return facts;
}

Checks check_memory(const MemoryFacts& facts) {
  const std::string fewer = "start fewer ranks (dlrun -n), or end what else runs here";
  Checks checks = {check_shm(facts)};
  if (facts.available) {
    checks.push_back(check_room("memory", size_text(*facts.available) + " available",
                                *facts.available, facts.ranks, fewer));
  } else {
    checks.push_back(unknown("memory", "/proc/meminfo cannot be read"));
  }
  if (facts.cgroup_left) {
    checks.push_back(check_room(
        "memory of the control group", size_text(*facts.cgroup_left) + " left", *facts.cgroup_left,
        facts.ranks,
        "raise the limit (docker: --memory; SLURM: --mem; systemd: MemoryMax=), or start fewer "
        "ranks"));
  } else {
    checks.push_back({.name = "memory of the control group", .found = "no limit"});
  }
  if (facts.huge_pages) {
    checks.push_back(
        judged("transparent huge pages", *facts.huge_pages,
               {{facts.huge_pages->find("[never]") != std::string::npos, Verdict::kWarn,
                 "large tensors take a page fault every 4 KiB and miss the TLB more often",
                 "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"}}));
  } else {
    checks.push_back(unknown("transparent huge pages", "the kernel does not say"));
  }
  return checks;
}

}  // namespace dl::launcher::doctor
