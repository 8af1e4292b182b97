#include <algorithm>

#include "launcher/cli/subcommand/subcommand.h"

namespace dl::launcher {

// Their rooms include this one, so they are declared here.
namespace autopsy {
int run(const SubcommandLine& line);
}
namespace doctor {
int run(const SubcommandLine& line);
}
namespace jobs {
int run_kill(const SubcommandLine& line);
int run_ps(const SubcommandLine& line);
}  // namespace jobs
namespace topo {
int run(const SubcommandLine& line);
}

namespace {

constexpr SubcommandOption kAutopsyOptions[] = {
    {.name = "--json", .help = "the same, and every operation that was recorded, as JSON"},
};

constexpr SubcommandOption kHostsOption = {
    .name = "--hosts", .letter = 'H', .value = "HOST,...", .help = "on these hosts, by ssh"};
constexpr SubcommandOption kHostfileOption = {
    .name = "--hostfile", .value = "FILE", .help = "the same from a file, a host a line"};
constexpr SubcommandOption kSshOption = {
    .name = "--ssh",
    .value = "COMMAND",
    .help = "the ssh that reaches them, with its options (ssh)"};
constexpr SubcommandOption kThisHostOption = {
    .name = "--this-host", .help = "this host alone, also inside an allocation of SLURM"};

constexpr SubcommandOption kTopoOptions[] = {
    {.name = "--matrix",
     .letter = 'm',
     .help = "how far the devices are from each other, in the words of nvidia-smi topo -m"},
    {.name = "--json", .help = "all of it as JSON"},
    {.name = "--svg", .help = "a picture, for a file: dlrun topo --svg > host.svg"},
    kHostsOption,
    kHostfileOption,
    kSshOption,
    kThisHostOption,
};
constexpr SubcommandOption kPsOptions[] = {{.name = "--json", .help = "all of it as JSON"},
                                           kHostsOption,
                                           kHostfileOption,
                                           kSshOption,
                                           kThisHostOption};
constexpr SubcommandOption kDoctorOptions[] = {
    {.name = "--ranks",
     .letter = 'n',
     .value = "N",
     .help = "ranks on this host (one a GPU, else one a usable core)"},
    {.name = "--log-dir", .value = "DIR", .help = "where the logs will be (the working directory)"},
    {.name = "--json", .help = "all of it as JSON"},
    kHostsOption,
    kHostfileOption,
    kSshOption,
    kThisHostOption,
    {.name = "--measure", .help = "also run jobs of two ranks that time what they get (dlbench)"},
    {.name = "--peers", .value = "HOST,...", .help = "other hosts, whose names are looked up here"},
    {.name = "--mesh", .value = "QUESTION", .help = "for --hosts, which asks each host so"},
};
constexpr SubcommandOption kKillOptions[] = {
    {.name = "--all", .help = "all jobs of this name, if there are several"},
    {.name = "--signal",
     .letter = 's',
     .value = "NAME",
     .help = "another signal than TERM; KILL ends the ranks at once"},
    {.name = "--timeout", .value = "SECONDS", .help = "how long to wait for the end (60)"},
    {.name = "--json", .help = "what became of each job, as JSON"},
    kHostsOption,
    kHostfileOption,
    kSshOption,
    kThisHostOption,
};

constexpr Subcommand kSubcommands[] = {
    {.name = "doctor",
     .usage = "[options]",
     .help = "what would make a job slow or fail on this host, and how to mend it",
     .about =
         "Looks at this host before a job runs: limits, memory, CPUs, the disk of the logs, "
         "networks and\n"
         "names, programs, GPUs. Each thing that is not in order has a reason and a command "
         "that mends it,\n"
         "the worst first. Nothing is changed. With --hosts, and in a SLURM allocation of several "
         "nodes, also\n"
         "ssh or srun, versions, clocks and the connections between each two hosts.\n",
     .operands = "",
     .options = kDoctorOptions,
     .exit_codes = "0; 1 something is wrong; 2 bad usage",
     .run = doctor::run},
    {.name = "ps",
     .usage = "[--json] [--hosts HOST,...]",
     .help = "your jobs on this host or on others, and what their ranks wait for",
     .about = "Shows your jobs on this host: each dlrun, its ranks, their state, and the operation "
              "in which a\n"
              "rank is if its program uses dlrun's collectives. Of a job whose ranks are on other "
              "hosts, --hosts\n"
              "shows what each rank does. In a SLURM allocation all of its nodes are asked, by "
              "srun. Only jobs of\n"
              "your own user are shown, also to root.\n",
     .operands = "",
     .options = kPsOptions,
     .exit_codes = "0, also without jobs; 1 a host does not answer; 2 bad usage",
     .run = jobs::run_ps},
    {.name = "kill",
     .usage = "[options] JOB",
     .help = "end a job of yours, on this host or on others, and wait for its end",
     .about = "Sends SIGTERM to the dlrun of a job and waits until it has ended with all of its "
              "ranks. JOB is the\n"
              "job's name, the pid of its dlrun, or the id that `dlrun ps --json` shows. If "
              "several jobs have the\n"
              "name, they are listed and left alone. In a SLURM allocation it looks on all of its "
              "nodes. A signal\n"
              "goes to dlruns of your own user only, also from root. A stopped dlrun is "
              "continued.\n",
     .operands = "JOB",
     .options = kKillOptions,
     .exit_codes =
         "0 it has ended, or has the signal; 1 there is no such job, or it has not ended; "
         "2 bad usage, or\nseveral jobs have the name",
     .run = jobs::run_kill},
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
     .usage = "[-m | --json | --svg] [--hosts HOST,...]",
     .help = "what hosts look like: sockets, caches, cores, GPUs, networks",
     .about =
         "Shows this host: sockets, NUMA nodes, caches, the cores that dlrun may use, GPUs and "
         "network\n"
         "interfaces. With --hosts it shows those hosts, and in a SLURM allocation all of its "
         "nodes, "
         "which srun\n"
         "asks. Hosts that look alike are shown once.\n",
     .operands = "",
     .options = kTopoOptions,
     .exit_codes = "0; 1 a host could not be read or does not answer; 2 bad usage",
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
