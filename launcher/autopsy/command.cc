
#include <fmt/core.h>

#include <cstdio>

#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/autopsy/autopsy.h"
#include "launcher/process/start/program.h"

namespace dl::launcher::autopsy {
namespace {

constexpr const char* kHelp =
    "Usage: dlrun autopsy [--json] DIR...\n"
    "\n"
    "Reads the flight recorders that dlrun left in its --log-dir when a job failed or when dlrun "
    "got\n"
    "SIGUSR1, and says who stopped where and what the others waited for. DIR is a --log-dir, whose "
    "last\n"
    "run is read, or one run in it. Of a job on several nodes, give every node's directory.\n"
    "\n"
    "  --json      the same, and every operation that was recorded, as JSON\n"
    "  -h, --help  print this and exit\n"
    "\n"
    "Exit code: 0; 1 nothing could be read; 2 bad usage. (A program of this name: dlrun -- "
    "autopsy.)\n";

}  // namespace

int run(const std::vector<std::string>& arguments) {
  bool as_json = false;
  bool only_paths = false;
  Case found;
  bool any = false;
  for (const std::string& argument : arguments) {
    if (!only_paths && (argument == "-h" || argument == "--help")) {
      fmt::print("{}", kHelp);
      return 0;
    }
    if (!only_paths && argument == "--") {
      only_paths = true;
    } else if (!only_paths && argument == "--json") {
      as_json = true;
    } else if (!only_paths && argument.size() > 1 && argument[0] == '-') {
      write_error(
          fmt::format("dlrun: autopsy has no option {}; `dlrun autopsy --help` lists them all\n",
                      printable(argument)));
      return kExitUsage;
    } else {
      found.add_path(argument);
      any = true;
    }
  }
  if (!any) {
    write_error("dlrun: autopsy wants a directory: dlrun autopsy [--json] DIR\n");
    return kExitUsage;
  }
  if (as_json) {
    fmt::print("{}\n", json(found));
  } else {
    for (const std::string& line : page(found)) {
      fmt::print(found.ranks.empty() ? stderr : stdout, "{}{}\n",
                 found.ranks.empty() ? "dlrun: autopsy: " : "", printable(line));
    }
  }
  return found.ranks.empty() ? 1 : 0;
}

}  // namespace dl::launcher::autopsy
