#include <algorithm>

#include "launcher/cli/subcommand/subcommand.h"

namespace dl::launcher {

// Their rooms include this one, so they are declared here.
namespace autopsy {
int run(const SubcommandLine& line);
}
namespace topo {
int run(const SubcommandLine& line);
}

namespace {

constexpr SubcommandOption kAutopsyOptions[] = {
    {.name = "--json", .help = "the same, and every operation that was recorded, as JSON"},
};
constexpr SubcommandOption kTopoOptions[] = {
    {.name = "--matrix",
     .letter = 'm',
     .help = "how far the devices are from each other, in the words of nvidia-smi topo -m"},
    {.name = "--json", .help = "all of it as JSON"},
    {.name = "--svg", .help = "a picture, for a file: dlrun topo --svg > host.svg"},
};

constexpr Subcommand kSubcommands[] = {
    {.name = "autopsy",
     .usage = "[--json] DIR...",
     .help = "who stopped in which operation, from the logs of a job",
     .about = "Reads the flight recorders that dlrun left in its --log-dir when a job failed or "
              "when dlrun got\n"
              "SIGUSR1, and says who stopped where and what the others waited for. DIR is a "
              "--log-dir, whose last\n"
              "run is read, or one run in it. Of a job on several nodes, give every node's "
              "directory.\n"
              "DLRUN_RECORDER=off in dlrun's environment switches the recorders off.\n",
     .operands = "DIR",
     .options = kAutopsyOptions,
     .exit_codes = "0; 1 nothing could be read; 2 bad usage",
     .run = autopsy::run},
    {.name = "topo",
     .usage = "[-m | --json | --svg]",
     .help = "what this host looks like: sockets, caches, cores, GPUs, networks",
     .about = "Shows this host: sockets, NUMA nodes, caches, the cores that this process may use, "
              "GPUs and\n"
              "network interfaces. Of other hosts: dlrun --hosts a:1,b:1 dlrun topo\n",
     .operands = "",
     .options = kTopoOptions,
     .exit_codes = "0; 1 the host could not be read; 2 bad usage",
     .run = topo::run},
};

}  // namespace

std::span<const Subcommand> subcommand_table() {
  return kSubcommands;
}

const Subcommand* find_subcommand(std::string_view word) {
  const auto* const found = std::ranges::find(kSubcommands, word, &Subcommand::name);
  return found == std::end(kSubcommands) ? nullptr : found;
}

}  // namespace dl::launcher
