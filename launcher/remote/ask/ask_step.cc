#include "launcher/remote/ask/ask_step.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/process/shell.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/time_of_day.h"
#include "launcher/remote/ask/ask_child.h"
#include "launcher/remote/ask/asked_dlrun.h"
#include "launcher/remote/ask/step_frames.h"
#include "launcher/slurm/step/srun_line.h"

namespace dl::launcher::remote {
namespace {

// For an srun that was given up to end its step.
constexpr std::chrono::seconds kTimeToEnd{5};
// The most steps of one node at once: each is work for SLURM's controller.
constexpr std::size_t kMostSteps = 16;
// For nodes that are asked again, each alone.
constexpr std::chrono::seconds kMostPatienceAgain{20};

UniqueFd file_with(std::string_view text) {
  UniqueFd file = make_memory_file("dlrun-questions");
  const int error = write_all(file.get(), text);
  if (error != 0) throw_errno(error, "write the questions for srun");
  if (::lseek(file.get(), 0, SEEK_SET) != 0) throw_errno(errno, "rewind the questions for srun");
  return file;
}

// What explains most: the first line that tells an error, else the first line.
std::string first_error(std::string_view said) {
  std::string_view first;
  while (!said.empty()) {
    const std::size_t end = std::min(said.find('\n'), said.size());
    const std::string_view line = said.substr(0, end);
    said.remove_prefix(std::min(end + 1, said.size()));
    if (line.find("error") != std::string_view::npos || line.starts_with("dlrun: ")) {
      return std::string(line);
    }
    if (first.empty()) first = line;
  }
  return std::string(first);
}

// One srun and the questions that its tasks answer.
class AskedStep {
 public:
  // `indices` of those among `questions` that this step asks.
  AskedStep(const std::vector<HostQuestion>& questions, std::vector<std::size_t> indices,
            const AskHostsOptions& options)
      : indices_(std::move(indices)), patience_(options.patience) {
    StepQuestions asked{.patience = patience_, .questions = {}};
    std::vector<std::string> hosts;
    for (const std::size_t index : indices_) {
      const HostQuestion& question = questions[index];
      asked.questions.push_back(question);
      hosts_.push_back(question.host);
      if (std::ranges::find(hosts, question.host) == hosts.end()) hosts.push_back(question.host);
    }
    answers_.resize(indices_.size());
    ended_ns_.resize(indices_.size());
    AskLine line{.path = {},
                 .argv = srun_line(hosts),
                 .environment = environment_for_srun(),
                 .input = file_with(text_of(asked)),
                 .time_to_end = kTimeToEnd};
    line.path = line.argv.front();
    line.argv.insert(line.argv.end(), {own_file(), kAnswerWord});
    nodes_ = hosts.size();
    child_ = std::make_unique<AskChild>(std::move(hosts));
    child_->on_said = remarks_in(options.on_remark);
    child_->on_text = [this](std::string& text) { take(text); };
    child_->start(std::move(line));
  }
  AskedStep(const AskedStep&) = delete;
  AskedStep& operator=(const AskedStep&) = delete;
  AskedStep(AskedStep&&) = delete;
  AskedStep& operator=(AskedStep&&) = delete;
  ~AskedStep() = default;

  AskChild* child() { return child_.get(); }
  // To be called after read_answers(), before those below.
  void end() { child_->end(); }
  std::size_t nodes() const { return nodes_; }
  bool was_deaf() const { return child_->was_deaf(); }
  bool has_any_begun() const { return std::ranges::any_of(answers_, &FramedAnswer::has_begun); }
  // The questions that have reached no task, as far as is known.
  std::vector<std::size_t> not_begun() const {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      if (!answers_[i].has_begun) left.push_back(indices_[i]);
    }
    return left;
  }
  void put_answers(std::vector<HostAnswer>& all) {
    for (std::size_t i = 0; i < indices_.size(); ++i) all[indices_[i]] = answer(i);
  }

 private:
  void take(std::string& text) {
    take_frames(text, answers_, [this](std::size_t i) {
      ended_ns_[i] = now_ns();
      // A host with several questions may have others left; the next remark is for people.
      std::erase(child_->hosts(), hosts_[i]);
    });
  }

  HostAnswer answer(std::size_t i) {
    FramedAnswer& framed = answers_[i];
    HostAnswer answer{.host = hosts_[i],
                      .text = std::move(framed.text),
                      .exit_code = framed.exit_code,
                      .began_ns = child_->began_ns(),
                      .ended_ns = ended_ns_[i],
                      .error = framed.error};
    if (!framed.has_ended) answer.error = why_silent(hosts_[i]);
    return answer;
  }

  std::string why_silent(const std::string& host) const {
    const std::string& said = child_->said();
    const std::string words = first_error(said);
    if (!child_->failure().empty()) return fmt::format("host {}: {}", host, child_->failure());
    if (child_->is_late()) {
      return not_in_time(host, patience_) + (words.empty() ? "" : fmt::format(" ({})", words));
    }
    const std::string dlrun = own_file();
    if (said.find("execve") != std::string::npos && said.find(dlrun) != std::string::npos &&
        said.find("No such file") != std::string::npos) {
      return fmt::format("host {} has no dlrun at {}; dlrun must be at the same path on all nodes",
                         host, dlrun);
    }
    return fmt::format("host {}: srun {} before its dlrun answered{}{}", host,
                       how_it_ended(child_->status()), words.empty() ? "" : ": ", words);
  }

  std::size_t nodes_ = 0;
  std::vector<std::size_t> indices_;
  std::vector<std::string> hosts_;  // as indices_, and so are those below
  std::vector<FramedAnswer> answers_;
  std::vector<std::int64_t> ended_ns_;
  std::chrono::seconds patience_;
  std::unique_ptr<AskChild> child_;
};

// Asks again what has reached no task, one node a step: an srun that cannot start a task on one
// node, or waits for it, starts none on the others. If no node of a round answers, there is no use
// in more.
void ask_alone(const std::vector<HostQuestion>& questions, std::vector<std::size_t> left,
               AskHostsOptions options, std::vector<HostAnswer>& answers) {
  options.patience = std::min(options.patience, kMostPatienceAgain);
  while (!left.empty()) {
    std::vector<std::unique_ptr<AskedStep>> steps;
    std::vector<AskChild*> children;
    while (!left.empty() && steps.size() < kMostSteps) {
      const std::string host = questions[left.front()].host;
      std::vector<std::size_t> of_host;
      std::erase_if(left, [&](std::size_t index) {
        if (questions[index].host != host) return false;
        of_host.push_back(index);
        return true;
      });
      steps.push_back(std::make_unique<AskedStep>(questions, std::move(of_host), options));
      children.push_back(steps.back()->child());
    }
    read_answers(children, options.patience, options.on_waiting);
    bool has_any_begun = false;
    for (const auto& step : steps) {
      step->end();
      step->put_answers(answers);
      has_any_begun = has_any_begun || step->has_any_begun();
    }
    if (!has_any_begun) return;
  }
}

}  // namespace

std::vector<HostAnswer> ask_by_srun(const std::vector<HostQuestion>& questions,
                                    const AskHostsOptions& options) {
  std::vector<HostAnswer> answers(questions.size());
  std::vector<std::size_t> of_nodes;
  std::vector<std::pair<std::size_t, AskedDlrun>> here;
  std::vector<AskChild*> children;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (options.beside.empty() || questions[i].host != options.beside) {
      of_nodes.push_back(i);
      continue;
    }
    here.emplace_back(i, AskedDlrun(questions[i], {}));
    children.push_back(here.back().second.child());
    children.back()->on_said = remarks_in(options.on_remark);
  }
  std::unique_ptr<AskedStep> step;
  if (!of_nodes.empty()) {
    step = std::make_unique<AskedStep>(questions, std::move(of_nodes), options);
    children.push_back(step->child());
  }
  read_answers(children, options.patience, options.on_waiting);
  for (auto& [index, host] : here) answers[index] = host.answer(options.patience);
  if (!step) return answers;
  step->end();
  step->put_answers(answers);
  // An srun that does not even end when it is told to is not asked again.
  if (options.may_repeat && step->nodes() > 1 && !step->was_deaf()) {
    ask_alone(questions, step->not_begun(), options, answers);
  }
  return answers;
}

}  // namespace dl::launcher::remote
