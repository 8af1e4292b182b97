#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/system/process/shell.h"
#include "core/base/text/number.h"
#include "core/base/text/printable.h"
#include "launcher/jobs/end_jobs.h"
#include "launcher/jobs/hosts.h"

namespace dl::launcher::jobs {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPatienceSeconds = 60;
constexpr double kMostPatienceSeconds = 86400;
// For ssh or srun, beside the time that the job may take.
constexpr std::chrono::seconds kPatienceWithHost{20};
constexpr std::string_view kOutcomeWords[] = {"ended", "sent", "still_running", "failed"};

void say(std::string_view text) {
  write_error(fmt::format("dlrun: {}\n", printable(text)));
}

Json json_of(const Outcome& outcome) {
  return {{"host", outcome.host},
          {"id", outcome.id},
          {"job", outcome.name},
          {"pid", outcome.pid},
          {"result", kOutcomeWords[static_cast<std::size_t>(outcome.is)]},
          {"seconds", outcome.seconds},
          {"text", outcome.text}};
}

// What the dlrun of a host says of one job.
Outcome read_outcome(const remote::HostAnswer& answer, const Chosen& chosen) {
  Outcome outcome{.host = chosen.host,
                  .id = chosen.job.id,
                  .name = chosen.job.name,
                  .pid = chosen.job.pid,
                  .text = fmt::format("{}: {}", name_of(chosen), answer.error)};
  if (!answer.error.empty()) return outcome;
  try {
    const Json all = Json::parse(std::string_view(answer.text));
    if (all.at("jobs").empty()) {
      outcome.is = Outcome::Is::kEnded;
      outcome.text = fmt::format("{} had ended already", name_of(chosen));
      return outcome;
    }
    const Json& one = all.at("jobs").at(0);
    const auto word = one.at("result").get<std::string>();
    const auto* const found = std::ranges::find(kOutcomeWords, word);
    if (found != std::end(kOutcomeWords)) {
      outcome.is = static_cast<Outcome::Is>(found - kOutcomeWords);
      outcome.seconds = one.at("seconds").get<double>();
      outcome.text = one.at("text").get<std::string>();
      // The host calls itself by a name of its own, and the user by another.
      const std::string told = name_of({one.at("host").get<std::string>(), chosen.job});
      if (outcome.text.starts_with(told)) outcome.text.replace(0, told.size(), name_of(chosen));
      return outcome;
    }
  } catch (const Json::exception&) {
    // What it says is no outcome.
  }
  outcome.text = fmt::format("{}: the answer of its host is not understood", name_of(chosen));
  return outcome;
}

std::vector<Outcome> end_on_hosts(const std::vector<Chosen>& chosen, const SubcommandLine& line,
                                  std::chrono::milliseconds patience,
                                  const remote::HostChoice& choice) {
  std::vector<remote::HostQuestion> questions;
  for (const Chosen& one : chosen) {
    questions.push_back(
        {one.host,
         {"kill", "--json", "--signal", line.value_of("--signal").value_or("TERM"), "--timeout",
          fmt::format("{:.3f}", static_cast<double>(patience.count()) / 1e3), "--", one.job.id}});
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(patience) + kPatienceWithHost;
  remote::AskHostsOptions options = remote::asking(choice, seconds);
  // The dlrun of a host knows which ranks it waits for. Without its word, the host is named.
  bool has_remark = false;
  bool is_first = true;  // a host's first remark comes a moment later
  options.on_remark = [&has_remark](const std::string& remark) {
    has_remark = true;
    write_error(printable(remark) + "\n");
  };
  options.on_waiting = [&has_remark, &is_first,
                        say_host = options.on_waiting](const std::vector<std::string>& waiting) {
    if (!std::exchange(is_first, false) && !has_remark) say_host(waiting);
  };
  options.may_repeat = false;  // a second signal may mean more than the first
  const std::vector<remote::HostAnswer> answers = remote::ask_hosts(questions, options);
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    outcomes.push_back(read_outcome(answers[i], chosen[i]));
  }
  return outcomes;
}

int signal_of(const SubcommandLine& line) {
  const std::string name = line.value_of("--signal").value_or("TERM");
  const int signal = signal_number(name);
  DL_CHECK(signal != 0, kInvalidArgument, "kill: --signal is {}, wanted a name as TERM or a number",
           quoted_name(name));
  return signal;
}

std::chrono::milliseconds patience_of(const SubcommandLine& line) {
  double seconds = kPatienceSeconds;
  if (const auto text = line.value_of("--timeout")) {
    const auto number = read_number<double>(*text);
    DL_CHECK(number && *number >= 0 && *number <= kMostPatienceSeconds, kInvalidArgument,
             "kill: --timeout is {}, wanted seconds from 0 to {}", quoted_name(*text),
             kMostPatienceSeconds);
    seconds = *number;
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

// Refuses several jobs without --all.
void check_number(const std::vector<Chosen>& chosen, const SubcommandLine& line) {
  if (line.has("--all") || is_one_job(chosen)) return;
  std::string list;
  for (const Chosen& one : chosen) {
    list += fmt::format("\n  {}, id {}", name_of(one), shown_word(one.job.id));
  }
  throw_error(ErrorKind::kInvalidArgument, "{}:{}", why_several(chosen, line.operands.front()),
              list);
}

void print_json(Json outcomes) {
  fmt::print("{}\n", Json{{"jobs", std::move(outcomes)}}.dump(2, ' ', /*ensure_ascii=*/true,
                                                              Json::error_handler_t::replace));
}

// Throws kNotFound if there is no job of this name, and kInvalidArgument if it names several.
std::vector<Chosen> choose(const std::vector<HostJobs>& hosts, const SubcommandLine& line) {
  try {
    std::vector<Chosen> chosen = matches(hosts, line.operands.front());
    if (line.has("--all")) keep_namesakes(chosen, line.operands.front());
    check_number(chosen, line);
    return chosen;
  } catch (const Error&) {
    if (line.has("--json")) print_json(Json::array());
    throw;
  }
}

}  // namespace

int run_kill(const SubcommandLine& line) {
  DL_CHECK(line.operands.size() == 1, kInvalidArgument,
           "kill wants one job: dlrun kill JOB, with its name, its dlrun's pid or its id");
  const int signal = signal_of(line);
  const std::chrono::milliseconds patience = patience_of(line);
  const remote::HostChoice choice = read_hosts(line);
  const std::vector<HostJobs> hosts = jobs_of(choice);
  const bool is_host_silent = say_errors(hosts);
  const std::vector<Chosen> chosen = choose(hosts, line);
  const std::vector<Outcome> outcomes =
      choice.hosts.empty()
          ? end_here(chosen, {.signal = signal, .patience = patience, .on_waiting = say})
          : end_on_hosts(chosen, line, patience, choice);
  const bool as_json = line.has("--json");
  Json all = Json::array();
  bool all_well = !is_host_silent;
  for (const Outcome& outcome : outcomes) {
    const bool is_well = outcome.is == Outcome::Is::kEnded || outcome.is == Outcome::Is::kSent;
    all_well = all_well && is_well;
    all.push_back(json_of(outcome));
    if (as_json) continue;
    if (is_well) {
      fmt::print("{}\n", printable(outcome.text));
    } else {
      say(outcome.text);
    }
  }
  if (as_json) print_json(std::move(all));
  return all_well ? 0 : 1;
}

}  // namespace dl::launcher::jobs
