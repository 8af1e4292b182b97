#include "launcher/cli/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>

#include "core/base/error.h"
#include "core/base/version.h"
#include "launcher/cli/refused_options.h"
#include "launcher/cli/started_by.h"
#include "launcher/cli/torchrun_environment.h"

namespace dl::launcher {
namespace {

constexpr const char* kDescription =
    "Starts a program as the ranks of one job, watches over them, and ends them together.\n"
    "Each rank finds torchrun's environment variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, "
    "...";

constexpr const char* kFooter =
    "Exit code: that of the rank that caused the failure, 128+N for signal N; 2 bad usage; 124 a\n"
    "deadline passed; 126 the program cannot be executed; 127 it was not found.\n"
    "\n"
    "A job that hangs: `kill -USR1` dlrun, and it says who is waited for; so does `dlrun autopsy "
    "DIR`\n"
    "of a --log-dir after a failure.\n"
    "\n"
    "  dlrun --nproc-per-node 2 ./train --epochs 3\n"
    "  dlrun --nproc-per-node auto python train.py\n"
    "  dlrun --nnodes 2 --node-rank 0 --rdzv-endpoint node0:29400 ./train     (the same with 1 "
    "there)";

constexpr int kMostNodes = 1'000'000;

// As typed: numbers are read here and not by CLI11, so that every refusal is a sentence of ours.
struct Typed {
  std::string nnodes, nproc, node_rank, master_port, max_restarts, grace, join_timeout, bind,
      rdzv_backend, gpus_per_rank, gpu_policy, mpi;
  bool no_prefix = false;
  bool version = false;
  bool standalone = false;
  bool no_python = false;
  std::map<std::string, std::string*, std::less<>> values;  // all of them, by option
  std::map<std::string_view, std::string_view> variables;   // that gave a value, by option

  // What the user knows a value by: "--nnodes", or "PET_NNODES".
  std::string_view name(std::string_view option) const {
    const auto found = variables.find(option);
    return found == variables.end() ? option : found->second;
  }
};

int whole_number(std::string_view option, const std::string& text, int least, int most,
                 std::string_view else_wanted = "") {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && end == text.data() + text.size();
  DL_CHECK(read && value >= least && value <= most, kInvalidArgument,
           "{} is `{}`, wanted a whole number from {} to {}{}", option, text, least, most,
           else_wanted);
  return value;
}

std::chrono::milliseconds seconds(std::string_view option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && end == text.data() + text.size();
  DL_CHECK(read && std::isfinite(value) && value >= 0 && value <= 1e9, kInvalidArgument,
           "{} is `{}`, wanted a number of seconds from 0 to 1000000000", option, text);
  return std::chrono::milliseconds(std::llround(value * 1000));
}

// "--nproc-per-node" may be typed "--nproc_per_node", as with torchrun.
CLI::Option* add_option(CLI::App& app, const std::string& name, std::string& into,
                        const std::string& help, const std::string& value) {
  std::string underscored = name;
  std::replace(underscored.begin() + 2, underscored.end(), '-', '_');
  const std::string names = underscored == name ? name : name + "," + underscored;
  return app.add_option(names, into, help)->type_name(value)->take_last();
}

CLI::Option* add_flag(CLI::App& app, const std::string& name, bool& into, const std::string& help) {
  std::string underscored = name;
  std::replace(underscored.begin() + 2, underscored.end(), '-', '_');
  const std::string names = underscored == name ? name : name + "," + underscored;
  return app.add_flag(names, into, help);
}

// One line an option, its torchrun spelling with underscores left out.
class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() { column_width(32); }
  std::string make_option_name(const CLI::Option* option, bool) const override {
    std::string name;
    for (const std::string& s : option->get_snames()) name += "-" + s + ", ";
    return name + "--" + option->get_lnames().front();
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: dlrun [options] [--] program [arguments...]\n";
  }
};

void check_together(const Typed& typed, const Options& options) {
  const bool several = options.nnodes > 1;
  const std::string_view nnodes = typed.name("--nnodes");
  const std::string_view node_rank = typed.name("--node-rank");
  DL_CHECK(several || !options.node_rank || *options.node_rank == 0, kInvalidArgument,
           "{} is {} but {} is 1", node_rank, options.node_rank.value_or(0), nnodes);
  DL_CHECK(!options.node_rank || *options.node_rank < options.nnodes, kInvalidArgument,
           "{} is {}, wanted less than {}, which is {}", node_rank, options.node_rank.value_or(0),
           nnodes, options.nnodes);
  DL_CHECK(!several || options.node_rank, kInvalidArgument,
           "{} is {}: give this node's number in --node-rank", nnodes, options.nnodes);
  const bool endpoint = !options.rdzv_endpoint.empty() ||
                        (!options.master_addr.empty() && options.master_port.has_value());
  DL_CHECK(!several || endpoint, kInvalidArgument,
           "{} is {}: give node 0's address in --rdzv-endpoint HOST:PORT", nnodes, options.nnodes);
  if (several || typed.standalone) return;
  if (const std::string why = one_of_several_jobs(); !why.empty()) {
    throw_error(ErrorKind::kInvalidArgument, "{}", why);
  }
}

void declare(CLI::App& app, Typed& typed, Options& options) {
  const auto add = [&typed](CLI::App& to, const std::string& name, std::string& into,
                            const std::string& help, const std::string& value) {
    typed.values[name] = &into;
    return add_option(to, name, into, help, value);
  };
  app.formatter(std::make_shared<HelpFormat>());
  app.footer(kFooter);
  app.prefix_command();  // from the first word that is no option on, everything is the program's
  app.set_help_flag("-h,--help", "print this and exit");
  app.add_flag("--version", typed.version, "print the version and exit");

  const auto group = [](const std::string& name, std::initializer_list<CLI::Option*> made) {
    for (CLI::Option* option : made) option->group(name);
  };
  group("Who runs",
        {add(app, "--nproc-per-node", typed.nproc,
             "ranks on this node (1); gpu, cpu: one a GPU, a core; auto: gpu, else cpu",
             "N|gpu|cpu|auto"),
         add(app, "--nnodes", typed.nnodes, "nodes of the job (1), each with a dlrun of its own",
             "N"),
         add(app, "--node-rank", typed.node_rank, "number of this node, from 0", "R"),
         add(app, "--bind", typed.bind,
             "what each rank is bound to; even: its own share of the cores (none)",
             "none|core|even|numa|socket"),
         add(app, "--mpi", typed.mpi,
             "serve MPICH programs; auto: if the program's file is linked to it (auto)",
             "auto|pmi1|none"),
         add(app, "--gpus-per-rank", typed.gpus_per_rank, "GPUs that each rank is given (1)", "N"),
         add(app, "--gpu-policy", typed.gpu_policy,
             "a rank sees all and is told its own; sees its own; leave it alone",
             "keep|scope|leave")});
  group("How nodes and ranks meet",
        {add(app, "--rdzv-endpoint", options.rdzv_endpoint, "where node 0's dlrun listens",
             "HOST:PORT"),
         add(app, "--rdzv-id", options.rdzv_id, "name of the job, the same on all nodes", "NAME"),
         add(app, "--key-file", options.key_file,
             "the job's secret, mode 0600 (~/.config/dlrun/key, made on first use)", "FILE"),
         add(app, "--join-timeout", typed.join_timeout, "longest wait for the other nodes (600)",
             "SECONDS"),
         add(app, "--iface", options.iface, "what this node's ranks listen on (all that lead out)",
             "NAME|ADDRESS|CIDR"),
         add(app, "--master-addr", options.master_addr, "MASTER_ADDR of the ranks", "ADDRESS"),
         add(app, "--master-port", typed.master_port, "MASTER_PORT of the ranks (a free one)",
             "PORT")});
  group("What is shown and kept",
        {add(app, "--log-dir", options.log_dir,
             "also keep output, in DIR/latest/attempt_0/<rank>/stdout.log", "DIR"),
         add_flag(app, "--no-prefix", typed.no_prefix, "lines without `[rank N] `"),
         add_flag(app, "--dry-run", options.dry_run, "print who would run where, and exit"),
         add_flag(app, "--json", options.json, "with --dry-run: as JSON")});
  group("How it ends",
        {add(app, "--grace", typed.grace, "time between SIGTERM and SIGKILL (10)", "SECONDS"),
         add(app, "--max-restarts", typed.max_restarts,
             "begin a failed job again, at most N times (0)", "N")});
  group("Taken for torchrun's sake, always so",
        {add_flag(app, "--standalone", typed.standalone, "one node, with no address to give"),
         add_flag(app, "--no-python", typed.no_python, "the program is run as it stands"),
         add(app, "--rdzv-backend", typed.rdzv_backend, "dlrun's own rendezvous in its place",
             "c10d|static")});
}

// CLI11 takes the next word for the value of `--log-dir=`, and nobody means an empty one: a
// variable of the calling script is not set. It takes values for flags, too.
void refuse_wrong_values(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i].starts_with("--"); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const CLI::Option* const option = app.get_option_no_throw(arguments[i].substr(0, equals));
    if (option == nullptr) return;  // the program, or refused later
    const std::string& name = option->get_lnames().front();
    const bool is_next_word = equals == std::string::npos;
    if (option->get_items_expected_max() == 0) {  // a flag
      DL_CHECK(is_next_word, kInvalidArgument, "--{} takes no value", name);
      continue;
    }
    if (is_next_word) ++i;
    DL_CHECK(i < arguments.size(), kInvalidArgument, "--{} needs a value: {}", name,
             option->get_type_name());
    const bool empty = is_next_word ? arguments[i].empty() : equals + 1 == arguments[i].size();
    DL_CHECK(!empty, kInvalidArgument, "--{} has an empty value, wanted {}; or leave it out", name,
             option->get_type_name());
  }
}

// CLI11 leaves two empty lines between groups.
std::string help_of(const CLI::App& app) {
  std::string text = app.help();
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

// What CLI11 did not know begins with the program, or is an option that is not there.
std::vector<std::string> program_of(const CLI::App& app) {
  std::vector<std::string> program = app.remaining();
  if (!program.empty() && program.front() == "--") {
    program.erase(program.begin());
  } else if (!program.empty() && program.front().starts_with('-')) {
    throw Error(ErrorKind::kInvalidArgument, refusal_of(program.front()));
  }
  DL_CHECK(!program.empty() && !program.front().empty(), kInvalidArgument,
           "no program given; `dlrun --help` shows how");
  return program;
}

int number_of_nodes(std::string_view name, const std::string& text) {
  const std::size_t colon = text.find(':');  // torchrun's LEAST:MOST
  const std::string least = text.substr(0, colon);
  DL_CHECK(colon == std::string::npos || text.substr(colon + 1) == least, kInvalidArgument,
           "{} is `{}`: a job whose number of nodes changes is not supported; give one number",
           name, text);
  return whole_number(name, least, 1, kMostNodes);
}

// A line that says that the job has one node says so about all that only several need.
void take_environment(Typed& typed, Options& options) {
  TorchrunEnvironment environment = torchrun_environment();
  options.remarks = std::move(environment.remarks);
  const bool line_says_one =
      typed.standalone || (!typed.nnodes.empty() && number_of_nodes("--nnodes", typed.nnodes) == 1);
  if (typed.nnodes.empty()) typed.standalone |= environment.standalone;
  const auto take = [&](const EnvironmentOption& found) {
    std::string& value = *typed.values.at(std::string(found.option));
    if (!value.empty()) return;
    value = found.value;
    typed.variables[found.option] = found.variable;
  };
  const auto is_of_nodes = [](std::string_view option) {
    return option == "--nnodes" || option == "--node-rank" || option.starts_with("--master-");
  };
  std::optional<EnvironmentOption> endpoint;
  for (const EnvironmentOption& found : environment.options) {
    if (line_says_one && is_of_nodes(found.option)) continue;
    if (found.option == "--rdzv-endpoint") {
      endpoint = found;
    } else {
      take(found);
    }
  }
  const bool several =
      !typed.nnodes.empty() && number_of_nodes(typed.name("--nnodes"), typed.nnodes) > 1;
  if (endpoint && several) take(*endpoint);
}

void read(const Typed& typed, Options& options) {
  constexpr int kMost = 1'000'000;
  if (!typed.nnodes.empty()) options.nnodes = number_of_nodes(typed.name("--nnodes"), typed.nnodes);
  if (!typed.nproc.empty()) {
    const std::string_view name = typed.name("--nproc-per-node");
    DL_CHECK(typed.nproc != "xpu", kInvalidArgument,
             "{} xpu is not supported; give a number, or cpu for one rank a core", name);
    if (typed.nproc != "auto" && typed.nproc != "cpu" && typed.nproc != "gpu") {
      whole_number(name, typed.nproc, 1, kMost, ", or gpu, cpu or auto");
    }
    options.nproc_per_node = typed.nproc;
  }
  if (!typed.node_rank.empty()) {
    options.node_rank = whole_number(typed.name("--node-rank"), typed.node_rank, 0, kMost);
  }
  if (!typed.master_port.empty()) {
    options.master_port = whole_number(typed.name("--master-port"), typed.master_port, 1, 65535);
  }
  if (!typed.max_restarts.empty()) {
    options.max_restarts = whole_number(typed.name("--max-restarts"), typed.max_restarts, 0, kMost);
  }
  if (!typed.grace.empty()) options.grace = seconds("--grace", typed.grace);
  if (!typed.join_timeout.empty()) {
    options.join_timeout = seconds("--join-timeout", typed.join_timeout);
  }
  if (!typed.bind.empty()) {
    const std::pair<std::string_view, Bind> policies[] = {{"none", Bind::kNone},
                                                          {"core", Bind::kCore},
                                                          {"even", Bind::kEven},
                                                          {"numa", Bind::kNuma},
                                                          {"socket", Bind::kSocket}};
    const auto* const policy =
        std::ranges::find(policies, typed.bind, [](const auto& row) { return row.first; });
    DL_CHECK(policy != std::end(policies), kInvalidArgument,
             "--bind is `{}`, wanted none, core, even, numa or socket", typed.bind);
    options.bind = policy->second;
  }
  if (!typed.mpi.empty()) {
    DL_CHECK(typed.mpi == "auto" || typed.mpi == "pmi1" || typed.mpi == "none", kInvalidArgument,
             "--mpi is `{}`, wanted auto, pmi1 or none", typed.mpi);
    options.mpi = typed.mpi == "auto" ? Mpi::kAuto : typed.mpi == "pmi1" ? Mpi::kPmi1 : Mpi::kNone;
  }
  DL_CHECK(options.mpi != Mpi::kPmi1 || options.nnodes == 1, kInvalidArgument,
           "--mpi pmi1 serves one node, but {} is {}: start an MPI program on several nodes with "
           "mpirun or srun",
           typed.name("--nnodes"), options.nnodes);
  if (!typed.gpus_per_rank.empty()) {
    options.gpus_per_rank = whole_number("--gpus-per-rank", typed.gpus_per_rank, 1, 1024);
  }
  if (!typed.gpu_policy.empty()) {
    const std::string& policy = typed.gpu_policy;
    DL_CHECK(policy == "keep" || policy == "scope" || policy == "leave", kInvalidArgument,
             "--gpu-policy is `{}`, wanted keep, scope or leave", policy);
    options.gpu_policy = policy == "keep"    ? GpuPolicy::kKeep
                         : policy == "scope" ? GpuPolicy::kScope
                                             : GpuPolicy::kLeave;
    DL_CHECK(policy != "leave" || !options.gpus_per_rank, kInvalidArgument,
             "--gpu-policy leave gives out no GPUs, but --gpus-per-rank is {}",
             options.gpus_per_rank.value_or(0));
  }
  DL_CHECK(
      typed.rdzv_backend.empty() || typed.rdzv_backend == "c10d" || typed.rdzv_backend == "static",
      kInvalidArgument, "{} is `{}`: the nodes always meet through dlrun's own; leave it out",
      typed.name("--rdzv-backend"), typed.rdzv_backend);
  options.prefix = !typed.no_prefix;
  DL_CHECK(!typed.standalone || options.nnodes == 1, kInvalidArgument,
           "--standalone means one node, but {} is {}", typed.name("--nnodes"), options.nnodes);
  DL_CHECK(!options.json || options.dry_run, kInvalidArgument, "--json needs --dry-run");
}

}  // namespace

std::variant<Options, Information> parse_options(std::vector<std::string> arguments) {
  Options options;
  Typed typed;
  CLI::App app(kDescription, "dlrun");
  declare(app, typed, options);
  refuse_wrong_values(app, arguments);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Information{help_of(app)};
  } catch (const CLI::ParseError& error) {
    throw_error(ErrorKind::kInvalidArgument, "{}", error.what());
  }
  if (typed.version) return Information{fmt::format("dlrun {}\n", kVersion)};
  options.program = program_of(app);
  take_environment(typed, options);
  read(typed, options);
  check_together(typed, options);
  return options;
}

}  // namespace dl::launcher
