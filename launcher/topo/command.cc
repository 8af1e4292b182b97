#include <fmt/core.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/remote/ask/ask_hosts.h"
#include "launcher/topo/hosts.h"
#include "launcher/topo/topo.h"

namespace dl::launcher::topo {
namespace {

HostMap read_host() {
  const Machine machine = this_machine();
  HostMap map{.host = machine.host,
              .topology = read_topology(machine.cpus, "", "dlrun topo"),
              .usable_cores = machine.quota.value_or(static_cast<double>(machine.cpus.size())),
              .devices = read_devices()};
  try {
    add_nv_links(find_gpus(), map.devices);
  } catch (const Error& error) {
    write_error(fmt::format("dlrun: without NVLinks: {}\n", printable(error.what())));
  }
  return map;
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", printable(line));
}

// --matrix, --json or --svg; empty: none of them.
std::string_view form_of(const SubcommandLine& line) {
  std::string_view form;
  for (const auto& [option, value] : line.options) {
    if (option != "--matrix" && option != "--json" && option != "--svg") continue;
    DL_CHECK(form.empty() || form == option, kInvalidArgument, "topo shows one of {} and {}", form,
             option);
    form = option;
  }
  return form;
}

int run_here(std::string_view form) {
  const HostMap map = read_host();
  if (form == "--matrix") {
    print(matrix(map));
  } else if (form == "--json") {
    fmt::print("{}\n", json(map));
  } else if (form == "--svg") {
    fmt::print("{}", picture({map}));
  } else {
    print(page(map));
  }
  return 0;
}

int run_on(const remote::HostChoice& choice, std::string_view form) {
  const std::vector<AskedHost> hosts = ask_maps(choice);
  if (form == "--json") {
    fmt::print("{}\n", json(hosts));
  } else if (form == "--svg") {
    fmt::print("{}", picture(alike(hosts)));
  } else {
    bool is_first = true;
    for (const HostMap& map : alike(hosts)) {
      if (!is_first) fmt::print("\n");
      is_first = false;
      if (form == "--matrix") print({map.host + ":"});
      print(form == "--matrix" ? matrix(map) : page(map));
    }
  }
  bool is_any_silent = false;
  for (const AskedHost& host : hosts) {
    if (host.error.empty()) continue;
    write_error(fmt::format("dlrun: {}\n", printable(host.error)));
    is_any_silent = true;
  }
  return is_any_silent ? 1 : 0;
}

}  // namespace

int run(const SubcommandLine& line) {
  const std::string_view form = form_of(line);
  const remote::HostChoice choice = remote::read_hosts(line);
  return choice.hosts.empty() ? run_here(form) : run_on(choice, form);
}

}  // namespace dl::launcher::topo
