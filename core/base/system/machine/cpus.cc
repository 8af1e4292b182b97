#include "core/base/system/machine/cpus.h"

#include <sched.h>

#include <algorithm>
#include <charconv>

#include "core/base/env.h"

namespace dl {

std::vector<int> parse_cpu_list(std::string_view text) {
  constexpr int kMost = 65536;
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
    }
    const bool in_order = cpus.empty() || first > cpus.back();
    if (read.ec != std::errc() || first < 0 || last < first || last >= kMost || !in_order)
      return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    at = read.ptr;
    if (at == end) break;
    if (*at != ',') return {};
    if (++at == end) return {};
  }
  return cpus;
}

void use_all_bound_cpus() noexcept try {
  const std::vector<int> cpus = parse_cpu_list(env::get(env::Var::kCpus).value_or(""));
  if (cpus.empty()) return;
  const int room = cpus.back() + 1;
  cpu_set_t* const set = CPU_ALLOC(room);
  if (set == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(room);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(cpu, bytes, set);
  ::sched_setaffinity(0, bytes, set);
  CPU_FREE(set);
} catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the thread keeps its CPUs
}

}  // namespace dl
