#include "launcher/cli/table/option_table.h"

#include <fmt/core.h>

#include <iterator>

#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

// Words with a common answer.
struct Refused {
  std::string_view whose;
  std::string_view words;  // separated by blanks
  std::string_view instead;
};

// Common answers.
constexpr std::string_view kBinding =
    "--bind core, even, numa or socket says what each rank is bound to";
constexpr std::string_view kPerNode = "write --nproc-per-node N";
constexpr std::string_view kDryRun = "--dry-run prints who would run where";
constexpr std::string_view kLogs = "--log-dir DIR keeps both streams of every rank";
constexpr std::string_view kAllocation =
    "say it to sbatch or salloc, and start dlrun inside the allocation";
constexpr std::string_view kNoDaemons = "dlrun has no such daemons or files; leave it out";
constexpr std::string_view kEnvironment = "write -x NAME=VALUE for each variable";
constexpr std::string_view kInherits =
    "ranks have dlrun's whole environment; start it with `env -i` for none, and leave this out";
constexpr std::string_view kAppFile = "write --app FILE, with a program a line";
constexpr std::string_view kHosts = "write --hosts HOST:SLOTS,...";

// clang-format off
constexpr Refused kRefused[] = {
    // Open MPI 4 and 5. It takes one dash or two.
    {"mpirun", "--bycore --bind-to-core --bind-to-socket --cpus-per-proc --cpus-per-rank --cpu-list --cpu-set --use-hwthread-cpus", kBinding},
    {"mpirun", "--ppr", "write --map-by ppr:N:node"},
    {"mpirun", "--bynode --byslot", "write --rank-by node or --rank-by slot, and the slots of each host in --hosts"},
    {"mpirun", "--rankfile -rf --rf", kBinding},
    {"mpirun", "-N --npernode --npersocket", kPerNode},
    {"mpirun", "--pernode", "write --nproc-per-node 1"},
    {"mpirun", "-c --c", "write -n N"},
    {"mpirun", "--oversubscribe --nooversubscribe --nolocal", "dlrun starts as many ranks as --nproc-per-node or -n says; leave it out"},
    {"mpirun", "--merge-stderr-to-stdout", "write `dlrun ... 2>&1`"},
    {"mpirun", "--stdin", "standard input goes to rank 0; leave it out"},
    {"mpirun", "--xml --xml-file --xterm", "dlrun has no such output; leave it out"},
    {"mpirun", "-q --quiet", "dlrun says nothing while all is well; leave it out"},
    {"mpirun", "--display-allocation --display-map --display-devel-allocation --display-devel-map --display-diffable-map --display-topo --display --show-progress --do-not-launch --output-proctable", kDryRun},
    {"mpirun", "--mca --gmca --gpmixmca --omca --pmixmca --prtemca --am --tune", "it sets up Open MPI's own parts; give its programs OMPI_MCA_... variables with -x"},
    {"mpirun", "--allow-run-as-root", "dlrun runs as any user; leave it out"},
    {"mpirun", "--prefix --noprefix --path", "write -x PATH=... or the program's whole path"},
    {"mpirun", "--preload-binary --preload-files -s", "put the files on every node first"},
    {"mpirun", "--enable-recovery --continuous", "write --on-failure keep"},
    {"mpirun", "--disable-recovery", "a rank's failure ends the job; leave it out"},
    {"mpirun", "--get-stack-traces --report-state-on-timeout", "--log-dir DIR and `dlrun autopsy DIR` say where each rank was"},
    {"mpirun", "--configfile", kAppFile},
    {"mpirun", "--initial-errhandler --personality", "leave it out"},
    {"mpirun", "--default-hostfile", "write --hostfile FILE"},
    {"mpirun", "--debug --debugger --tv --debug-devel --debug-daemons --debug-daemons-file -d", "start the debugger as the program: `dlrun ... gdb -batch -ex run --args ./train`"},
    {"mpirun", "--cf --cartofile --dvm --hnp --novm --ompi-server --report-uri --report-pid --report-events --report-child-jobs-separately --launch-agent --leave-session-attached --fwd-mpirun-port --do-not-resolve "
               "--enable-instant-on-support --index-argv-by-rank --max-vm-size --set-cwd-to-session-dir --use-regexp --set-sid --host-range --runtime-options --keepalive", kNoDaemons},

    // Hydra. It takes one dash.
    {"mpiexec", "-ppn -perhost -grr", kPerNode},
    {"mpiexec", "-f -machinefile", "write --hostfile FILE"},
    {"mpiexec", "-hosts", kHosts},
    {"mpiexec", "-genv -env", kEnvironment},
    {"mpiexec", "-genvlist -envlist", "write -x NAME for each variable"},
    {"mpiexec", "-genvall -envall -genvnone -envnone", kInherits},
    {"mpiexec", "-bind-to -map-by -membind -topolib", kBinding},
    {"mpiexec", "-verbose -info -print-all-exitcodes", "write -v"},
    {"mpiexec", "-iface", "write --iface NAME"},
    {"mpiexec", "-prepend-rank -l -prepend-pattern", "each line begins with `[rank N] `; --log-line-prefix-template changes that"},
    {"mpiexec", "-outfile-pattern -errfile-pattern -outfile -errfile", kLogs},
    {"mpiexec", "-disable-auto-cleanup", "write --on-failure keep"},
    {"mpiexec", "-configfile", kAppFile},
    {"mpiexec", "-gpus-per-proc", "write --gpus-per-rank N"},
    {"mpiexec", "-launcher -launcher-exec -rmk -demux -nameserver -disable-hostname-propagation -order-nodes -localhost -usize -pmi-port -skip-launch-node -enable-x -disable-x -profile "
                "-bootstrap -bootstrap-exec -ckpoint-interval -ckpoint-prefix -ckpointlib -hostname-propagation -no-local", kNoDaemons},

    // srun, by its long names, and by the letter of its hosts.
    {"srun", "--ntasks", "write -n N"},
    {"srun", "--ntasks-per-node", kPerNode},
    {"srun", "--ntasks-per-core --ntasks-per-socket --cpu-bind --mem-bind --hint --threads-per-core --cores-per-socket --sockets-per-node --extra-node-info --cpus-per-task", kBinding},
    {"srun", "--distribution", "write --rank-by slot for block, --rank-by node for cyclic"},
    {"srun", "--nodes", "write --nnodes N"},
    {"srun", "--nodelist --nodefile -w", kHosts},
    {"srun", "--chdir", "write --wdir DIR"},
    {"srun", "--export --export-file", kEnvironment},
    {"srun", "--label", "each line begins with `[rank N] `; leave it out"},
    {"srun", "--unbuffered", "lines come as they are written; leave it out"},
    {"srun", "--output --error", kLogs},
    {"srun", "--input", "standard input goes to rank 0: write `dlrun ... < FILE`"},
    {"srun", "--kill-on-bad-exit --no-kill", "a rank's failure ends the job; --on-failure keep lets the others live on"},
    {"srun", "--wait", "write --grace SECONDS"},
    {"srun", "--gpus-per-task", "write --gpus-per-rank N"},
    {"srun", "--gpus --gpu-bind --gpus-per-node --gpus-per-socket --gres --gres-flags", "write --nproc-per-node gpu, or --gpus-per-rank N"},
    {"srun", "--multi-prog", "write the programs with `:` between them, or --app FILE"},
    {"srun", "--het-group", "leave it out"},
    {"srun", "--pty", "standard input goes to rank 0 only; leave it out"},
    {"srun", "--bcast --bcast-exclude --send-libs --prolog --epilog --task-prolog --task-epilog", "put the files on every node first; leave it out"},
    {"srun", "--overcommit --oversubscribe --overlap --exact --exclusive --disable-status --quit-on-interrupt --slurmd-debug --threads --propagate --preserve-env --container --usage --compress --profile --resv-ports --relative", "leave it out"},
    {"srun", "--signal", "say it to sbatch: `#SBATCH --signal=B:USR1@60`; --forward-signals USR1 passes it on to the ranks"},
    {"srun", "--account --acctg-freq --bb --bbf --begin --cluster-constraint --clusters --comment --constraint --contiguous --core-spec --cpu-freq --cpus-per-gpu --deadline --delay-boot --dependency --exclude --gpu-freq --hold "
             "--immediate --job-name --jobid --licenses --mail-type --mail-user --mcs-label --mem --mem-per-cpu --mem-per-gpu --mincpus --nice --no-allocate --partition --power --priority --qos --reboot --reservation "
             "--spread-job --switches --thread-spec --time --time-min --tmp --use-min-nodes --wckey", kAllocation},
};
// clang-format on

}  // namespace

std::optional<std::string> why_refused(std::string_view word) {
  // Open MPI's and hydra's words are known with either number of dashes.
  std::string doubled = "-";
  doubled += word;
  const bool single = word.starts_with('-') && !word.starts_with("--");
  for (const std::string_view spelled : {word, std::string_view(doubled)}) {
    for (const Refused& refused : kRefused) {
      if (!read::has_word(refused.words, spelled)) continue;
      if (spelled != word && (!single || refused.whose == "srun" || word.size() == 2)) continue;
      return fmt::format("{} of {} is not supported: {}", word, refused.whose, refused.instead);
    }
  }
  return std::nullopt;
}

}  // namespace dl::launcher
