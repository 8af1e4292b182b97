#include "launcher/cli/table/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

using env::Var;
using read::kMost;
using read::number;
using read::seconds;
using read::text_of;
using read::value_of;
using read::Word;
using read::word_of;

constexpr Word<Mpi> kMpi[] = {
    {"auto", Mpi::kAuto}, {"pmi1", Mpi::kPmi1}, {"pmix", Mpi::kPmix}, {"none", Mpi::kNone}};
constexpr Word<TorchBackend> kTorchBackend[] = {{"gloo", TorchBackend::kGloo},
                                                {"dlrun", TorchBackend::kDlrun}};
constexpr Word<Bind> kBind[] = {{"none", Bind::kNone},
                                {"core", Bind::kCore},
                                {"even", Bind::kEven},
                                {"numa", Bind::kNuma},
                                {"socket", Bind::kSocket}};
constexpr Word<Bind> kBindTo[] = {
    {"none", Bind::kNone}, {"core", Bind::kCore}, {"numa", Bind::kNuma}, {"socket", Bind::kSocket}};
constexpr Word<rendezvous::OnFailure> kOnFailure[] = {{"stop", rendezvous::OnFailure::kStop},
                                                      {"keep", rendezvous::OnFailure::kKeep}};
constexpr Word<GpuPolicy> kGpuPolicy[] = {
    {"keep", GpuPolicy::kKeep}, {"scope", GpuPolicy::kScope}, {"leave", GpuPolicy::kLeave}};

// Whether --nproc-per-node counts the ranks of some node.
bool counts_per_node(const Options& o, bool) {
  const auto has_slots = [](const HostSlots& host) { return host.slots.has_value(); };
  return !o.job.np && !o.where.most_per_node &&
         (o.where.hosts.empty() || !std::ranges::all_of(o.where.hosts, has_slots));
}

// clang-format off
constexpr OptionRow kTable[] = {
    {.name = "--help", .letter = 'h', .group = Group::kInformation, .origin = Origin::kTorchrun,
     .help = "print this and exit",
     .read = read::nothing},
    {.name = "--version", .letter = 'V', .group = Group::kInformation,
     .help = "print the version and exit",
     .read = read::nothing},
    {.name = "--print-completion", .value = "bash|zsh|tcsh|fish", .group = Group::kInformation, .origin = Origin::kTorchrun,
     .help = "print a completion script for the shell and exit",
     .about = "prints a completion script: `eval \"$(dlrun --print-completion bash)\"` in `~/.bashrc`; for zsh, write it to a file `_dlrun` in a folder of `$fpath`; for fish, to `~/.config/fish/completions/dlrun.fish`; for tcsh, to a file that `~/.tcshrc` sources",
     .read = read::nothing},

    {.name = "--nproc-per-node", .value = "N|gpu|cpu|auto", .origin = Origin::kTorchrun, .fallback = "1",
     .help = "ranks a node; gpu, cpu: one a GPU, a core; auto: gpu, else cpu",
     .about = "ranks on this node. `gpu`: one rank a GPU that `CUDA_VISIBLE_DEVICES` leaves (over `--gpus-per-rank`). `cpu`: one a usable core: CPUs that dlrun may run on, or the control group's quota rounded up, "
              "whichever is less. `auto`: `gpu` if there is a GPU, else `cpu`, as with torchrun. In a SLURM allocation without this option and `-n`: [the tasks asked for](../guides/slurm.md)",
     .read = read::nproc_per_node, .applies = counts_per_node, .variable = Var::kPetNproc},
    {.name = "--np", .letter = 'n', .also = "-np --n", .value = "N", .origin = Origin::kMpirun,
     .help = "ranks of the whole job, on all its nodes together",
     .about = "ranks of the whole job, as with mpirun. Several nodes share them equally, so N must be a multiple of `--nnodes`. With `--hosts` the default is the number of slots. Ranks also find their numbers in `OMPI_COMM_WORLD_RANK`, `_SIZE`, `_LOCAL_RANK` and `_LOCAL_SIZE`, which programs for Open MPI's mpirun read (`DLRUN_MPIRUN_NAMES=1`: with any line; 0: with none; not in an MPICH program)",
     .read = [](Options& o, const Typed& t) { o.job.apps.back().np = number(t, 1, kMost); }, .is_of_app = true},
    {.name = "--app", .value = "FILE", .origin = Origin::kMpirun,
     .help = "several programs, a line each, as behind `:`",
     .about = "the programs of the job from a file, one a line, each with its `-n`, as behind `:` ([several programs](../guides/launching.md#several-programs)); `#` begins a remark",
     .read = read::nothing},
    {.name = "--module", .letter = 'm', .origin = Origin::kTorchrun,
     .help = "the program is a Python module, as with `python -m`",
     .about = "the program is a Python module: ranks run `python -u -m MODULE`, with the interpreter that a `.py` program gets",
     .read = read::nothing, .variable = Var::kPetModule, .is_of_app = true},
    {.name = "--no-python", .origin = Origin::kTorchrun,
     .help = "run a .py program as it stands, by its `#!` line",
     .about = "a `.py` program is executed as it stands, by its `#!` line",
     .read = read::nothing, .variable = Var::kPetNoPython, .is_of_app = true},
    {.name = "--run-path", .origin = Origin::kTorchrun,
     .help = "the program is a Python script, whatever its name",
     .about = "the program is a Python script, whatever its name; goes before `--no-python`. Each rank has an interpreter of its own",
     .read = read::nothing, .variable = Var::kPetRunPath, .is_of_app = true},
    {.name = "-x", .value = "VARIABLE[=VALUE]", .origin = Origin::kMpirun,
     .help = "set an environment variable for all ranks; may be repeated",
     .about = "sets a variable for all ranks, or passes on the one of dlrun's environment, as with mpirun; each variable has an `-x` of its own. On this machine ranks have dlrun's whole environment anyway. `-x MASTER_ADDR=...` "
              "and `-x MASTER_PORT=...` count as `--master-addr` and `--master-port`, and all programs of a job have the same. A variable that dlrun gives to the ranks itself (`RANK`, `MASTER_ADDR`) need not be named; another value for one that each rank has of its own (`RANK=3`) is refused",
     .read = read::export_variable, .repeats = true, .is_of_app = true},
    {.name = "--mpi", .value = "auto|pmi1|pmix|none", .fallback = "auto",
     .help = "serve programs of MPICH (pmi1), Open MPI (pmix)",
     .about = "serves the ranks as processes of MPICH and its relatives (`pmi1`) or of Open MPI (`pmix`); `auto`: as the program or its libraries are linked ([MPI programs](../guides/mpi.md#mpi-programs-under-dlrun))",
     .read = [](Options& o, const Typed& t) { o.job.mpi = value_of(t, kMpi); },
     .pass = [](const Options& o) { return word_of(o.job.mpi, kMpi); }},
    {.name = "--torch-backend", .value = "gloo|dlrun",
     .help = "dlrun: PyTorch programs for Gloo get dlrun's collectives",
     .about = "`dlrun`: a PyTorch program that says `gloo` gets dlrun's collectives, unchanged ([how](../guides/pytorch.md#an-unchanged-program-for-gloo)). Refused if the Python that runs the program has no PyTorch 2.14 or newer, or not the package `dlrun`. `gloo`: Gloo, even if `DLRUN_TORCH_BACKEND` is set",
     .read = [](Options& o, const Typed& t) { o.job.torch_backend = value_of(t, kTorchBackend); },
     .pass = [](const Options& o) { return o.job.torch_backend ? word_of(*o.job.torch_backend, kTorchBackend) : ""; }},
    {.name = "--wdir", .also = "--wd", .value = "DIR", .origin = Origin::kMpirun,
     .help = "working directory of the ranks",
     .about = "working directory of the ranks. A program with a relative path is looked for there; `--log-dir`, `--key-file` and `--hostfile` are relative to dlrun's own",
     .read = [](Options& o, const Typed& t) { o.job.apps.back().wdir = t.value; }, .is_of_app = true},
    {.name = "--role", .value = "NAME", .origin = Origin::kTorchrun, .fallback = "default",
     .help = "ROLE_NAME of the ranks",
     .about = "`ROLE_NAME` of the ranks, and `${role_name}` of `--log-line-prefix-template`; all ranks have one role",
     .read = [](Options& o, const Typed& t) { o.job.role = t.value; },
     .pass = [](const Options& o) { return o.job.role; }, .variable = Var::kPetRole},

    {.name = "--nnodes", .value = "N", .group = Group::kWhere, .origin = Origin::kTorchrun, .fallback = "1",
     .help = "nodes of the job, each with a dlrun of its own",
     .about = "nodes of the job, each with a dlrun of its own; ranks are numbered through in the order of the nodes (`--rank-by` has another one), which may have different numbers of ranks. `2:2` is 2; a range is refused",
     .read = read::nnodes, .applies = [](const Options&, bool several) { return !several; }, .variable = Var::kPetNnodes},
    {.name = "--node-rank", .value = "R", .group = Group::kWhere, .origin = Origin::kTorchrun,
     .help = "number of this node, from 0 (as the nodes come)",
     .about = "number of this node, from 0. Without it the node whose own address is in `--rdzv-endpoint` listens and is node 0, and the others are numbered as they come; with `--rdzv-backend static` it must be given",
     .read = [](Options& o, const Typed& t) { o.where.node_rank = number(t, 0, kMost); }, .variable = Var::kPetNodeRank},
    {.name = "--hosts", .letter = 'H', .also = "--host", .value = "HOST[:SLOTS],...", .group = Group::kWhere, .origin = Origin::kMpirun,
     .help = "start the job on these hosts by ssh, so many ranks on each",
     .about = "one job on these hosts, started from here [by ssh](../guides/ssh.md), with the ranks that each takes, as with mpirun: `a:4,b:2`, `[fe80::1]:4`; a host that is named twice has both, and one without a number has "
              "`--nproc-per-node` ranks. This machine alone needs no ssh. `--hosts` starts the whole job, so it excludes `--nnodes`, by which each node starts a dlrun of its own",
     .read = read::hosts},
    {.name = "--hostfile", .also = "--machinefile", .value = "FILE", .group = Group::kWhere, .origin = Origin::kMpirun,
     .help = "the same from a file, a host a line: `a slots=4` or `a:4`",
     .about = "the same from a file with a host a line, in Open MPI's form (`node1 slots=4 max-slots=8`) or MPICH's (`node1:4`); `#` begins a remark",
     .read = read::hostfile},
    {.name = "--ssh", .value = "COMMAND", .group = Group::kWhere, .fallback = "ssh",
     .help = "the ssh that reaches these hosts, with its options",
     .about = "the ssh that reaches the hosts of `--hosts`, with its options, as words of a shell; dlrun adds `BatchMode=yes`, `ConnectTimeout=5`, `ServerAliveInterval=2` and what keeps a connection of your own as it is",
     .read = [](Options& o, const Typed& t) { o.where.ssh = t.value; },
     .applies = [](const Options& o, bool) { return !o.where.hosts.empty(); }},
    {.name = "--rank-by", .value = "slot|node", .group = Group::kWhere, .origin = Origin::kMpirun, .fallback = "slot",
     .help = "number ranks node after node, or round robin over the nodes",
     .about = "how ranks are numbered over the nodes, as with mpirun. `slot`: all ranks of a node, then those of the next one. `node`: round robin, a rank of each node in turn as long as it has some left, so that neighbours are on different nodes "
              "([numbers](../guides/launching.md#numbers-of-the-ranks)). All nodes must give the same. For the order of a node's ranks on its cores see `--map-by`",
     .read = read::rank_by,
     .pass = [](const Options& o) { return read::word_of_rank_by(o.where.rank_by); }},
    {.name = "--bind", .value = "none|core|even|numa|socket", .group = Group::kWhere, .fallback = "none",
     .help = "what each rank is bound to; even: its own share of the cores",
     .about = "what each rank is bound to. `even`: its own share of the cores; `core`: as many cores as it has threads (`OMP_NUM_THREADS`), one rank after another; `numa`, `socket`: all cores of its NUMA node or socket; "
              "`none`: not bound ([what ranks run on](../guides/launching.md#cpus))",
     .read = [](Options& o, const Typed& t) { o.where.bind = value_of(t, kBind); },
     .pass = [](const Options& o) { return word_of(o.where.bind, kBind); }},
    {.name = "--bind-to", .value = "none|core|numa|socket", .group = Group::kWhere, .origin = Origin::kMpirun,
     .help = "the same, under mpirun's name",
     .about = "mpirun's name for `--bind`",
     .read = [](Options& o, const Typed& t) { o.where.bind = value_of(t, kBindTo); }},
    {.name = "--map-by", .value = "slot|core|numa|socket|ppr:N:node", .group = Group::kWhere, .origin = Origin::kMpirun, .fallback = "core",
     .help = "order in which bound ranks take cores; ppr: N ranks a node",
     .about = "the order in which bound ranks take cores. `core`, `slot`: one after another; `numa`, `socket`: rank r goes to the r-th of them, so that neighbours are apart. "
              "`ppr:N:node`: N ranks on each node, as `--nproc-per-node N`; with `-n` at most N on each",
     .read = read::map_by,
     .pass = [](const Options& o) { return o.where.bind == Bind::kNone ? "" : read::word_of_map_by(o.where.map_by); },
     .applies = [](const Options& o, bool) { return o.where.bind != Bind::kNone || o.where.report_bindings; }},
    {.name = "--report-bindings", .group = Group::kWhere, .origin = Origin::kMpirun,
     .help = "draw the machine's cores and the ranks on them at the start",
     .read = [](Options& o, const Typed&) { o.where.report_bindings = true; },
     .pass = [](const Options& o) { return text_of(o.where.report_bindings); }},
    {.name = "--gpus-per-rank", .value = "N", .group = Group::kWhere, .fallback = "1",
     .help = "GPUs that each rank is given",
     .about = "rank r of the node is given GPUs r N to r N + N - 1 of those that can be seen. With one GPU each, more ranks than GPUs share them in turn, and dlrun says which",
     .read = [](Options& o, const Typed& t) { o.where.gpus_per_rank = number(t, 1, 1024); },
     .pass = [](const Options& o) { return text_of(o.where.gpus_per_rank); }},
    {.name = "--gpu-policy", .value = "keep|scope|leave", .group = Group::kWhere,
     .help = "a rank sees all and is told its own; sees its own; leave it alone",
     .about = "`keep`: every rank sees what dlrun sees, and finds its own in `DLRUN_GPUS`. `scope`: `CUDA_VISIBLE_DEVICES` holds the rank's own alone, which are numbered from 0 there. `leave`: dlrun does not look at GPUs. "
              "`keep` is the default with `--gpus-per-rank` and with ranks counted by GPUs, else `leave`",
     .read = [](Options& o, const Typed& t) { o.where.gpu_policy = value_of(t, kGpuPolicy); },
     .pass = [](const Options& o) { return o.where.gpu_policy ? word_of(*o.where.gpu_policy, kGpuPolicy) : ""; }},
    {.name = "--virtual-local-rank", .group = Group::kWhere, .origin = Origin::kTorchrun,
     .help = "LOCAL_RANK is 0 and each rank sees its own GPU as number 0",
     .about = "`LOCAL_RANK` is 0 on every rank, and each rank sees its own GPU alone (`--gpu-policy scope`)",
     .read = [](Options& o, const Typed&) { o.where.virtual_local_rank = true; },
     .pass = [](const Options& o) { return text_of(o.where.virtual_local_rank); }, .variable = Var::kPetVirtualLocalRank},

    {.name = "--standalone", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "one node, whatever PET_ variables say",
     .about = "a job of one node, whatever `PET_` variables say; also insists on a job of its own under `srun` and `mpirun`",
     .read = read::nothing, .variable = Var::kPetStandalone},
    {.name = "--rdzv-backend", .value = "c10d|static", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "static: --node-rank must be given; the rendezvous is always dlrun's own",
     .about = "the rendezvous is always dlrun's own. `static`: each node must say its `--node-rank`; `c10d`: it need not",
     .read = read::rdzv_backend, .variable = Var::kPetRdzvBackend},
    {.name = "--rdzv-endpoint", .value = "HOST[:PORT]", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "where node 0's dlrun listens (port 29400)",
     .about = "an address at which the other nodes reach node 0; the port is 29400 if none is given. Without it `--master-addr` and `--master-port` are taken. One node needs none; "
              "dlrun says that it is not used, unless its port is 0",
     .read = read::rdzv_endpoint, .variable = Var::kPetRdzvEndpoint},
    {.name = "--rdzv-id", .value = "NAME", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "name of the job, the same on all nodes",
     .about = "keeps jobs apart that meet at one address; made up on one node, `default` on several. Without it a node is refused if its program has another base name (of a script that an interpreter runs: the script's), "
              "and other differences of the program's line are a warning. The number of nodes must always agree",
     .read = [](Options& o, const Typed& t) { o.meet.rdzv_id = t.value; }, .variable = Var::kPetRdzvId},
    {.name = "--rdzv-conf", .value = "KEY=VALUE,...", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "join_timeout=S, is_host=true|false",
     .about = "`join_timeout` or `timeout`: as `--join-timeout`, which goes before them; `is_host`: whether this node listens at `--rdzv-endpoint`. Other keys of torchrun's tune its own rendezvous and are taken without an effect "
              "(`read_timeout`, `last_call_timeout`, `close_timeout`, `keep_alive_interval`, ...); unknown ones are refused",
     .read = read::rdzv_conf, .variable = Var::kPetRdzvConf},
    {.name = "--join-timeout", .value = "SECONDS", .group = Group::kMeet, .fallback = "600",
     .help = "longest wait for the other nodes",
     .read = [](Options& o, const Typed& t) { o.meet.join_timeout = seconds(t); },
     .pass = [](const Options& o) { return text_of(o.meet.join_timeout); },
     .applies = [](const Options&, bool several) { return several; }},
    {.name = "--key-file", .value = "FILE", .group = Group::kMeet,
     .help = "the job's secret, mode 0600 (~/.config/dlrun/key, made on first use)",
     .about = "64 hexadecimal digits in a file that only its owner can read, or in a container's secret on a read-only tmpfs ([Kubernetes](../guides/rendezvous.md#the-key)). Without it: `DLRUN_KEY_FD`, `DLRUN_KEY_FILE`, then `~/.config/dlrun/key` (several nodes); a fresh key (one node)",
     .read = [](Options& o, const Typed& t) { o.meet.key_file = t.value; }},
    {.name = "--iface", .value = "NAME|ADDRESS|CIDR", .group = Group::kMeet,
     .help = "what this node's ranks listen on (all that lead out)",
     .about = "the network interface (`eth0`), address or network (`10.0.0.0/8`) on which this node's ranks listen for each other, as `DLRUN_IFACE`: for a host with several networks, of which a fast one is to be used. "
              "Each node names its own; a network's CIDR is the same on all. One that this host does not have is refused at once, with those that it has. It says nothing to other programs' libraries "
              "(`NCCL_SOCKET_IFNAME`, `GLOO_SOCKET_IFNAME`)",
     .read = [](Options& o, const Typed& t) { o.meet.iface = t.value; },
     .pass = [](const Options& o) { return o.meet.iface; }},
    {.name = "--local-addr", .value = "ADDRESS", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "address at which other nodes reach this one",
     .about = "the address at which other nodes reach this one, which is `MASTER_ADDR` of all ranks if this is node 0; else the address over which the nodes have met",
     .read = [](Options& o, const Typed& t) { o.meet.local_addr = t.value; }, .variable = Var::kPetLocalAddr},
    {.name = "--master-addr", .value = "ADDRESS", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "MASTER_ADDR of the ranks",
     .about = "`MASTER_ADDR` of the ranks; the default is the address at which their node has reached node 0, IPv4 if both work (127.0.0.1 on one node)",
     .read = read::master_addr,
     .pass = [](const Options& o) { return o.meet.master_addr; }, .variable = Var::kPetMasterAddr},
    {.name = "--master-port", .value = "PORT", .group = Group::kMeet, .origin = Origin::kTorchrun,
     .help = "MASTER_PORT of the ranks (a free one)",
     .about = "`MASTER_PORT` of the ranks; the default is a port below the ephemeral range that was free when dlrun looked. A given port that is taken, or that this user may not listen on, is an error. It may be "
              "the port at which the nodes meet: their rendezvous leaves it to the ranks then",
     .read = [](Options& o, const Typed& t) { o.meet.master_port = number(t, 1, 65535); },
     .pass = [](const Options& o) { return text_of(o.meet.master_port); }, .variable = Var::kPetMasterPort},

    {.name = "--log-dir", .value = "DIR", .group = Group::kShown, .origin = Origin::kTorchrun,
     .help = "also keep output, in DIR/latest/attempt_0/<rank>/stdout.log",
     .about = "keeps both streams of every rank ([the files](#log-files))",
     .read = read::log_dir, .variable = Var::kPetLogDir},
    {.name = "--output-filename", .value = "DIR[:nocopy]", .group = Group::kShown, .origin = Origin::kMpirun, .overrides = "--log-dir",
     .help = "the same, under mpirun's name; nocopy: and show nothing",
     .about = "mpirun's name for `--log-dir`; the files are those of `--log-dir`, not `DIR/1/rank.0/stdout`. With `:nocopy` nothing is shown, as with `--redirects 3`; `:nojobid` has no effect",
     .read = read::output_filename},
    {.name = "--redirects", .letter = 'r', .value = "0-3|RANK:0-3,...", .group = Group::kShown, .origin = Origin::kTorchrun, .fallback = "0",
     .help = "1 stdout, 2 stderr, 3 both: keep in --log-dir and do not show",
     .about = "1: stdout, 2: stderr, 3: both, 0: neither, of all local ranks, or as `0:3,1:1` of single ones. These streams are kept in `--log-dir`, which must be given, and not shown",
     .read = read::redirects, .variable = Var::kPetRedirects},
    {.name = "--tee", .letter = 't', .value = "0-3|RANK:0-3,...", .group = Group::kShown, .origin = Origin::kTorchrun, .fallback = "0",
     .help = "the same streams are shown all the same",
     .about = "the same form: these streams are shown although `--redirects` names them. Streams that neither names are shown. With `--log-dir` every stream is kept; without it none is",
     .read = read::tee, .applies = [](const Options& o, bool) { return o.output.redirects != StreamChoice(); }, .variable = Var::kPetTee},
    {.name = "--local-ranks-filter", .value = "RANK,...", .group = Group::kShown, .origin = Origin::kTorchrun,
     .help = "show the output of these local ranks only",
     .about = "only the output of these local ranks is shown. `--log-dir` keeps all, and the last lines of a rank that failed are on the last page",
     .read = read::local_ranks_filter, .variable = Var::kPetLocalRanksFilter},
    {.name = "--log-line-prefix-template", .value = "TEXT", .group = Group::kShown, .origin = Origin::kTorchrun, .fallback = "[rank ${rank}] ",
     .help = "what stands before each line",
     .about = "what stands before each line, with `${role_name}`, `${rank}`, `${local_rank}` and `${hostname}` replaced. torchrun's own is `'[${role_name}${local_rank}]:'`",
     .read = read::line_prefix, .variable = Var::kPetLogLinePrefix, .other_variable = Var::kTorchLogLinePrefix},
    {.name = "--no-prefix", .group = Group::kShown, .overrides = "--log-line-prefix-template",
     .help = "lines without `[rank N] `",
     .read = [](Options& o, const Typed&) { o.output.line_prefix.clear(); }},
    {.name = "--report-fd", .value = "FD", .group = Group::kShown,
     .help = "how a failed job ended goes to this descriptor, not to stderr",
     .about = "for programs that start dlrun: if the job of this node fails, `failed RANK EXIT-CODE` and a line's end, then the lines that dlrun otherwise shows at the end, are written to this descriptor of dlrun's, and not to "
              "stderr. RANK is the rank that failed first, -1 for none or one of another host. If the descriptor does not take them, stderr has the lines and the reason",
     .read = read::report_fd},
    {.name = "--timestamp-output", .group = Group::kShown, .origin = Origin::kMpirun,
     .help = "each line begins with the time at which it was shown",
     .about = "each line begins with the local time at which dlrun showed it: `2026-01-31 23:59:59.123 [rank 0] ...`",
     .read = [](Options& o, const Typed&) { o.output.timestamps = true; }},
    {.name = "--verbose", .letter = 'v', .group = Group::kShown, .origin = Origin::kMpirun,
     .help = "say at the start what runs, on how many nodes, and who set what",
     .about = "says on stderr at the start what runs, on how many nodes, and who gave each option its value",
     .read = [](Options& o, const Typed&) { o.output.verbose = true; }},
    {.name = "--dry-run", .group = Group::kShown,
     .help = "print who would run where, and who set what, and exit",
     .about = "prints who would run where, the environment of this node's first rank, and who gave each option its value; starts nothing. With `--json` it shows the environment of every rank of this node",
     .read = [](Options& o, const Typed&) { o.output.dry_run = true; }},
    {.name = "--json", .group = Group::kShown,
     .help = "with --dry-run: as JSON",
     .about = "with `--dry-run`: one object ([its members](#the-object-of---dry-run---json))",
     .read = [](Options& o, const Typed&) { o.output.json = true; }},

    {.name = "--shutdown-timeout", .value = "SECONDS", .group = Group::kEnds, .origin = Origin::kTorchrun,
     .help = "torchrun's name for --grace",
     .read = [](Options& o, const Typed& t) { o.end.grace = seconds(t); }, .variable = Var::kPetShutdownTimeout, .other_variable = Var::kTorchShutdownTimeout},
    {.name = "--grace", .value = "SECONDS", .group = Group::kEnds, .overrides = "--shutdown-timeout", .fallback = "10",
     .help = "time between SIGTERM and SIGKILL",
     .about = "time between SIGTERM and SIGKILL. Fractions are allowed, 0 kills at once. A reader of dlrun's output that reads nothing has as long after a signal, too",
     .read = [](Options& o, const Typed& t) { o.end.grace = seconds(t); },
     .pass = [](const Options& o) { return text_of(o.end.grace); }},
    {.name = "--linger", .value = "SECONDS", .group = Group::kEnds,
     .help = "longest wait for what the ranks leave behind after a success (grace)",
     .about = "after all ranks have ended with 0: time for the processes that they leave behind (an upload, a daemon that finishes a checkpoint) to end by themselves. dlrun names them after 1 s, and says which ones it ends when "
              "the time has passed. The default is the time of `--grace`; 0 ends them at once",
     .read = [](Options& o, const Typed& t) { o.end.linger = seconds(t); },
     .pass = [](const Options& o) { return text_of(o.end.linger); }},
    {.name = "--preempt", .group = Group::kEnds,
     .help = "SIGTERM asks the ranks to save and end (should_checkpoint)",
     .about = "a first SIGTERM asks the ranks to save and end: `should_checkpoint()` returns true at the same call on every rank, and the job ends with exit code 75 ([preemption](../guides/slurm.md#saving-before-the-end))",
     .read = [](Options& o, const Typed&) { o.end.preempt_on_term = true; },
     .pass = [](const Options& o) { return text_of(o.end.preempt_on_term); }},
    {.name = "--preempt-usr2", .group = Group::kEnds,
     .help = "SIGUSR2 asks them, too",
     .about = "SIGUSR2 asks the ranks to save, too, and does not go to them as a signal",
     .read = [](Options& o, const Typed&) { o.end.preempt_on_usr2 = true; },
     .pass = [](const Options& o) { return text_of(o.end.preempt_on_usr2); }},
    {.name = "--preempt-before", .value = "SECONDS", .group = Group::kEnds,
     .help = "ask them so long before the SLURM allocation ends",
     .about = "asks the ranks to save so long before the SLURM allocation ends, as `squeue` says at the start",
     .read = read::preempt_before},
    {.name = "--preempt-wait", .value = "SECONDS", .group = Group::kEnds, .fallback = "25",
     .help = "longest wait for all ranks to come to that call",
     .about = "longest wait for all ranks to come to that call; the ones that do not are named, and the job ends \"not saved\"",
     .read = read::preempt_wait},
    {.name = "--timeout", .value = "SECONDS", .group = Group::kEnds, .origin = Origin::kMpirun,
     .help = "end the job after so long, with exit code 124",
     .about = "ends the job when it has run for so long, with exit code 124, as with mpirun. Waiting for other nodes counts",
     .read = read::timeout},
    {.name = "--max-restarts", .value = "N", .group = Group::kEnds, .origin = Origin::kTorchrun, .fallback = "0",
     .help = "begin a failed job again, at most N times",
     .about = "how often a failed job begins again ([restarts](../guides/restarts.md)); node 0's number counts. Not after exit code 2, 126 or 127, and not if the job was ended by a signal to dlrun or never met",
     .read = [](Options& o, const Typed& t) { o.end.max_restarts = number(t, 0, kMost); },
     .pass = [](const Options& o) { return text_of(o.end.max_restarts); }, .variable = Var::kPetMaxRestarts},
    {.name = "--on-failure", .value = "stop|keep", .group = Group::kEnds, .fallback = "stop",
     .help = "keep: when a rank fails, the others live on; stop: they end",
     .about = "what the failure of a rank means for the others. `stop`: they are ended. `keep`: they live on, and dlrun ends with 0 if one of them ends with 0 after the last failure ([going on without a rank](../guides/restarts.md#going-on-without-a-rank)). All nodes must give the same",
     .read = [](Options& o, const Typed& t) { o.end.on_failure = value_of(t, kOnFailure); },
     .pass = [](const Options& o) { return o.end.keeps_others() ? word_of(o.end.on_failure, kOnFailure) : ""; }},
    {.name = "--signals-to-handle", .value = "SIGNAL,...", .group = Group::kEnds, .origin = Origin::kTorchrun,
     .help = "these signals to dlrun go to the ranks as they are, and end the job",
     .about = "each of these signals to dlrun (`SIGTERM,SIGUSR1`) goes to the ranks as it is and ends the job, with SIGKILL after `--grace` seconds. Other signals mean what they always do ([signals](#signals-to-dlrun))",
     .read = read::signals_to_handle, .variable = Var::kPetSignalsToHandle},
    {.name = "--forward-signals", .value = "SIGNAL,...", .group = Group::kEnds, .origin = Origin::kMpirun,
     .help = "these signals to dlrun go to the ranks, and the job goes on",
     .about = "each of these signals to dlrun (`USR1,SIGALRM`, or numbers) goes to the ranks as SIGUSR2 does ([signals](#signals-to-dlrun)), and the job goes on, as with mpirun. With `USR1` dlrun no longer says who is waited for. A rank that does not handle the signal is ended by it, "
              "and with it the job. Signals that end the job (SIGINT, SIGTERM, SIGHUP, SIGQUIT) are refused: `--signals-to-handle` sends those to the ranks",
     .read = read::forward_signals,
     .pass = [](const Options& o) { return fmt::format("{}", fmt::join(o.end.forwarded_signals, ",")); }},

    {.name = "--tag-output", .group = Group::kTaken, .origin = Origin::kMpirun,
     .help = "each line says who wrote it anyway",
     .read = read::nothing},
    {.name = "--monitor-interval", .value = "SECONDS", .group = Group::kTaken, .origin = Origin::kTorchrun,
     .help = "the kernel tells dlrun of a rank's end at once",
     .read = [](Options&, const Typed& t) { seconds(t); }, .variable = Var::kPetMonitorInterval},
    {.name = "--start-method", .value = "spawn|fork|forkserver", .group = Group::kTaken, .origin = Origin::kTorchrun,
     .help = "dlrun starts programs, never functions",
     .read = read::start_method, .variable = Var::kPetStartMethod},
    {.name = "--event-log-handler", .value = "null", .group = Group::kTaken, .origin = Origin::kTorchrun,
     .help = "dlrun writes no such events",
     .read = read::event_log_handler, .variable = Var::kPetEventLogHandler},

    {.name = "--duplicate-stdout-filters", .value = "WORDS", .group = Group::kRefused, .origin = Origin::kTorchrun,
     .about = "with --log-dir DIR, `grep` finds the words in DIR/latest/attempt_0/*/stdout.log",
     .variable = Var::kPetDuplicateStdout},
    {.name = "--duplicate-stderr-filters", .value = "WORDS", .group = Group::kRefused, .origin = Origin::kTorchrun,
     .about = "with --log-dir DIR, `grep` finds the words in DIR/latest/attempt_0/*/stderr.log",
     .variable = Var::kPetDuplicateStderr},
    {.name = "--logs-specs", .value = "NAME", .group = Group::kRefused, .origin = Origin::kTorchrun,
     .about = "--log-dir DIR keeps both streams of every rank"},
    {.name = "--numa-binding", .value = "MODE", .group = Group::kRefused, .origin = Origin::kTorchrun,
     .about = "--bind numa and --bind socket bind ranks to all cores of a NUMA node or socket"},
};
// clang-format on

}  // namespace

std::span<const OptionRow> option_table() {
  return kTable;
}

const OptionRow& option_named(std::string_view name) {
  for (const OptionRow& row : kTable) {
    if (row.name == name) return row;
  }
  throw_error(ErrorKind::kInternal, "there is no row for the option {}", name);
}

std::string_view title_of(Group group) {
  switch (group) {
    case Group::kInformation:
      return "Options";
    case Group::kStarted:
      return "What is started";
    case Group::kWhere:
      return "Where it runs";
    case Group::kMeet:
      return "How nodes and ranks meet";
    case Group::kShown:
      return "What is shown and kept";
    case Group::kEnds:
      return "How it ends";
    case Group::kTaken:
      return "Taken from other launchers' lines, without an effect";
    case Group::kRefused:
      break;
  }
  return "Refused";
}

}  // namespace dl::launcher
