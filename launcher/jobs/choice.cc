#include "launcher/jobs/choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
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
  const bool is_one_silent =
      std::ranges::any_of(hosts, [](const HostJobs& host) { return !host.error.empty(); });
  DL_CHECK(!chosen.empty(), kNotFound, "you have no job {}{}; `dlrun ps` lists your jobs",
           shown_word(word), is_one_silent ? " on the hosts that have answered" : "");
  return chosen;
}

void keep_namesakes(std::vector<Chosen>& chosen, std::string_view word) {
  const auto has_name = [word](const Chosen& one) { return one.job.name == word; };
  if (std::ranges::any_of(chosen, has_name)) std::erase_if(chosen, std::not_fn(has_name));
}

std::string why_several(const std::vector<Chosen>& chosen, std::string_view word) {
  const auto has_name = [word](const Chosen& one) { return one.job.name == word; };
  if (std::ranges::any_of(chosen, has_name) && !std::ranges::all_of(chosen, has_name)) {
    return fmt::format("{} is the name of one job and the pid of another dlrun; give one by its id",
                       shown_word(word));
  }
  const bool is_pid = std::ranges::any_of(
      chosen, [word](const Chosen& one) { return fmt::format("{}", one.job.pid) == word; });
  return fmt::format("{} names {} jobs; give one by its {}, or all of them with --all",
                     shown_word(word), chosen.size(), is_pid ? "id" : "pid or id");
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
