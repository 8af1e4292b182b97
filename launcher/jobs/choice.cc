#include "launcher/jobs/choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace dl::launcher::jobs {
namespace {

bool is_meant(const JobView& job, std::string_view word) {
  return job.name == word || job.id == word || fmt::format("{}", job.pid) == word;
}

}  // namespace

std::vector<Chosen> matches(const std::vector<HostJobs>& hosts, std::string_view word) {
  std::vector<Chosen> chosen;
  const JobView* agent = nullptr;
  for (const HostJobs& host : hosts) {
    for (const JobView& job : host.jobs) {
      if (!is_meant(job, word)) continue;
      if (job.is_agent) {
        agent = &job;
      } else {
        chosen.push_back({host.host, job});
      }
    }
  }
  DL_CHECK(
      !chosen.empty() || agent == nullptr, kNotFound,
      "job {} was started by a dlrun on another host, which ends it: run `dlrun kill {}` there",
      shown_word(word), shown_word(agent == nullptr ? word : agent->name));
  DL_CHECK(!chosen.empty(), kNotFound, "you have no job {}; `dlrun ps` lists your jobs",
           shown_word(word));
  return chosen;
}

bool is_one_job(const std::vector<Chosen>& chosen) {
  std::set<int> nodes;
  const JobView& first = chosen.front().job;
  const bool is_alike = std::ranges::all_of(chosen, [&](const Chosen& one) {
    return one.job.name == first.name && one.job.nodes == first.nodes && one.job.node &&
           nodes.insert(*one.job.node).second;
  });
  return chosen.size() == 1 || (first.nodes > 1 && is_alike);
}

std::string name_of(const Chosen& chosen) {
  return fmt::format("{} (dlrun {} on {})", shown_word(chosen.job.name), chosen.job.pid,
                     shown_word(chosen.host));
}

}  // namespace dl::launcher::jobs
