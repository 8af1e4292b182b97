#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/system/machine/cgroup.h"
#include "core/base/system/machine/cpus.h"
#include "core/base/system/small_file.h"
#include "core/base/text/name_list.h"
#include "core/base/text/number.h"
#include "core/base/text/printable.h"
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

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// The first number of "8,2,1", which counts in a rank: the others are for nested regions. nullopt:
// OpenMP's libraries reject the value.
std::optional<std::int64_t> threads_in_region(std::string_view list) {
  std::optional<std::int64_t> first;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = list.find(',');
    is_last = comma == std::string_view::npos;
    std::string_view word = without_spaces(list.substr(0, comma));
    if (word.starts_with('+')) word.remove_prefix(1);
    const auto number = read_number<std::int64_t>(word);
    if (!number || *number <= 0) return std::nullopt;
    if (!first) first = number;
    if (!is_last) list.remove_prefix(comma + 1);
  }
  return first;
}

Check check_threads(const CpuFacts& facts, double cores) {
  const std::string mend = "unset OMP_NUM_THREADS";
  if (!facts.omp_num_threads) {
    return judged("OMP_NUM_THREADS", "not set: dlrun shares the cores out", {});
  }
  const auto threads = threads_in_region(*facts.omp_num_threads);
  const double all = static_cast<double>(threads.value_or(0)) * facts.ranks;
  const std::string each =
      fmt::format("{} ranks with {} threads each", facts.ranks, threads.value_or(0));
  return judged(
      "OMP_NUM_THREADS", threads ? *facts.omp_num_threads : quoted_name(*facts.omp_num_threads),
      {{!threads, Verdict::kWarn,
        fmt::format("it is no number above 0: OpenMP ignores it, and each of {} ranks starts a "
                    "thread on each of its CPUs",
                    facts.ranks),
        mend},
       {all > cores, Verdict::kWarn, fmt::format("{} want more than {:.4g} CPUs", each, cores),
        mend},
       {all * 2 <= cores, Verdict::kWarn,
        fmt::format("{} leave most of {:.4g} CPUs idle", each, cores), mend}});
}

}  // namespace

CpuFacts read_cpus(const std::string& root, int ranks) {
  CpuFacts facts{.ranks = ranks,
                 .usable = static_cast<int>(this_machine().cpus.size()),
                 .quota = cpu_quota(root),
                 .governors = governors_of(root),
                 .omp_num_threads = env::get(env::Var::kOmpNumThreads),
                 .omp_places = {}};
  const auto online = first_line(root + "/sys/devices/system/cpu/online");
  facts.online = online ? static_cast<int>(parse_cpu_list(*online).size()) : facts.usable;
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
  checks.push_back(check_threads(facts, cores));
  checks.push_back(judged(
      "OpenMP's places", facts.omp_places.empty() ? "not set" : detail::name_list(facts.omp_places),
      {{!facts.omp_places.empty() && facts.ranks > 1, Verdict::kWarn,
        "each rank places its threads by them, so all ranks may run on the same cores; "
        "`dlrun --bind` places them instead",
        fmt::format("unset {}", fmt::join(facts.omp_places, " "))}}));
  return checks;
}

}  // namespace dl::launcher::doctor
