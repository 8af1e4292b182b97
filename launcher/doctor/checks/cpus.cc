#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/system/machine/cgroup.h"
#include "core/base/system/machine/cpus.h"
#include "core/base/text/name_list.h"
#include "core/base/text/number.h"
#include "launcher/doctor/checks/families.h"
#include "launcher/plan/machine/machine.h"

namespace dl::launcher::doctor {
namespace {

constexpr env::Var kPlacing[] = {env::Var::kOmpProcBind, env::Var::kOmpPlaces,
                                 env::Var::kGompCpuAffinity, env::Var::kKmpAffinity};

std::map<std::string, int> governors_of(const std::string& root) {
  std::map<std::string, int> governors;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/devices/system/cpu", error)) {
    const auto governor = first_line(entry.path().string() + "/cpufreq/scaling_governor");
    const auto driver = first_line(entry.path().string() + "/cpufreq/scaling_driver");
    if (!governor) continue;
    // With this driver, powersave raises the frequency as far as the load asks for.
    const bool is_dynamic = *governor == "powersave" && driver == "intel_pstate";
    ++governors[is_dynamic ? "powersave (intel_pstate)" : *governor];
  }
  return governors;
}

std::string text_of(const std::map<std::string, int>& governors) {
  std::vector<std::string> parts;
  for (const auto& [name, cpus] : governors) {
    parts.push_back(
        fmt::format("{} on {}", name, counted(static_cast<std::uint64_t>(cpus), "CPU")));
  }
  return parts.empty() ? "none: the system sets the frequency" : detail::name_list(parts);
}

}  // namespace

CpuFacts read_cpus(const std::string& root, int ranks) {
  CpuFacts facts{.ranks = ranks,
                 .usable = static_cast<int>(this_machine().cpus.size()),
                 .quota = cpu_quota(root),
                 .governors = governors_of(root),
                 .omp_threads = std::nullopt,
                 .omp_places = {}};
  const auto online = first_line(root + "/sys/devices/system/cpu/online");
  facts.online = online ? static_cast<int>(parse_cpu_list(*online).size()) : facts.usable;
  if (const auto threads = env::get(env::Var::kOmpNumThreads)) {
    facts.omp_threads = read_number<int>(*threads);
  }
  for (const env::Var variable : kPlacing) {
    if (env::is_set(variable)) facts.omp_places.emplace_back(env::name_of(variable));
  }
  return facts;
}

Checks check_cpus(const CpuFacts& facts) {
  const double cores = std::min<double>(facts.usable, facts.quota.value_or(facts.usable));
  Checks checks;
  checks.push_back(judged("CPUs of this process",
                          fmt::format("{} of {}", facts.usable, facts.online),
                          {{facts.ranks > facts.usable, Verdict::kWarn,
                            fmt::format("{} ranks share {} CPUs, and wait for each other's turns",
                                        facts.ranks, facts.usable),
                            fmt::format("dlrun -n {} ...", facts.usable)}}));
  checks.push_back(judged(
      "CPU quota of the control group",
      facts.quota ? fmt::format("{:.4g} CPUs", *facts.quota) : std::string("no limit"),
      {{facts.quota && *facts.quota < facts.ranks, Verdict::kWarn,
        fmt::format("{} ranks share {:.4g} CPUs: the kernel stops all of them for the rest of each "
                    "0.1 s once the time is used up",
                    facts.ranks, facts.quota.value_or(0)),
        "raise the quota (docker: --cpus; Kubernetes: limits.cpu; systemd: CPUQuota=)"}}));
  const auto slow = std::ranges::find_if(facts.governors, [](const auto& one) {
    return one.first == "powersave" || one.first == "conservative";
  });
  checks.push_back(judged("CPU frequency governor", text_of(facts.governors),
                          {{slow != facts.governors.end(), Verdict::kWarn,
                            "the CPUs run at a low frequency, or reach a high one late",
                            "sudo cpupower frequency-set -g performance"}}));
  const int threads = facts.omp_threads.value_or(0);
  checks.push_back(
      judged("OMP_NUM_THREADS",
             facts.omp_threads ? fmt::format("{}", threads) : "not set: dlrun shares the cores out",
             {{facts.omp_threads && *facts.omp_threads * facts.ranks > cores, Verdict::kWarn,
               fmt::format("{} ranks with {} threads each want more than {:.4g} CPUs", facts.ranks,
                           threads, cores),
               "unset OMP_NUM_THREADS"},
              {facts.omp_threads && *facts.omp_threads * facts.ranks * 2 <= cores, Verdict::kWarn,
               fmt::format("{} ranks with {} threads each leave most of {:.4g} CPUs idle",
                           facts.ranks, threads, cores),
               "unset OMP_NUM_THREADS"}}));
  checks.push_back(judged(
      "OpenMP's places", facts.omp_places.empty() ? "not set" : detail::name_list(facts.omp_places),
      {{!facts.omp_places.empty() && facts.ranks > 1, Verdict::kWarn,
        "each rank places its threads by them, so all ranks may run on the same cores",
        fmt::format("unset {}   (and let dlrun --bind place them)",
                    fmt::join(facts.omp_places, " "))}}));
  return checks;
}

}  // namespace dl::launcher::doctor
