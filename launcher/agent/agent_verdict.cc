// Agent's reports on its ranks: the verdict on a generation, the processes that are left of it, and
// its state.
#include <fmt/core.h>

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "collectives/record/snapshot.h"
#include "core/base/deadline.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/evidence/process_facts.h"
#include "launcher/autopsy/autopsy.h"
#include "launcher/autopsy/case.h"
#include "launcher/process/descendants.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/verdict/lost_peer.h"

namespace dl::launcher {
namespace {

namespace record = collectives::record;

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

Verdict Agent::verdict() const {
  std::optional<Verdict> failed = verdict_on_failure();
  // Scripts start a job again that has ended with kExitSaved.
  if (failed && settings_.preempt_wait && failed->exit_code == kExitSaved) {
    failed->exit_code = 1;
    failed->page.push_back(
        fmt::format("  dlrun counts this {0} as 1: in a job that may be preempted, {0} says that "
                    "all ranks have saved",
                    kExitSaved));
  }
  Verdict verdict = failed ? *std::move(failed) : verdict_on_saving();
  verdict.attempt = attempt_;
  return verdict;
}

std::optional<Verdict> Agent::verdict_on_failure() const {
  if (stop_cause_) {
    if (stop_cause_->text.empty()) return Verdict{stop_cause_->exit_code, {}};
    return Verdict{stop_cause_->exit_code, {stop_cause_->text}, /*keeps_recorders=*/true};
  }
  if (job_failure_) {
    const std::vector<RankFacts> facts =
        generation_ ? generation_->facts() : std::vector<RankFacts>();
    Verdict failed{1, {job_failure_->text}, /*keeps_recorders=*/true};
    add_lines(job_failure_->detail, failed.page);
    const std::string fate = fate_of_others(job_failure_->rank, facts);
    if (!fate.empty()) failed.page.push_back(fmt::format("  on this node: {}", fate));
    failed.agreed = job_failure_->restart;
    if (job_failure_->exit_code != 0) failed.exit_code = job_failure_->exit_code;
    if (job_failure_->signal != 0) failed.exit_code = 128 + job_failure_->signal;
    say_who_has_not_saved(failed);
    return failed;
  }
  if (!generation_ || !generation_->finding()) return std::nullopt;
  const std::vector<RankFacts> facts = generation_->facts();
  const rendezvous::Finding& found = *generation_->finding();
  Verdict failed = verdict_on(found, facts, generation_->local_rank_of(found.rank),
                              {plan_.host, generation_->meeting().group_rank});
  failed.ran = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began_);
  // Without an agreement with the other nodes, this node does not restart alone.
  if (others_) failed.may_begin_again = false;
  if (cause_rank() == 0 && wanted_store_port(facts.front())) failed.page.emplace_back(kPortHint);
  say_who_has_not_saved(failed);
  return failed;
}

Verdict Agent::verdict_on_saving() const {
  if (!checkpointing_) return {};
  const std::uint64_t call = checkpointing_->preemption().call().value_or(0);
  switch (checkpointing_->outcome()) {
    case Preemption::Outcome::kNone:
      return {};
    case Preemption::Outcome::kSaved: {
      Verdict saved{.exit_code = kExitSaved, .page = {}};
      if (generation_->meeting().group_rank == 0) {
        saved.page.push_back(fmt::format(
            "saved: every rank returned from call {} of dl::should_checkpoint() with true and "
            "ended with 0; start the job again to go on",
            call));
      }
      return saved;
    }
    case Preemption::Outcome::kPartly:
      return {.exit_code = 1,
              .page = {fmt::format("not saved: some ranks ended before call {} of "
                                   "dl::should_checkpoint(), at which the others returned true; "
                                   "do all ranks call it equally often?",
                                   call)}};
  }
  return {};
}

// A rank that has not saved may fail because others have saved and ended, which are not to blame.
void Agent::say_who_has_not_saved(Verdict& verdict) const {
  if (!checkpointing_ || !checkpointing_->is_requested()) return;
  verdict.may_begin_again = false;
  const std::string sentence = checkpointing_->who_has_not_saved();
  if (!sentence.empty()) verdict.page.insert(verdict.page.begin(), sentence);
}

// True if rank 0 seems to listen on MASTER_PORT itself although dlrun served it a PyTorch store.
bool Agent::wanted_store_port(const RankFacts& rank0) const {
  if (!torch_store_) return false;
  const std::string port = std::to_string(torch_store_->port());
  for (const std::string* said : {&rank0.stderr_tail, &rank0.stdout_tail}) {
    // If other ranks were clients of the store, the text must name the port.
    const bool names_port = said->find(port) != std::string::npos;
    if (says_port_was_taken(*said) && (names_port || !torch_store_->was_used())) return true;
  }
  return false;
}

int Agent::cause_rank() const {
  if (job_failure_) return job_failure_->rank;
  return generation_ && generation_->finding() ? generation_->finding()->rank : -1;
}

// Files and recorders.

void Agent::keep_files(const Verdict& verdict) {
  if (!output_.has_logs() || !generation_) return;
  for (const auto& [rank, text] : generation_->error_files()) {
    output_.on_disk(
        [text, rank](const std::string& folder) {
          return write_file(fmt::format("{}/{}/error.json", folder, rank), text);
        },
        [this](const std::string& failed) {
          if (!failed.empty()) events_.on_sentence(failed);
        });
  }
  if (verdict.keeps_recorders) keep_recorders();
}

std::vector<RecorderCopy> Agent::recorders(const Verdict& verdict) const {
  return verdict.keeps_recorders ? recorders() : std::vector<RecorderCopy>();
}

// Empty if no rank has opened its recorder: the program does not use dlrun's collectives.
std::vector<RecorderCopy> Agent::recorders() const {
  if (!generation_) return {};
  std::vector<RecorderCopy> copies = generation_->copy_recorders(cause_rank());
  if (std::ranges::none_of(copies, &RecorderCopy::was_opened)) copies.clear();
  return copies;
}

void Agent::keep_recorders() {
  if (!output_.has_logs() || keeps_recorders_) return;
  auto copies = std::make_shared<std::vector<RecorderCopy>>(recorders());
  if (copies->empty()) return;
  keeps_recorders_ = true;
  output_.on_disk(
      [copies](const std::string& folder) {
        for (const RecorderCopy& copy : *copies) {
          std::string failed =
              record::write_snapshot(*copy.memory, folder, copy.memory->header.rank);
          if (!failed.empty()) return failed;
        }
        return std::string();
      },
      [this](const std::string& failed) {
        keeps_recorders_ = false;
        events_.on_sentence(
            failed.empty() ? fmt::format("  the last operations of each rank: dlrun autopsy {}",
                                         output_.run_folder())
                           : fmt::format("a flight recorder could not be kept: {}", failed));
      });
}

// Processes that are left.

// The ranks that are left; if there are none, all other processes that are left.
std::vector<std::string> Agent::who_is_left() const {
  std::vector<std::string> left =
      generation_ ? generation_->who_is_left() : std::vector<std::string>();
  return left.empty() ? living_descendants() : left;
}

std::vector<std::string> Agent::left_behind() const {
  return gave_up_ ? who_is_left() : std::vector<std::string>();
}

void Agent::on_silence() {
  const std::vector<std::string> left = who_is_left();
  say_who_is_left(left);
  act(machine_.silence_over(!left.empty()));
}

void Agent::say_who_is_left(const std::vector<std::string>& left) {
  if (left.empty()) return;
  events_.on_sentence(
      fmt::format("not ended within {} s; dlrun waits {} s more, and a further Ctrl-C or SIGTERM "
                  "ends it now:",
                  kSilence.count(), (kMostKilling - kSilence).count()));
  for (const std::string& one : left) events_.on_sentence("  " + one);
}

Verdict Agent::finish() {
  end_descendants();
  output_.drain();
  return verdict();
}

void Agent::end_descendants() {
  if (gave_up_ || kill_descendants(rendezvous::Deadline::after(kSilence))) return;
  say_who_is_left(who_is_left());
  gave_up_ = !kill_descendants(rendezvous::Deadline::after(kMostKilling - kSilence));
}

// Reports what each rank is doing: by its recorder if it has opened one, else by the kernel.
void Agent::report() {
  const std::vector<RecorderCopy> copies =
      generation_ ? generation_->copy_recorders(cause_rank()) : std::vector<RecorderCopy>();
  autopsy::Case found;
  std::set<int> told;
  for (const RecorderCopy& copy : copies) {
    const int rank = copy.memory->header.rank;
    found.add(std::as_bytes(std::span(copy.memory.get(), 1)), fmt::format("rank {}", rank));
    if (copy.was_opened) told.insert(rank);
  }
  const auto say = [this](const std::string& line) { events_.on_sentence(line); };
  if (!told.empty()) {
    for (const std::string& line : autopsy::page(found)) say(line);
  }
  const std::vector<int> starting =
      generation_ ? generation_->ranks_being_started() : std::vector<int>();
  if (!starting.empty()) {
    say(fmt::format("{} {} being started", rank_list(starting),
                    starting.size() == 1 ? "is" : "are"));
  }
  std::vector<RankProcess> others;
  if (generation_) {
    for (const Generation::Running& rank : generation_->running()) {
      if (!told.contains(rank.rank)) others.push_back({rank.rank, rank.pid});
    }
  }
  if (!others.empty()) {
    say(copies.empty() ? "there are no flight recorders, as DLRUN_RECORDER is off; the kernel says:"
        : told.empty() ? "no rank has opened its flight recorder: the program does not use dlrun's "
                         "collectives, or has not come to init_process_group; the kernel says:"
                       : "of the ranks that have not opened their recorder the kernel says:");
    for (const std::string& line : process_facts(others)) {
      say(line.empty() ? line : "  " + line);
    }
  } else if (told.empty() && starting.empty()) {
    say("no rank runs");
    if (lingering_) lingering_->report();
  }
  keep_recorders();
}

}  // namespace dl::launcher
