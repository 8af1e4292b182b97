#include "launcher/plan/plan.h"

#include <algorithm>
#include <cerrno>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/random_bits.h"
#include "core/base/text/number.h"
#include "core/base/text/utf8.h"
#include "launcher/bind/drawing.h"
#include "launcher/output/logs/log_folder.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/machine/this_host.h"
#include "launcher/plan/torch_program.h"
#include "rendezvous/net/rank_list.h"
#include "rendezvous/net/socket/address.h"

namespace dl::launcher {
namespace {

constexpr int kMostRanks = 1'000'000;

std::string made_up_name() {
  return fmt::format("{:08x}", static_cast<std::uint32_t>(random_bits()));
}

int local_ranks(const Options& options, const Machine& machine) {
  const std::string& wanted = options.job.nproc_per_node;
  const auto gpus = static_cast<int>(machine.gpus.size());
  if (wanted == "gpu" || (wanted == "auto" && gpus > 0)) {
    const int each = options.where.gpus_per_rank.value_or(1);
    DL_CHECK(gpus > 0, kInvalidArgument,
             "--nproc-per-node gpu: this process sees no GPU{}; `cpu` means one rank a core",
             env::is_set(env::Var::kCudaVisibleDevices)
                 ? fmt::format(" (CUDA_VISIBLE_DEVICES is `{}`)",
                               env::get(env::Var::kCudaVisibleDevices).value_or(""))
                 : "");
    DL_CHECK(gpus % each == 0, kInvalidArgument,
             "--nproc-per-node {}: {} GPUs are no multiple of --gpus-per-rank {}; give the number "
             "of ranks",
             wanted, gpus, each);
    return gpus / each;
  }
  if (wanted == "auto" || wanted == "cpu") return machine.usable_cores();
  return std::stoi(wanted);
}

// Rank r has GPUs r * n to r * n + n - 1. Ranks share GPUs, in turn, only if each has one.
void give_out_gpus(const Options& options, const Machine& machine, NodePlan& plan) {
  plan.gpus = machine.gpus;
  const bool asked = options.where.gpus_per_rank || options.where.gpu_policy;
  const bool counted = options.job.nproc_per_node == "gpu" ||
                       (options.job.nproc_per_node == "auto" && !plan.gpus.empty());
  plan.gpu_policy =
      options.where.gpu_policy.value_or(asked || counted ? GpuPolicy::kKeep : GpuPolicy::kLeave);
  if (plan.gpu_policy == GpuPolicy::kLeave) return;

  const int gpus = static_cast<int>(plan.gpus.size());
  const int each = options.where.gpus_per_rank.value_or(1);
  const int ranks = plan.local_world_size();
  DL_CHECK(gpus > 0, kInvalidArgument, "{}: this process sees no GPU",
           options.where.gpus_per_rank        ? "--gpus-per-rank"
           : options.where.virtual_local_rank ? "--virtual-local-rank"
                                              : "--gpu-policy");
  DL_CHECK(each == 1 || std::int64_t{each} * ranks <= gpus, kInvalidArgument,
           "--gpus-per-rank {}: {} ranks would need {} GPUs, and {} can be seen", each, ranks,
           std::int64_t{each} * ranks, gpus);
  const auto instance = std::find_if(plan.gpus.begin(), plan.gpus.end(),
                                     [](const VisibleGpu& gpu) { return gpu.is_instance(); });
  DL_CHECK(instance == plan.gpus.end() || gpus == 1 ||
               (plan.gpu_policy == GpuPolicy::kScope && each == 1),
           kInvalidArgument,
           "{} is a MIG instance, and CUDA shows a process no other GPU beside one; give each rank "
           "its own with --gpu-policy scope",
           instance == plan.gpus.end() ? "" : instance->token);
  for (LocalRank& rank : plan.ranks) {
    for (int i = 0; i < each; ++i) rank.gpus.push_back((rank.local_rank * each + i) % gpus);
  }
}

// The user's OMP_NUM_THREADS, or the first of its numbers: threads that --bind core makes room for.
std::optional<int> threads_of_user() {
  const std::optional<std::string> text = env::get(env::Var::kOmpNumThreads);
  if (!text) return std::nullopt;
  const std::optional<int> threads = read_number<int>(text->substr(0, text->find(',')));
  return threads && *threads > 0 ? threads : std::nullopt;
}

// To be called when the ranks have their GPUs.
void bind(const WhereOptions& where, const Machine& machine, NodePlan& plan) {
  if (!needs_topology(where)) return;
  BindRequest request{.bind = where.bind,
                      .map_by = where.map_by,
                      .ranks = plan.local_world_size(),
                      .threads = threads_of_user()};
  for (const LocalRank& rank : plan.ranks) {
    if (rank.gpus.empty()) continue;
    const auto first = static_cast<std::size_t>(rank.gpus.front());
    if (!plan.gpus[first].near_cpus.empty()) request.near.push_back(plan.gpus[first].near_cpus);
  }
  const std::vector<Binding> bindings = bind_ranks(*machine.topology, request);
  if (where.report_bindings) {
    plan.bindings_drawn = draw_bindings(*machine.topology, bindings, plan.host);
  }
  for (std::size_t i = 0; i < bindings.size(); ++i) plan.ranks[i].binding = bindings[i];
}

rendezvous::Endpoint place_to_meet(const std::string& text) {
  rendezvous::Endpoint endpoint;
  try {
    endpoint = rendezvous::Endpoint::parse(text);
  } catch (const Error& error) {
    throw_error(ErrorKind::kInvalidArgument, "--rdzv-endpoint: {}", error.what());
  }
  DL_CHECK(endpoint.port != 0, kInvalidArgument,
           "--rdzv-endpoint is `{}`: all nodes must know one port from 1 to 65535", text);
  return endpoint;
}

std::string obstacle_text(int obstacle) {
  if (obstacle == EADDRINUSE) return "is taken";
  if (obstacle == EACCES) return "may not be listened on by this user";
  return fmt::format("cannot be listened on ({})", system_error_text(obstacle));
}

// As with torchrun's c10d, the node listens whose address is the endpoint.
Listens listens_at(const rendezvous::Endpoint& endpoint, std::optional<bool> is_host,
                   int node_rank) {
  if (is_host) return *is_host ? Listens::kYes : Listens::kNo;
  if (node_rank >= 0) return node_rank == 0 ? Listens::kYes : Listens::kNo;
  return is_this_host(endpoint.host) ? Listens::kIfFree : Listens::kNo;
}

void check_interface(const std::string& wanted, std::string_view given_in) {
  try {
    rendezvous::interface_addresses(wanted);
  } catch (const Error& error) {
    throw_error(ErrorKind::kInvalidArgument, "{}: {}", given_in, error.what());
  }
}

}  // namespace

bool needs_topology(const WhereOptions& where) {
  return where.bind != Bind::kNone || where.report_bindings;
}

bool needs_gpus(const Options& options) {
  return options.job.nproc_per_node == "gpu" || options.job.nproc_per_node == "auto" ||
         options.where.gpus_per_rank ||
         options.where.gpu_policy.value_or(GpuPolicy::kLeave) != GpuPolicy::kLeave;
}

std::vector<Host> ThisMachine::hosts() const {
  return {{machine_.host, local_ranks(options_, machine_)}};
}

std::vector<Host> HostList::hosts() const {
  std::vector<Host> hosts;
  int left = options_.job.np.value_or(0);
  for (const HostSlots& host : options_.where.hosts) {
    const std::string& each = options_.job.nproc_per_node;
    DL_CHECK(
        host.slots || options_.job.np || each.find_first_not_of("0123456789") == std::string::npos,
        kInvalidArgument,
        "--nproc-per-node is `{}`: give the number of ranks of each host, as in --hosts {}:4", each,
        host.host);
    // As mpirun, a host without a number has one slot if --np says how many ranks there are.
    int slots = host.slots ? *host.slots : options_.job.np ? 1 : std::stoi(each);
    if (options_.job.np) {
      slots = std::min(slots, left);
      left -= slots;
    }
    if (slots > 0) hosts.push_back({host.host, slots});
  }
  DL_CHECK(left == 0, kInvalidArgument,
           "--np is {}, and the hosts have {} slots; give each its number, as in --hosts {}:{}",
           options_.job.np.value_or(0), options_.job.np.value_or(0) - left,
           options_.where.hosts.front().host, options_.job.np.value_or(0));
  return hosts;
}

JobPlan make_job_plan(const Options& options, const HostSource& source) {
  JobPlan job;
  job.started = options.job;
  job.end = options.end;
  job.named = !options.meet.rdzv_id.empty();
  job.name = job.named ? options.meet.rdzv_id : made_up_name();
  DL_CHECK(job.name.size() <= 255, kInvalidArgument, "--rdzv-id has {} bytes, wanted at most 255",
           job.name.size());
  DL_CHECK(is_printable_utf8(job.name), kInvalidArgument,
           "--rdzv-id holds bytes that are no printable UTF-8; give another name");
  job.rank_by = options.where.rank_by;
  job.hosts = source.hosts();
  for (const Host& host : job.hosts) {
    const int most = options.where.most_per_node.value_or(kMostRanks);
    DL_CHECK(host.slots <= most, kInvalidArgument,
             "--np is {}, which is {} ranks on {}, and --map-by ppr:{}:node puts at most {} there",
             options.job.np.value_or(0), host.slots, host.name, most, most);
  }
  // The frontend tells agents of several hosts the endpoint of the rendezvous.
  const bool are_known = job.hosts.size() > 1;
  job.nnodes = are_known ? static_cast<int>(job.hosts.size()) : options.where.nnodes;
  const int slots = job.hosts.front().slots;
  DL_CHECK(std::int64_t{options.where.nnodes} * slots <= kMostRanks, kInvalidArgument,
           "{} nodes (--nnodes) of {} ranks (--nproc-per-node) are more than {} ranks",
           options.where.nnodes, slots, kMostRanks);
  job.master_addr = options.meet.master_addr;
  job.master_port = options.meet.master_port;
  if (job.nnodes > 1 && !are_known) {
    // As with torchrun, --master-addr and --master-port alone name the meeting place.
    job.rdzv_endpoint = options.meet.rdzv_endpoint;
    job.is_endpoint_given = !job.rdzv_endpoint.empty();
    if (!job.is_endpoint_given) {
      const auto port = static_cast<std::uint16_t>(*options.meet.master_port);
      job.rdzv_endpoint = rendezvous::Endpoint{options.meet.master_addr, port}.text();
    }
    // Every node must use one name without a message from the others.
    if (!job.named) job.name = "default";
    const rendezvous::Endpoint endpoint = place_to_meet(job.rdzv_endpoint);
    if (job.master_addr.empty()) job.master_addr = endpoint.host;
  } else if (job.master_addr.empty() && !are_known) {
    job.master_addr = "127.0.0.1";
  }
  if (job.nnodes > 1 || !options.output.log_dir.empty()) job.run = new_run_name(job.name);
  return job;
}

bool JobPlan::shares_master_port() const {
  return nnodes > 1 && master_port && !rdzv_endpoint.empty() &&
         place_to_meet(rdzv_endpoint).port == *master_port;
}

std::vector<std::vector<int>> JobPlan::ranks_of_hosts() const {
  std::vector<int> slots;
  for (const Host& host : hosts) slots.push_back(host.slots);
  return rendezvous::number_ranks(slots, rank_by);
}

const Program* NodePlan::bad_program() const {
  const auto bad =
      std::ranges::find_if(programs, [](const Program& program) { return program.exit_code != 0; });
  return bad == programs.end() ? nullptr : &*bad;
}

int Meeting::local_rank_of(int rank) const {
  return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
}

bool has_mpirun_names(const Options& options) {
  const std::optional<std::int64_t> wanted = env::get_int(env::Var::kMpirunNames);
  return wanted ? *wanted != 0 : options.job.np || options.where.most_per_node;
}

NodePlan make_node_plan(const JobPlan& job, int node_rank, const Options& options,
                        const Machine& machine) {
  NodePlan plan;
  plan.job = job;
  plan.where = options.where;
  plan.meet = options.meet;
  plan.host = machine.host;
  plan.node_rank = node_rank;
  if (job.nnodes > 1) {
    plan.listens = listens_at(place_to_meet(job.rdzv_endpoint), options.meet.is_host, node_rank);
  }
  const Host& host =
      job.hosts.size() == 1 ? job.hosts.front() : job.hosts.at(static_cast<std::size_t>(node_rank));
  const int ranks = host.slots;
  plan.ranks.resize(static_cast<std::size_t>(ranks));
  for (int i = 0; i < ranks; ++i) plan.ranks[static_cast<std::size_t>(i)].local_rank = i;
  give_out_gpus(options, machine, plan);
  bind(options.where, machine, plan);
  plan.omp_num_threads = std::max(1, machine.usable_cores() / ranks);
  plan.is_oversubscribed = machine.usable_cores() < ranks;
  if (!options.meet.iface.empty()) {
    check_interface(options.meet.iface, "--iface");
  } else if (const auto inherited = env::get(env::Var::kIface)) {
    check_interface(*inherited, env::name_of(env::Var::kIface));
  }
  for (const App& app : job.started.apps) {
    const bool is_found = app.is_here && !app.program.empty();
    plan.programs.push_back(is_found ? find_program(app.program.front(), app.script, app.wdir)
                                     : Program());
    const bool wants = wants_torch_store(app.program, plan.programs.back());
    plan.wants_torch_store = plan.wants_torch_store || wants;
  }
  plan.has_mpirun_names = has_mpirun_names(options);
  return plan;
}

NodePlan make_plan(const Options& options, const Machine& machine) {
  return make_node_plan(make_job_plan(options, ThisMachine(options, machine)),
                        options.where.node_rank.value_or(options.where.nnodes == 1 ? 0 : -1),
                        options, machine);
}

std::vector<std::string> remarks_on(const Options& options, const NodePlan& plan) {
  std::vector<std::string> lines = options.remarks;
  const auto check = [&](std::string_view option, int local_rank) {
    if (local_rank < plan.local_world_size()) return;
    lines.push_back(fmt::format("{} names local rank {}, and this node has {} ranks", option,
                                local_rank, plan.local_world_size()));
  };
  for (const auto& [rank, streams] : options.output.redirects.by_local_rank)
    check("--redirects", rank);
  for (const auto& [rank, streams] : options.output.tee.by_local_rank) check("--tee", rank);
  for (const int rank : options.output.local_ranks_filter) check("--local-ranks-filter", rank);
  // torchrun's own lines give `localhost:0` if there is nothing to meet.
  const bool says_none = options.meet.rdzv_endpoint.ends_with(":0");
  if (plan.job.nnodes == 1 && !options.meet.rdzv_endpoint.empty() && !says_none) {
    lines.push_back(fmt::format("--rdzv-endpoint {} is not used: a job of one node meets no other",
                                options.meet.rdzv_endpoint));
  }
  for (const std::string& name : unset_exports(plan)) {
    lines.push_back(fmt::format(
        "-x {0}: {0} is not set in dlrun's environment, and the ranks have none either", name));
  }
  return lines;
}

std::vector<std::string> shared_gpus(const NodePlan& plan) {
  std::vector<std::string> lines;
  for (std::size_t gpu = 0; gpu < plan.gpus.size(); ++gpu) {
    std::vector<int> ranks;
    for (const LocalRank& rank : plan.ranks) {
      if (std::count(rank.gpus.begin(), rank.gpus.end(), gpu) != 0)
        ranks.push_back(rank.local_rank);
    }
    if (ranks.size() < 2) continue;
    lines.push_back(fmt::format("GPU {} ({}) is shared by local {}", plan.gpus[gpu].token,
                                plan.gpus[gpu].name, rendezvous::rank_list(std::move(ranks))));
  }
  return lines;
}

Meeting supposed_meeting(const NodePlan& plan) {
  Meeting meeting;
  meeting.world_size = plan.job.nnodes * plan.local_world_size();
  meeting.group_rank = std::max(0, plan.node_rank);
  const std::vector<int> slots(static_cast<std::size_t>(plan.job.nnodes), plan.local_world_size());
  meeting.ranks = rendezvous::number_ranks(
      slots, plan.job.rank_by)[static_cast<std::size_t>(meeting.group_rank)];
  meeting.master_addr = plan.job.master_addr;
  meeting.run = plan.job.run;
  meeting.torch_store = plan.wants_torch_store;
  if (plan.job.master_port) {
    // Node 0 listens, or its rank 0; elsewhere the port says nothing. A shared port is the
    // rendezvous's now.
    const auto port = static_cast<std::uint16_t>(*plan.job.master_port);
    const bool is_for_node_0 = plan.node_rank == 0 && !plan.job.shares_master_port();
    const int obstacle = is_for_node_0 ? port_obstacle(port) : 0;
    DL_CHECK(obstacle == 0, kIo,
             "--master-port {} {} on {}; give another, or leave it out and a free one is chosen",
             port, obstacle_text(obstacle), plan.host);
    meeting.master_port = *plan.job.master_port;
  } else {
    meeting.master_port = choose_port();
  }
  return meeting;
}

}  // namespace dl::launcher
