#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text/number.h"
#include "core/base/text/printable.h"
#include "core/base/version.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/doctor/checks/families.h"
#include "launcher/doctor/hosts.h"
#include "launcher/doctor/measure.h"
#include "launcher/doctor/mesh.h"
#include "launcher/doctor/report.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/process/time_of_day.h"
#include "launcher/remote/ask/ask_hosts.h"
#include "rendezvous/net/socket/address.h"

namespace dl::launcher::doctor {

namespace {

constexpr int kMostRanks = 1 << 20;
// In which all hosts must have come to the mesh.
constexpr std::chrono::seconds kMeshWindow{10};

// One rank a GPU or, without GPUs, one a usable core, as `--nproc-per-node auto`.
int ranks_of(const SubcommandLine& line, const GpuFacts& gpus) {
  if (const auto text = line.value_of("--ranks")) {
    const auto ranks = read_number<int>(*text);
    DL_CHECK(ranks && *ranks > 0 && *ranks <= kMostRanks, kInvalidArgument,
             "doctor: --ranks is {}, wanted a number from 1 to {}", quoted_name(*text), kMostRanks);
    return *ranks;
  }
  return gpus.gpus > 0 ? gpus.gpus : this_machine().usable_cores();
}

std::vector<std::string> peers_of(const SubcommandLine& line) {
  std::vector<std::string> peers;
  std::istringstream names(line.value_of("--peers").value_or(""));
  for (std::string name; std::getline(names, name, ',');) peers.push_back(name);
  return peers;
}

HostReport check_this_host(const SubcommandLine& line) {
  HostReport report{
      .host = host_name(), .version = std::string(kVersion), .began_ns = now_ns(), .checks = {}};
  for (const rendezvous::Address& address : rendezvous::host_addresses()) {
    report.addresses.push_back(address.host());
  }
  const GpuFacts gpu = read_gpu("");
  const int ranks = ranks_of(line, gpu);
  for (const Checks& family :
       {check_limits(read_limits("", ranks)), check_memory(read_memory("", ranks)),
        check_cpus(read_cpus("", ranks)),
        check_disk(read_disk(line.value_of("--log-dir").value_or("."))),
        check_network(read_network("", peers_of(line))), check_programs(read_programs("")),
        check_gpu(gpu)}) {
    report.checks.insert(report.checks.end(), family.begin(), family.end());
  }
  if (line.has("--measure"))
    report.checks.push_back(check_one_host(measure({.options = {"--standalone", "-n", "2"}})));
  report.ended_ns = now_ns();
  return report;
}

}  // namespace

int run(const SubcommandLine& line) {
  if (const auto question = line.value_of("--mesh")) {
    fmt::print("{}\n", json_text(meet(read_question(*question), kMeshWindow)));
    return 0;
  }
  const remote::HostChoice choice = remote::read_hosts(line);
  const Report report = choice.hosts.empty()
                            ? Report{.hosts = {check_this_host(line)}, .between = {}}
                            : check_hosts(choice, line);
  if (line.has("--json")) {
    fmt::print("{}\n", json_of(report).dump(2, ' ', /*ensure_ascii=*/true,
                                            nlohmann::ordered_json::error_handler_t::replace));
  } else {
    for (const std::string& text : page(report)) fmt::print("{}\n", text);
  }
  return is_anything_wrong(report) ? 1 : 0;
}

}  // namespace dl::launcher::doctor
