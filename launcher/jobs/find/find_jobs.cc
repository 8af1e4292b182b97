
#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "core/base/error.h"
#include "core/base/system/process/shell.h"
#include "launcher/agent/ranks/recorders.h"
#include "launcher/autopsy/case.h"
#include "launcher/autopsy/diagnosis.h"
#include "launcher/jobs/find/processes.h"
#include "launcher/plan/machine/machine.h"

namespace dl::launcher::jobs {
namespace {

namespace record = collectives::record;
using Processes = std::map<pid_t, ProcessStat>;

bool is_stopped(char state) {
  return state == 'T' || state == 't';
}

char state_of(std::optional<pid_t> pid, const Processes& processes) {
  const auto found = pid ? processes.find(*pid) : processes.end();
  return found == processes.end() ? '\0' : found->second.state;
}

// Adds the operations in which the ranks are, as their recorders tell.
void add_operations(JobView& job, const FoundDlrun& dlrun, const Processes& processes) {
  const auto view_of = [&](int rank) {
    const auto found = std::ranges::find(job.ranks, rank, &RankView::rank);
    return found == job.ranks.end() ? nullptr : &*found;
  };
  autopsy::Case found;
  for (const UniqueFd& fd : dlrun.recorders) {
    RecorderCopy copy = copy_recorder(fd.get(), {});
    const RankView* const rank = view_of(copy.memory->header.rank);
    if (!copy.was_opened || rank == nullptr || rank->is == RankView::Is::kEnded) continue;
    // The owner's number in the header is that of its own PID namespace.
    copy.memory->header.end = record::End::kRunning;
    copy.memory->header.process_state = state_of(rank->pid, processes);
    found.add(std::as_bytes(std::span(copy.memory.get(), 1)), "");
  }
  for (const autopsy::Membership& member : autopsy::diagnose(found).members) {
    RankView* const rank = view_of(member.rank->rank);
    const record::Operation* const current = member.current;
    if (rank == nullptr || current == nullptr || current->is_over()) continue;
    // A rank may be in operations of several groups: one that waits for other ranks is shown.
    if (!rank->operation.empty() && member.waits_for.empty()) continue;
    if (rank->is == RankView::Is::kRunning) rank->is = RankView::Is::kInOperation;
    rank->operation = autopsy::text(*current);
    rank->operation_s = current->enqueued;
    rank->waits_for = member.waits_for;
  }
}

RankView::Is state_of_rank(const CardRank& rank, char process) {
  switch (rank.is) {
    case CardRank::Is::kBeingStarted:
      return RankView::Is::kStarting;
    case CardRank::Is::kEnded:
      return RankView::Is::kEnded;
    case CardRank::Is::kRunning:
      break;
  }
  return is_stopped(process) ? RankView::Is::kStopped : RankView::Is::kRunning;
}

JobView::Is state_of_job(const FoundDlrun& dlrun) {
  if (is_stopped(dlrun.stat.state)) return JobView::Is::kStopped;
  switch (dlrun.card.state) {
    case CardState::kStarting:
      return JobView::Is::kStarting;
    case CardState::kEnding:
      return JobView::Is::kEnding;
    case CardState::kRunning:
      break;
  }
  return JobView::Is::kRunning;
}

JobView view_of(const FoundDlrun& dlrun, const Processes& processes) {
  const CardFacts& facts = dlrun.card.facts;
  JobView job{.id = id_of(dlrun.pid, dlrun.stat.start_ticks),
              .name = facts.job,
              .pid = dlrun.pid,
              .host = facts.host,
              .is_agent = facts.is_agent,
              .node = facts.node,
              .nodes = facts.nodes,
              .hosts = facts.hosts,
              .is = state_of_job(dlrun),
              .began_ns = facts.began_ns,
              .attempt = dlrun.card.attempt,
              .program = facts.program,
              .log_dir = facts.log_dir,
              .ranks = {}};
  const bool ranks_are_here = facts.hosts.empty();
  const std::map<pid_t, pid_t> here =
      ranks_are_here ? rank_processes(dlrun, processes) : std::map<pid_t, pid_t>();
  for (const CardRank& rank : dlrun.card.ranks) {
    RankView view;
    view.rank = rank.rank;
    if (const auto found = here.find(rank.pid);
        found != here.end() && rank.is == CardRank::Is::kRunning) {
      view.pid = found->second;
    }
    view.is = state_of_rank(rank, state_of(view.pid, processes));
    const bool is_missing = rank.is == CardRank::Is::kRunning && !view.pid;
    if (is_missing && ranks_are_here && has_ended(dlrun, rank.pid)) view.is = RankView::Is::kEnded;
    if (rank.is == CardRank::Is::kEnded) view.ended = how_it_ended(rank.status);
    job.ranks.push_back(std::move(view));
  }
  try {
    add_operations(job, dlrun, processes);
  } catch (const Error&) {
    // Without memory for a copy, the ranks are shown without their operations.
  }
  return job;
}

}  // namespace

std::string id_of(pid_t pid, unsigned long long start_ticks) {
  return fmt::format("{}@{}", pid, start_ticks);
}

HostJobs jobs_here() {
  HostJobs here{.host = host_name(), .error = {}, .jobs = {}};
  const Processes processes = own_processes();
  for (const FoundDlrun& dlrun : find_dlruns(processes)) {
    here.jobs.push_back(view_of(dlrun, processes));
  }
  std::ranges::sort(here.jobs, {}, &JobView::began_ns);
  return here;
}

}  // namespace dl::launcher::jobs
