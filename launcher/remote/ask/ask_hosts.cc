#include "launcher/remote/ask/ask_hosts.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/process/shell.h"
#include "core/base/text/name_list.h"
#include "core/base/text/printable.h"
#include "launcher/cli/read/shell_text.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/process/own_process.h"
#include "launcher/remote/ask/ask_step.h"
#include "launcher/remote/ask/asked_dlrun.h"
#include "launcher/slurm/allocation.h"

namespace dl::launcher::remote {
namespace {

constexpr std::size_t kMostAtOnce = 64;

// Empty: this host is one of the nodes.
std::string name_beside(const std::vector<std::string>& nodes) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  const bool is_node =
      env::is_set(env::Var::kSlurmdNodeName) || std::ranges::find(nodes, name) != nodes.end();
  return is_node ? "" : name;
}

}  // namespace

HostChoice read_hosts(const SubcommandLine& line) {
  Options options;
  for (const auto& [name, value] : line.options) {
    if (name != "--hosts" && name != "--hostfile" && name != "--ssh") continue;
    const OptionRow& row = option_named(name);
    row.read(options, {.row = &row, .value = value, .variable = {}});
  }
  HostChoice choice{.hosts = {}, .ssh = read::shell_words("--ssh", options.where.ssh)};
  for (const HostSlots& host : options.where.hosts) choice.hosts.push_back(host.host);
  const bool is_here = line.has("--this-host");
  DL_CHECK(!is_here || choice.hosts.empty(), kInvalidArgument,
           "--this-host leaves out all hosts but this one; leave out --this-host, or the others");
  if (is_here || !choice.hosts.empty()) return choice;
  if (const auto allocation = allocation_by_srun()) {
    std::set<std::string> names;  // of which each is asked once
    for (const SlurmHost& host : allocation->hosts) {
      if (names.insert(host.name).second) choice.hosts.push_back(host.name);
    }
    choice.by_srun = true;
    choice.beside = name_beside(choice.hosts);
  }
  return choice;
}

AskHostsOptions asking(const HostChoice& choice, std::chrono::seconds patience) {
  return {.ssh = choice.ssh,
          .patience = patience,
          .on_waiting =
              [](const std::vector<std::string>& hosts) {
                write_error(
                    printable(fmt::format("dlrun: waiting for {}\n", detail::name_list(hosts))));
              },
          .by_srun = choice.by_srun,
          .beside = choice.beside};
}

AskedDlrun::AskedDlrun(const HostQuestion& question, const std::vector<std::string>& ssh)
    : host_(question.host) {
  const std::string dlrun = own_file();
  // It speaks of its own host, also if this process's allocation is in its environment.
  std::vector<std::string> words = question.words;
  words.insert(words.begin() + (words.empty() ? 0 : 1), "--this-host");
  command_ = command_on(ssh, ssh.empty() ? "localhost" : host_, dlrun, words);
  child_ = std::make_unique<AskChild>(std::vector<std::string>{host_});
  child_->start({.path = command_.path, .argv = command_.argv});
}

HostAnswer AskedDlrun::answer(std::chrono::seconds patience) {
  child_->end();
  HostAnswer answer{.host = host_,
                    .text = std::move(child_->text()),
                    .began_ns = child_->began_ns(),
                    .ended_ns = child_->ended_ns(),
                    .error = {}};
  if (!child_->failure().empty()) {
    answer.error = fmt::format("host {}: {}", host_, child_->failure());
  } else if (child_->is_late()) {
    answer.error = not_in_time(host_, patience);
  } else if (answer.text.empty() && child_->status() != 0) {
    // Without an answer, the login or ssh itself has failed.
    answer.error =
        why_not_started(host_, command_, {child_->status(), child_->said(), {}}, own_file());
  }
  if (answer.error.empty()) answer.exit_code = shell_exit_code(child_->status());
  return answer;
}

std::string not_in_time(const std::string& host, std::chrono::seconds patience) {
  return fmt::format("host {} has not answered within {} s", host, patience.count());
}

std::vector<HostAnswer> ask_hosts(const std::vector<HostQuestion>& questions,
                                  const AskHostsOptions& options) {
  if (options.by_srun) return ask_by_srun(questions, options);
  std::vector<HostAnswer> answers;
  for (std::size_t begin = 0; begin < questions.size(); begin += kMostAtOnce) {
    const std::size_t end = std::min(begin + kMostAtOnce, questions.size());
    std::vector<AskedDlrun> asked;
    std::vector<AskChild*> children;
    for (std::size_t i = begin; i < end; ++i) {
      asked.emplace_back(questions[i], options.ssh);
      children.push_back(asked.back().child());
      children.back()->on_said = remarks_in(options.on_remark);
    }
    read_answers(children, options.patience, options.on_waiting);
    for (AskedDlrun& one : asked) answers.push_back(one.answer(options.patience));
  }
  return answers;
}

std::function<void(const std::string& line)> remarks_in(
    std::function<void(const std::string& line)> on_remark) {
  return [on_remark = std::move(on_remark)](const std::string& line) {
    if (on_remark && line.starts_with("dlrun: waiting for ")) on_remark(line);
  };
}

std::string not_understood(const std::string& host) {
  return fmt::format("host {}: its answer is not understood; is its dlrun of another version?",
                     host);
}

}  // namespace dl::launcher::remote
