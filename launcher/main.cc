#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/output.h"
#include "core/base/text/printable.h"
#include "launcher/agent/generation.h"
#include "launcher/autopsy/autopsy.h"
#include "launcher/cli/options.h"
#include "launcher/cli/slurm_line.h"
#include "launcher/front/front.h"
#include "launcher/front/starter.h"
#include "launcher/plan/machine/gpus.h"
#include "launcher/plan/machine/machine.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/plan_text.h"
#include "launcher/plan/surroundings.h"
#include "launcher/pmi/which_mpi.h"
#include "launcher/process/descendants.h"
#include "launcher/process/start/program.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/warden/job_signals.h"
#include "launcher/process/warden/warden.h"
#include "launcher/remote/agent_mode.h"
#include "launcher/remote/hosts_job.h"
#include "launcher/remote/ssh/ssh.h"
#include "launcher/slurm/commands.h"
#include "launcher/srun/srun_job.h"
#include "launcher/srun/srun_task.h"
#include "launcher/srun/step_key.h"

namespace dl::launcher {
namespace {

// Shows sentences before a Front exists.
void say(std::string_view text) {
  fmt::print(stderr, "dlrun: {}\n", printable(text));
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

// The text is longer than stdio's buffer, so a write may fail here and not only at the end.
void show(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    throw_errno(errno, "write to standard output");
  }
}

// `step`: set if others of a step of srun wait for this node.
int run(int argc, char** argv, std::string& step) {
  if (argc > 1 && std::string_view(argv[1]) == "autopsy") {
    return autopsy::run({argv + 2, argv + argc});
  }
  if (argc > 1 && std::string_view(argv[1]) == remote::kAgentWord) {
    LinesToFront lines = connect_as_task_of_srun({argc, argv}).value_or(LinesToFront());
    return remote::run_agent({argc, argv}, std::move(lines.in), std::move(lines.out));
  }
  NodePlan plan;
  Options options;
  std::unique_ptr<KeyGiver> key;
  try {
    auto parsed = parse_options({argv + 1, argv + argc});
    if (const auto* information = std::get_if<Information>(&parsed)) {
      show(information->text);
      return 0;
    }
    options = std::get<Options>(std::move(parsed));
    if (remote::is_for_hosts(options)) {
      options.end.preempt_at = time_of_preemption(options);
      return remote::run_on_hosts(options, {argc, argv});
    }
    if (const auto allocation = needs_srun(options)) {
      return run_on_allocation(options, *allocation, {argc, argv});
    }
    if (!options.output.dry_run) {
      step = options.where.slurm_step;
      key = key_of_step(options, {argc, argv});  // may execute dlrun-srun, with all still to do
    }
    take_surroundings(options);
    Machine machine = this_machine();
    if (needs_gpus(options)) {
      machine.gpus = gpus_to_give_out();
    } else if (options.output.dry_run) {
      machine.gpus = gpus_to_show();
    }
    if (needs_topology(options)) machine.topology = read_topology(machine.cpus);
    plan = make_plan(options, machine);
    plan.awaits_lost_nodes = options.where.slurm_step.empty();  // srun starts a task once
  } catch (const Error& error) {
    say(error.what());
    if (!step.empty()) end_slurm_step(step);
    return error.kind() == ErrorKind::kInvalidArgument ? kExitUsage : 1;
  }
  for (const std::string& line : remarks_on(options, plan)) say(line);
  if (options.output.dry_run) {
    const Meeting meeting = supposed_meeting(plan);
    show(options.output.json ? plan_as_json(options.settings, plan, meeting)
                             : printable(plan_as_table(options.settings, plan, meeting)));
    return 0;
  }
  if (options.output.verbose)
    fmt::print(stderr, "{}", printable(plan_in_short(options.settings, plan)));
  for (const std::string& line : shared_gpus(plan)) say(line);
  Program& program = plan.program;
  if (program.exit_code == 0) {
    try {
      plan.serves_pmi = is_to_serve_pmi(options, program);
    } catch (const Error& error) {
      program.exit_code = kExitUsage;
      program.error = error.what();
    }
  }
  if (program.exit_code != 0) {
    // The other nodes may be able to start their ranks, and wait for this node.
    const bool has_others = plan.job.nnodes > 1;
    say(program.error + (has_others ? "; the other nodes are told so when they have joined" : ""));
    if (!has_others) return program.exit_code;
  }
  // One node's request is enough for all.
  if (plan.node_rank == 0) options.end.preempt_at = time_of_preemption(options);
  for (const std::string& line : plan.bindings_drawn) say(line);
  const int ranks = plan.local_world_size();
  const rlimit open_files = raise_descriptor_limit(
      descriptors_for(ranks, !options.output.log_dir.empty()), ranks, kHighestRankFd);
  JobSignals::hold();
  StartHere starter(plan, start_warden({program.path, plan.job.program, open_files}, {argc, argv}));
  if (key) key->serve();
  Front front(options, starter);
  return front.run();
}

}  // namespace
}  // namespace dl::launcher

int main(int argc, char** argv) {
  dl::open_missing_standard_streams();
  std::string step;
  try {
    dl::launcher::JobSignals::hold_what_ends_nothing();
    const int code = dl::launcher::run(argc, argv, step);
    if (std::fflush(stdout) == 0) return code;
    fmt::print(stderr, "dlrun: write to standard output: {}\n", std::strerror(errno));
    return code == 0 ? 1 : code;
  } catch (const std::exception& error) {
    dl::launcher::say(dl::text_with_limits(error));
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
