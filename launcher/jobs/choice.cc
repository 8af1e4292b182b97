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
  if (chosen.size() == 1) return true;
  std::set<int> nodes;
  const JobView& first = chosen.front().job;
  // A node that waits for the others may have no number yet.
  const auto is_another_node = [&](const JobView& job) {
    return job.name == first.name && job.nodes == first.nodes && job.hosts.empty() &&
           (!job.node || nodes.insert(*job.node).second);
  };
  return chosen.size() <= static_cast<std::size_t>(first.nodes) &&
         std::ranges::all_of(chosen, is_another_node, &Chosen::job);
}

std::string name_of(const Chosen& chosen) {
  return fmt::format("{} (dlrun {} on {})", shown_word(chosen.job.name), chosen.job.pid,
                     shown_word(chosen.host));
}

}  // namespace dl::launcher::jobs
