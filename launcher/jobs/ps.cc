#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/jobs/find/processes.h"
#include "launcher/jobs/hosts.h"
#include "launcher/process/time_of_day.h"

namespace dl::launcher::jobs {
namespace {

constexpr std::chrono::seconds kPatienceWithHosts{20};

// What the dlrun of a host has said, under the name by which it was asked.
HostJobs jobs_in(const remote::HostAnswer& answer) {
  HostJobs host{.host = answer.host, .error = answer.error, .jobs = {}};
  if (!host.error.empty()) return host;
  std::optional<std::vector<HostJobs>> said = read_jobs(answer.text);
  if (!said || said->size() != 1) {
    host.error = remote::not_understood(answer.host);
    return host;
  }
  host.jobs = std::move(said->front().jobs);
  return host;
}

}  // namespace

remote::HostChoice read_hosts(const SubcommandLine& line) {
  remote::HostChoice choice = remote::read_hosts(line);
  if (!choice.beside.empty()) choice.hosts.insert(choice.hosts.begin(), choice.beside);
  return choice;
}

std::vector<HostJobs> jobs_of(const remote::HostChoice& choice) {
  if (choice.hosts.empty()) return {jobs_here()};
  std::vector<remote::HostQuestion> questions;
  for (const std::string& host : choice.hosts) questions.push_back({host, {"ps", "--json"}});
  std::vector<HostJobs> jobs;
  for (const remote::HostAnswer& answer :
       remote::ask_hosts(questions, remote::asking(choice, kPatienceWithHosts))) {
    jobs.push_back(jobs_in(answer));
  }
  return jobs;
}

bool say_errors(const std::vector<HostJobs>& hosts) {
  bool any = false;
  for (const HostJobs& host : hosts) {
    if (host.error.empty()) continue;
    write_error(fmt::format("dlrun: {}\n", printable(host.error)));
    any = true;
  }
  return any;
}

int run_ps(const SubcommandLine& line) {
  const std::vector<HostJobs> hosts = jobs_of(read_hosts(line));
  if (line.has("--json")) {
    fmt::print("{}\n", json_of(hosts).dump(2, ' ', /*ensure_ascii=*/true,
                                           nlohmann::ordered_json::error_handler_t::replace));
  } else {
    for (const std::string& text : page(hosts, now_ns())) fmt::print("{}\n", text);
  }
  return say_errors(hosts) ? 1 : 0;
}

}  // namespace dl::launcher::jobs
