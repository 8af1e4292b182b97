#include "launcher/frontend/card_of.h"

#include "core/base/version.h"
#include "launcher/process/time_of_day.h"

namespace dl::launcher {
namespace {

// All programs in one line, as `dlrun ./a : ./b` names them.
std::vector<std::string> line_of(const std::vector<App>& apps) {
  std::vector<std::string> line;
  for (const App& app : apps) {
    if (!line.empty()) line.emplace_back(":");
    line.insert(line.end(), app.program.begin(), app.program.end());
  }
  return line;
}

CardFacts card_of(const JobPlan& job) {
  return {.job = job.name,
          .host = {},
          .node = std::nullopt,
          .nodes = job.nnodes,
          .hosts = {},
          .program = line_of(job.started.apps),
          .log_dir = {},
          .version = std::string(kVersion),
          .began_ns = now_ns()};
}

}  // namespace

CardFacts card_of_node(const NodePlan& plan) {
  CardFacts facts = card_of(plan.job);
  facts.host = plan.host;
  if (plan.node_rank >= 0) facts.node = plan.node_rank;
  return facts;
}

CardFacts card_of_agent(const NodePlan& plan) {
  CardFacts facts = card_of_node(plan);
  facts.is_agent = true;
  return facts;
}

CardFacts card_of_hosts(const JobPlan& job) {
  CardFacts facts = card_of(job);
  for (const Host& host : job.hosts) facts.hosts.push_back(host.name);
  return facts;
}

void show_on(JobCard& card, const RankNews& news) {
  if (news.what == RankNews::What::kStarted) {
    card.rank_started(news.rank, news.pid);
  } else {
    card.rank_ended(news.rank, news.pid, news.status);
  }
}

}  // namespace dl::launcher
