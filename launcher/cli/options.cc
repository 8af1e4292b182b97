#include "launcher/cli/options.h"

#include <algorithm>
#include <iterator>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/version.h"
#include "launcher/cli/given.h"
#include "launcher/cli/read/apps.h"
#include "launcher/cli/read/words.h"
#include "launcher/cli/slurm_line.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/cli/table/option_text.h"
#include "launcher/cli/table/option_variables.h"

namespace dl::launcher {
namespace {

std::optional<Information> information_of(const Given& given) {
  if (given.has("--help")) return Information{options_as_help()};
  if (given.has("--version")) return Information{fmt::format("dlrun {}\n", kVersion)};
  if (const Typed* shell = given.find("--print-completion")) {
    return Information{completion_for(shell->value)};
  }
  return std::nullopt;
}

int number_of_nodes(const Given& given) {
  const Typed* const nnodes = given.find("--nnodes");
  if (nnodes == nullptr) return 1;
  Options only;
  nnodes->row->read(only, *nnodes);
  return only.where.nnodes;
}

// A line that says that the job has one node overrides every variable that only several nodes need.
void add_variables(Given& given, std::vector<std::string>& remarks) {
  FoundVariables found = option_variables();
  remarks = std::move(found.remarks);
  const bool nodes_on_line = given.has("--nnodes");
  const bool line_says_one =
      given.has("--standalone") || (nodes_on_line && number_of_nodes(given) == 1);
  const auto is_of_nodes = [](std::string_view option) {
    return option == "--nnodes" || option == "--node-rank" || option.starts_with("--master-");
  };
  std::optional<Typed> endpoint;
  for (Typed& typed : found.options) {
    const std::string_view name = typed.row->name;
    if (given.has(name) || (line_says_one && is_of_nodes(name))) continue;
    if (given.overrides(name)) continue;
    if (name == "--standalone" && nodes_on_line) continue;
    if (name == "--rdzv-endpoint") {
      endpoint = std::move(typed);
    } else {
      given.add(std::move(typed));
    }
  }
  if (endpoint && number_of_nodes(given) > 1) given.add(std::move(*endpoint));
}

// "PET_NNODES" if that variable gave the value.
std::string_view known_as(const Given& given, std::string_view option) {
  const Typed* const typed = given.find(option);
  return typed == nullptr ? option : typed->name();
}

void check_nodes(const Given& given, const Options& options) {
  const bool several = options.where.nnodes > 1;
  const std::string_view nnodes = known_as(given, "--nnodes");
  const std::string_view node_rank = known_as(given, "--node-rank");
  DL_CHECK(options.where.hosts.empty() || !several, kInvalidArgument,
           "{} starts the whole job from here, and {} is {}: leave one of them out",
           given.has("--hosts") ? "--hosts" : "--hostfile", nnodes, options.where.nnodes);
  DL_CHECK(!given.has("--standalone") || !several, kInvalidArgument,
           "--standalone means one node, but {} is {}", nnodes, options.where.nnodes);
  DL_CHECK(several || options.where.node_rank.value_or(0) == 0, kInvalidArgument,
           "{} is {} but {} is 1", node_rank, options.where.node_rank.value_or(0), nnodes);
  DL_CHECK(options.where.node_rank.value_or(0) < options.where.nnodes, kInvalidArgument,
           "{} is {}, wanted less than {}, which is {}", node_rank,
           options.where.node_rank.value_or(0), nnodes, options.where.nnodes);
  const Typed* const backend = given.find("--rdzv-backend");
  const bool is_static = backend != nullptr && backend->value == "static";
  DL_CHECK(!several || options.where.node_rank || !is_static, kInvalidArgument,
           "{} is {} and {} is static: give this node's number in --node-rank", nnodes,
           options.where.nnodes, known_as(given, "--rdzv-backend"));
  DL_CHECK(options.job.mpi != Mpi::kPmi1 || !several, kInvalidArgument,
           "--mpi pmi1 serves one node, but {} is {}: start a program of MPICH on several nodes "
           "with mpiexec or srun",
           nnodes, options.where.nnodes);
  const bool endpoint = !options.meet.rdzv_endpoint.empty() ||
                        (!options.meet.master_addr.empty() && options.meet.master_port.has_value());
  DL_CHECK(!several || endpoint, kInvalidArgument,
           "{} is {}: give node 0's address in --rdzv-endpoint HOST:PORT", nnodes,
           options.where.nnodes);
  if (several || given.has("--standalone")) return;
  if (const std::string why = one_of_several_jobs(); !why.empty()) {
    throw_error(ErrorKind::kInvalidArgument, "{}", why);
  }
}

// --map-by ppr:N:node.
void take_most_per_node(const Given& given, Options& options) {
  if (!options.where.most_per_node) return;
  const int most = *options.where.most_per_node;
  const Typed* const per_node = given.find("--nproc-per-node");
  DL_CHECK(per_node == nullptr || !per_node->variable.empty(), kInvalidArgument,
           "--nproc-per-node and --map-by ppr:{}:node both count the ranks of a node; leave one of "
           "them out",
           most);
  options.job.nproc_per_node = std::to_string(most);
  for (HostSlots& host : options.where.hosts) {
    DL_CHECK(host.slots.value_or(most) >= most, kInvalidArgument,
             "--map-by ppr:{}:node puts {} ranks on each node, and {} has {} slot{}", most, most,
             host.host, *host.slots, *host.slots == 1 ? "" : "s");
    host.slots = most;
  }
  const auto hosts = static_cast<std::int64_t>(options.where.hosts.size());
  DL_CHECK(hosts == 0 || options.job.np.value_or(0) <= hosts * most, kInvalidArgument,
           "--np is {}, and --map-by ppr:{}:node puts at most {} on each of {} host{}",
           options.job.np.value_or(0), most, most, hosts, hosts == 1 ? "" : "s");
}

void check_ranks(const Given& given, Options& options) {
  DL_CHECK(!given.has("--hosts") || !given.has("--hostfile"), kInvalidArgument,
           "--hosts and --hostfile both name the hosts; leave one of them out");
  take_most_per_node(given, options);
  // As mpirun: a host takes as many ranks as it has slots.
  if (options.where.hosts.size() == 1 && options.where.hosts.front().slots) {
    const int slots = *options.where.hosts.front().slots;
    DL_CHECK(options.job.np.value_or(1) <= slots, kInvalidArgument,
             "--np is {}, and {} has {} slot{}; write {}:{}", options.job.np.value_or(1),
             options.where.hosts.front().host, slots, slots == 1 ? "" : "s",
             options.where.hosts.front().host, options.job.np.value_or(1));
    if (!options.job.np && !given.has("--nproc-per-node")) {
      options.job.nproc_per_node = std::to_string(slots);
    }
  }
  if (!options.job.np) return;
  const std::string_view per_node = known_as(given, "--nproc-per-node");
  DL_CHECK(*options.job.np % options.where.nnodes == 0, kInvalidArgument,
           "--np is {}, and {} nodes ({}) cannot share that many ranks equally; give each its "
           "number in --nproc-per-node",
           *options.job.np, options.where.nnodes, known_as(given, "--nnodes"));
  const std::string each = std::to_string(*options.job.np / options.where.nnodes);
  DL_CHECK(!given.has("--nproc-per-node") || options.job.nproc_per_node == each ||
               !options.where.hosts.empty() || options.where.most_per_node,
           kInvalidArgument, "--np is {} on {} node{}, but {} is {}; leave one of them out",
           *options.job.np, options.where.nnodes, options.where.nnodes == 1 ? "" : "s", per_node,
           options.job.nproc_per_node);
  options.job.nproc_per_node = each;
}

void check_placement(const Given& given, Options& options) {
  DL_CHECK(!given.has("--bind") || !given.has("--bind-to"), kInvalidArgument,
           "--bind and --bind-to are one setting; leave one of them out");
  DL_CHECK(
      !given.has("--map-by") || options.where.most_per_node || options.where.bind != Bind::kNone ||
          options.where.report_bindings,
      kInvalidArgument,
      "--map-by says in which order ranks take cores: give --bind or --bind-to, or leave it out");
  DL_CHECK(options.where.gpu_policy != GpuPolicy::kLeave || !options.where.gpus_per_rank,
           kInvalidArgument, "--gpu-policy leave gives out no GPUs, but --gpus-per-rank is {}",
           options.where.gpus_per_rank.value_or(0));
  if (!options.where.virtual_local_rank) return;
  DL_CHECK(options.where.gpu_policy.value_or(GpuPolicy::kScope) == GpuPolicy::kScope,
           kInvalidArgument,
           "{} shows each rank its own GPU alone, and --gpu-policy does not; leave one of them out",
           known_as(given, "--virtual-local-rank"));
  options.where.gpu_policy = GpuPolicy::kScope;
}

void check_output(const Given& given, const Options& options) {
  const Typed* const redirects = given.find("--redirects");
  const bool hides =
      options.output.redirects.all != Streams() || !options.output.redirects.by_local_rank.empty();
  DL_CHECK(!hides || !options.output.log_dir.empty(), kInvalidArgument,
           "{} is `{}`: give --log-dir DIR, or what is not shown is kept nowhere",
           known_as(given, "--redirects"), redirects == nullptr ? "" : redirects->value);
  const Typed* const log_dir = given.find("--log-dir");
  DL_CHECK(log_dir == nullptr || !log_dir->variable.empty() || !given.has("--output-filename"),
           kInvalidArgument,
           "--log-dir and --output-filename are one setting; leave one of them out");
  const Typed* const prefix = given.find("--log-line-prefix-template");
  DL_CHECK(prefix == nullptr || !prefix->variable.empty() || !given.has("--no-prefix"),
           kInvalidArgument, "--log-line-prefix-template and --no-prefix exclude each other");
  DL_CHECK(!given.has("--tag-output") || !given.has("--no-prefix"), kInvalidArgument,
           "--tag-output and --no-prefix exclude each other");
  DL_CHECK(!options.output.json || options.output.dry_run, kInvalidArgument,
           "--json needs --dry-run");
  const Typed* const shutdown = given.find("--shutdown-timeout");
  DL_CHECK(!given.has("--grace") || shutdown == nullptr || !shutdown->variable.empty(),
           kInvalidArgument,
           "--grace and --shutdown-timeout are one setting; leave one of them out");
}

bool has_several_nodes(const Options& options) {
  if (options.where.nnodes > 1 || options.where.hosts.size() > 1) return true;
  const auto allocation = needs_srun(options);
  return allocation && allocation->hosts.size() > 1;
}

std::vector<Setting> settings_of(const Given& given, const Options& options) {
  std::vector<Setting> settings = settings_in_force(given, options, has_several_nodes(options));
  if (!options.where.slurm_tasks.empty()) {
    std::erase_if(settings, [](const Setting& s) { return s.option == "--nproc-per-node"; });
    settings.insert(settings.begin(),
                    {.option = "--nproc-per-node",
                     .value = env::get(env::Var::kSlurmTasksPerNode).value_or(""),
                     .by = SetBy::kVariable,
                     .variable = std::string(env::name_of(env::Var::kSlurmTasksPerNode))});
  }
  if (options.job.apps.size() == 1 || given.has("--app")) return settings;
  for (Setting& setting : settings) {
    // What stands before the first program is that program's, if it belongs to one alone.
    const bool is_typed = setting.by == SetBy::kLine;
    if (is_typed && option_named(setting.option).is_of_app) setting.program = 0;
  }
  return settings;
}

// Checks what the line says as a whole, and takes from SLURM what it leaves out.
void finish(const Given& given, Options& options) {
  const bool says_nnodes = given.has("--nnodes");
  options.where.says_nodes = given.has("--standalone") || says_nnodes || options.where.node_rank ||
                             !options.meet.rdzv_endpoint.empty() || !options.where.hosts.empty();
  if (!given.has("--standalone") && options.where.hosts.empty())
    take_slurm_step(options, says_nnodes);
  if (says_nnodes && !given.has("--standalone") && options.where.hosts.empty()) {
    take_slurm_allocation(options);
  }
  const bool has_number = given.has("--nproc-per-node") || options.job.np ||
                          options.where.most_per_node || !options.where.hosts.empty();
  if (!has_number && !given.has("--standalone")) take_slurm_tasks(options, says_nnodes);
  check_nodes(given, options);
  check_ranks(given, options);
  check_placement(given, options);
  check_output(given, options);
  std::vector<Setting> settings = settings_of(given, options);
  std::ranges::move(options.settings, std::back_inserter(settings));
  options.settings = std::move(settings);
}

}  // namespace

SignalMeaning EndOptions::meaning_of(int signal) const {
  const bool is_forwarded = std::ranges::find(forwarded_signals, signal) != forwarded_signals.end();
  return is_forwarded ? SignalMeaning::kForward : launcher::meaning_of(signal);
}

Streams OutputOptions::shown_streams(int local_rank) const {
  const bool passes = local_ranks_filter.empty() ||
                      std::find(local_ranks_filter.begin(), local_ranks_filter.end(), local_rank) !=
                          local_ranks_filter.end();
  if (!passes) return {};
  const Streams hidden = redirects.of(local_rank);
  const Streams teed = tee.of(local_rank);
  return {.out = !hidden.out || teed.out, .err = !hidden.err || teed.err};
}

std::size_t JobOptions::app_of(int rank) const {
  std::size_t app = 0;
  while (app + 1 < apps.size() && rank >= apps[app].np.value_or(0)) {
    rank -= apps[app++].np.value_or(0);
  }
  return app;
}

std::vector<int> JobOptions::ranks_of_apps(int world_size) const {
  if (apps.size() == 1) return {world_size};
  std::vector<int> ranks;
  for (const App& app : apps) ranks.push_back(app.np.value_or(0));
  return ranks;
}

std::variant<Options, Information> parse_options(const std::vector<std::string>& arguments) {
  std::vector<SpelledOut> lines = spell_out(arguments);
  SpelledOut& first = lines.front();
  std::string forgotten;
  if (!first.options.empty() && first.options.back().value == arguments.back()) {
    const Typed& last = first.options.back();
    forgotten = fmt::format(": {} has taken `{}` as its value", last.name(), last.value);
  }
  Given given;
  for (Typed& typed : first.options) given.add(std::move(typed));
  if (std::optional<Information> information = information_of(given)) return *information;
  Options options;
  add_variables(given, options.remarks);
  given.read_into(options);  // first: if an option has no value, it has taken the program for one
  const Typed* const file = given.find("--app");
  if (file != nullptr) {
    DL_CHECK(lines.size() == 1 && first.program.empty(), kInvalidArgument,
             "--app {} names the programs, and the line has one, too: `{}`; leave one of them out",
             file->value, first.program.empty() ? ":" : first.program.front());
    read_app_file(given, file->value, options);
  } else {
    DL_CHECK(lines.size() > 1 || !first.program.empty(), kInvalidArgument,
             "no program given{}; `dlrun --help` shows how", forgotten);
    read_apps(given, std::move(lines), options);
  }
  options.job.np = ranks_of_all(options.job.apps);
  finish(given, options);
  return options;
}

Options parse_agent_options(const std::vector<std::string>& arguments,
                            const std::vector<std::vector<std::string>>& programs) {
  Given given;
  for (Typed& typed : spell_out_one(arguments).options) given.add(std::move(typed));
  Options options;
  add_variables(given, options.remarks);
  given.read_into(options);
  options.job.apps.clear();
  for (const std::vector<std::string>& words : programs) {
    options.job.apps.emplace_back();
    add_app(given, spell_out_one(words), "", options);
  }
  finish(given, options);
  return options;
}

}  // namespace dl::launcher
