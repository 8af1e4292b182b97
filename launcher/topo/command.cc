#include <fmt/core.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/plan/machine/machine.h"
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

}  // namespace

int run(const SubcommandLine& line) {
  std::string_view form;
  for (const auto& [option, value] : line.options) {
    DL_CHECK(form.empty() || form == option, kInvalidArgument, "topo shows one of {} and {}", form,
             option);
    form = option;
  }
  const HostMap map = read_host();
  if (form == "--matrix") {
    print(matrix(map));
  } else if (form == "--json") {
    fmt::print("{}\n", json(map));
  } else if (form == "--svg") {
    fmt::print("{}", picture(map));
  } else {
    print(page(map));
  }
  return 0;
}

}  // namespace dl::launcher::topo
