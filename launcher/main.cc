#include <fmt/core.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/cli/options.h"
#include "launcher/cli/slurm_line.h"
#include "launcher/cli/subcommand/subcommand.h"
#include "launcher/frontend/frontend.h"
#include "launcher/frontend/starter.h"
#include "launcher/plan/apps.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/machine/gpus.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/plan_text.h"
#include "launcher/plan/torch_backend.h"
#include "launcher/pmi/which_mpi.h"
#include "launcher/process/descendants.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/warden/job_signals.h"
#include "launcher/process/warden/warden.h"
#include "launcher/remote/ask/ask_step.h"
#include "launcher/remote/remote.h"
#include "launcher/remote/ssh/ssh.h"
#include "launcher/slurm/commands.h"
#include "launcher/srun/srun_job.h"
#include "launcher/srun/srun_task.h"
#include "launcher/srun/step_key.h"

namespace dl::launcher {
namespace {

// Shows sentences before a Frontend exists.
void say(std::string_view text) {
  write_error(fmt::format("dlrun: {}\n", printable(text)));
}

// --dry-run shows the GPUs even if no option asks for them; if they cannot be found it says why and
// goes on without them.
std::vector<VisibleGpu> gpus_to_show() {
  try {
    return gpus_to_give_out();
  } catch (const Error& error) {
    say(error.what());
    return {};
  }
}

// Asio throws errors of its own kind.
std::string text_of(const std::exception& error) {
  // fmt::print() does not say to which stream it writes.
  const auto* const of_print = dynamic_cast<const std::system_error*>(&error);
  if (of_print != nullptr && std::ferror(stdout) != 0) {
    return fmt::format("write to standard output: {}", of_print->code().message());
  }
  const auto* const of_asio = dynamic_cast<const boost::system::system_error*>(&error);
  const bool is_of_limits = of_asio != nullptr && is_resource_exhausted(of_asio->code().value());
  return is_of_limits ? text_with_limits(std::system_error(of_asio->code()))
                      : text_with_limits(error);
}

// The text is longer than stdio's buffer, so a write may fail here and not only at the end.
void show(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    throw_errno(errno, "write to standard output");
  }
}

// Runs a subcommand, or what the dlrun of another host wants here. nullopt: the line starts a job.
std::optional<int> run_first_word(CommandLine line) {
  if (line.argc < 2) return std::nullopt;
  const std::string_view word = line.argv[1];
  if (const Subcommand* const subcommand = find_subcommand(word)) {
    return run_subcommand(*subcommand, {line.argv + 2, line.argv + line.argc});
  }
  if (word == remote::kAnswerWord) return remote::answer_in_step();
  if (word != remote::kAgentWord) return std::nullopt;
  LinesToFrontend lines = connect_as_task_of_srun(line).value_or(LinesToFrontend());
  return remote::run_agent(line, std::move(lines.in), std::move(lines.out));
}

// The options of a job that this node takes part in, or the exit code if the line is done: it only
// prints something, or the whole job runs on other hosts.
std::variant<Options, int> parse(CommandLine line) {
  auto parsed = parse_options({line.argv + 1, line.argv + line.argc});
  if (const auto* information = std::get_if<Information>(&parsed)) {
    show(information->text);
    return 0;
  }
  Options options = std::get<Options>(std::move(parsed));
  if (remote::is_for_hosts(options.where)) {
    options.end.preempt_at = time_of_preemption(options);
    return remote::run_on_hosts(options, line);
  }
  if (const auto allocation = needs_srun(options)) {
    return run_on_allocation(options, *allocation, line);
  }
  return options;
}

// This node's part of the job, ready to start.
struct Launch {
  Options options;
  NodePlan plan;
  std::unique_ptr<KeyGiver> key;  // node 0 of a step of srun gives the job's key to the others
};

// `step`: set if others of a step of srun wait for this node.
Launch make_launch(Options options, CommandLine line, std::string& step) {
  Launch launch;
  if (!options.output.dry_run) {
    step = options.where.slurm_step;
    // Comes before all that changes this process: it may execute dlrun-srun, which begins again.
    launch.key = key_of_step(options, line);
  }
  apply_process_options(options);
  Machine machine = this_machine();
  if (needs_gpus(options)) {
    machine.gpus = gpus_to_give_out();
  } else if (options.output.dry_run) {
    machine.gpus = gpus_to_show();
  }
  if (needs_topology(options.where)) machine.topology = read_topology(machine.cpus);
  launch.plan = make_plan(options, machine);
  launch.plan.awaits_lost_nodes = options.where.slurm_step.empty();  // srun starts a task once
  launch.options = std::move(options);
  return launch;
}

int show_plan(const Options& options, const NodePlan& plan) {
  const Meeting meeting = supposed_meeting(plan);
  show(options.output.json ? plan_as_json(options.settings, plan, meeting)
                           : printable(plan_as_table(options.settings, plan, meeting)));
  return 0;
}

// Whether the ranks are served as MPI processes. If that cannot be done for these programs, or
// --torch-backend would have no effect on one, sets exit code and error of the first one.
void look_at_programs(const Options& options, NodePlan& plan) {
  if (plan.bad_program() != nullptr) return;
  try {
    plan.mpi = mpi_to_serve(options, plan.programs);
    for (std::size_t i = 0; i < plan.programs.size(); ++i) {
      check_torch_backend(options.job, options.job.apps[i], plan.programs[i]);
    }
  } catch (const Error& error) {
    plan.programs.front().exit_code = kExitUsage;
    plan.programs.front().error = error.what();
  }
}

// Runs the job to its end.
int start(Launch launch, CommandLine line) {
  auto& [options, plan, key] = launch;
  if (options.output.verbose) {
    write_error(printable(plan_in_short(options.settings, plan)));
  }
  for (const std::string& text : shared_gpus(plan)) say(text);
  look_at_programs(options, plan);
  if (const Program* const bad = plan.bad_program()) {
    // The other nodes may be able to start their ranks, and wait for this node.
    const bool has_others = plan.job.nnodes > 1;
    say(bad->error + (has_others ? "; the other nodes are told so when they have joined" : ""));
    if (!has_others) return bad->exit_code;
  }
  // One node's request is enough for all.
  if (plan.node_rank == 0) options.end.preempt_at = time_of_preemption(options);
  for (const std::string& text : plan.bindings_drawn) say(text);
  const int ranks = plan.local_world_size();
  const rlimit open_files = raise_descriptor_limit(
      descriptors_for(ranks, !options.output.log_dir.empty()), ranks, kHighestRankFd);
  JobSignals::block_signals();
  StartHere starter(plan, start_warden(programs_to_start(plan, open_files), line));
  if (key) key->serve();
  Frontend frontend(options, starter);
  return frontend.run();
}

// `step`: set if others of a step of srun wait for this node.
int run(CommandLine line, std::string& step) {
  if (const std::optional<int> code = run_first_word(line)) return *code;
  Launch launch;
  try {
    std::variant<Options, int> parsed = parse(line);
    if (const int* const code = std::get_if<int>(&parsed)) return *code;
    launch = make_launch(std::get<Options>(std::move(parsed)), line, step);
  } catch (const Error& error) {
    say(error.what());
    if (!step.empty()) end_slurm_step(step);
    return error.kind() == ErrorKind::kInvalidArgument ? kExitUsage : 1;
  }
  for (const std::string& text : remarks_on(launch.options, launch.plan)) say(text);
  for (const std::string& text : unserved_mpis(launch.options, launch.plan.programs)) {
    say(text);
  }
  return launch.options.output.dry_run ? show_plan(launch.options, launch.plan)
                                       : start(std::move(launch), line);
}

}  // namespace
}  // namespace dl::launcher

int main(int argc, char** argv) {
  dl::open_missing_standard_streams();
  std::string step;
  try {
    dl::launcher::JobSignals::block_report_signals();
    const int code = dl::launcher::run({argc, argv}, step);
    if (std::fflush(stdout) == 0) return code;
    dl::write_error(fmt::format("dlrun: write to standard output: {}\n", std::strerror(errno)));
    return code == 0 ? 1 : code;
  } catch (const std::exception& error) {
    dl::launcher::say(dl::launcher::text_of(error));
    // A node that cannot take part must not let the others wait for it.
    if (!step.empty()) dl::launcher::end_slurm_step(step);
    if (!dl::launcher::kill_descendants(
            dl::rendezvous::Deadline::after(std::chrono::seconds(30)))) {
      dl::launcher::say("these are left, which dlrun could not end:");
      for (const std::string& left : dl::launcher::living_descendants()) {
        dl::launcher::say("  " + left);
      }
    }
    return 1;
  }
}
