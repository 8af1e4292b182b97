#include "launcher/agent/outcome.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>
#include <vector>

namespace dl::launcher {
namespace {

constexpr const char* kPortHint =
    "  dlrun serves PyTorch's store at MASTER_PORT; for a program that listens there itself set "
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1";

void add_lines(std::string_view text, std::vector<std::string>& page) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    page.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

Verdict verdict_on(const rendezvous::Finding& found, const std::vector<RankFacts>& all,
                   int local_rank, const Place& place) {
  const RankFacts& named = all.at(static_cast<std::size_t>(local_rank));
  Verdict verdict{found.exit_code, {}, /*keeps_recorders=*/true, /*may_begin_again=*/true};
  verdict.rank = found.rank;
  verdict.page.push_back(found.headline.empty() ? describe_end(named, place) + found.clause
                                                : found.headline);
  verdict.page.insert(verdict.page.end(), found.notes.begin(), found.notes.end());
  const std::vector<std::string> words = last_words(named, /*by_name=*/!found.headline.empty());
  verdict.page.insert(verdict.page.end(), words.begin(), words.end());
  if (const std::string others = fate_of_others(named.rank, all); !others.empty()) {
    verdict.page.push_back(fmt::format("  the others: {}", others));
  }
  return verdict;
}

}  // namespace

void Outcome::set_failure(JobFailure failure) {
  const Generation* const generation = generations_.current();
  const bool is_of_this_node = failure.rank < 0 && generation != nullptr &&
                               failure.group_rank == generation->meeting().group_rank;
  if (!is_of_this_node && !stop_cause_) job_failure_ = std::move(failure);
}

const rendezvous::Finding* Outcome::finding() const {
  const Generation* const generation = generations_.current();
  if (generation == nullptr || !generation->finding()) return nullptr;
  const bool is_open = gathering_.others() != nullptr || generation->ranks().is_any_alive();
  if (plan_.job.end.keeps_others() && is_open) return nullptr;
  return &*generation->finding();
}

bool Outcome::has_reason() const {
  return stop_cause_ || job_failure_ || finding() != nullptr;
}

int Outcome::cause_rank() const {
  if (job_failure_) return job_failure_->rank;
  const rendezvous::Finding* const found = finding();
  return found != nullptr ? found->rank : -1;
}

Verdict Outcome::verdict() const {
  std::optional<Verdict> failed = verdict_on_failure();
  // Scripts start a job again that has ended with kExitSaved.
  if (failed && saving_.is_possible() && failed->exit_code == kExitSaved) {
    failed->exit_code = 1;
    failed->page.push_back(
        fmt::format("  dlrun counts this {0} as 1: in a job that may be preempted, {0} says that "
                    "all ranks have saved",
                    kExitSaved));
  }
  return failed ? *std::move(failed) : verdict_on_saving();
}

std::optional<Verdict> Outcome::verdict_on_failure() const {
  if (stop_cause_) {
    if (stop_cause_->text.empty()) return Verdict{stop_cause_->exit_code, {}};
    return Verdict{stop_cause_->exit_code, {stop_cause_->text}, /*keeps_recorders=*/true};
  }
  if (!has_reason()) return std::nullopt;
  Verdict failed = job_failure_ ? verdict_on_job_failure() : verdict_on_finding();
  say_who_has_not_saved(failed);
  return failed;
}

Verdict Outcome::verdict_on_job_failure() const {
  const Generation* const generation = generations_.current();
  const std::vector<RankFacts> facts =
      generation != nullptr ? generation->ranks().facts() : std::vector<RankFacts>();
  Verdict failed{1, {job_failure_->text}, /*keeps_recorders=*/true};
  add_lines(job_failure_->detail, failed.page);
  const std::string fate = fate_of_others(job_failure_->rank, facts);
  if (!fate.empty()) failed.page.push_back(fmt::format("  on host {}: {}", plan_.host, fate));
  failed.agreed = job_failure_->restart;
  if (job_failure_->exit_code != 0) failed.exit_code = job_failure_->exit_code;
  if (job_failure_->signal != 0) failed.exit_code = 128 + job_failure_->signal;
  return failed;
}

Verdict Outcome::verdict_on_finding() const {
  const Generation& generation = *generations_.current();
  const std::vector<RankFacts> facts = generation.ranks().facts();
  const Meeting& met = generation.meeting();
  const rendezvous::Finding& found = *finding();
  Verdict failed =
      verdict_on(found, facts, met.local_rank_of(found.rank), {plan_.host, met.group_rank});
  failed.ran = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began_);
  // Without an agreement with the other nodes, this node does not restart alone.
  if (gathering_.others() != nullptr) failed.may_begin_again = false;
  if (cause_rank() == 0 && gathering_.was_torch_port_taken(facts.front())) {
    failed.page.emplace_back(kPortHint);
  }
  return failed;
}

Verdict Outcome::verdict_on_saving() const {
  const Checkpointing* const request = saving_.current();
  if (request == nullptr) return {};
  const std::uint64_t call = request->preemption().call().value_or(0);
  switch (request->outcome()) {
    case Preemption::Outcome::kNone:
      return {};
    case Preemption::Outcome::kSaved: {
      Verdict saved{.exit_code = kExitSaved, .page = {}};
      if (generations_.current()->meeting().group_rank == 0) {
        saved.page.push_back(fmt::format(
            "saved: every rank returned from call {} of should_checkpoint() with true and "
            "ended with 0; start the job again to go on",
            call));
      }
      return saved;
    }
    case Preemption::Outcome::kPartly:
      return {.exit_code = 1,
              .page = {fmt::format("not saved: some ranks ended before call {} of "
                                   "should_checkpoint(), at which the others returned true; "
                                   "do all ranks call it equally often?",
                                   call)}};
  }
  return {};
}

// A rank that has not saved may fail because others have saved and ended, which are not to blame.
void Outcome::say_who_has_not_saved(Verdict& verdict) const {
  const Checkpointing* const request = saving_.current();
  if (request == nullptr || !request->is_requested()) return;
  verdict.may_begin_again = false;
  const std::string sentence = request->who_has_not_saved();
  if (!sentence.empty()) verdict.page.insert(verdict.page.begin(), sentence);
}

}  // namespace dl::launcher
