// Chapter 11: ranks on several machines. Each machine first trains alone, then all train together.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "collectives/call/identity.h"
#include "collectives/compose/objects.h"
#include "collectives/init/init.h"
#include "collectives/init/spawn.h"
#include "core/base/env.h"
#include "core/device/parallel.h"
#include "examples/book/chapters.h"
#include "examples/book/ranks/group_run.h"

namespace dl::examples::book {
namespace {

using collectives::ProcessGroup;

constexpr int kImitatedMachines = 2;
constexpr int kRanksOfMachine = 2;

// Prints table 11.1 on rank 0, and returns the number of machines.
int show_places(ProcessGroup& all, ProcessGroup& machine, const Options& options) {
  const std::string first_rank =
      collectives::broadcast_bytes(machine, std::to_string(all.rank()), 0);
  const std::vector<std::string> machine_of = collectives::all_gather_bytes(all, first_rank);
  const std::vector<std::string> lines = collectives::all_gather_bytes(
      all, fmt::format("{:>10}  {} on {}", machine.rank(), with_options({}, options).device.str(),
                       all.identity(all.rank()).host));
  std::vector<std::string> machines;  // by their first rank
  if (all.rank() == 0 && !options.json) {
    fmt::print("{:>5} {:>8} {:>10}  device\n", "rank", "machine", "local rank");
  }
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const auto known = std::ranges::find(machines, machine_of[rank]);
    const auto number = known - machines.begin() + 1;
    if (known == machines.end()) machines.push_back(machine_of[rank]);
    if (all.rank() != 0 || options.json) continue;
    fmt::print("{:>5} {:>8} {}\n", rank, number, lines[rank]);
  }
  std::fflush(stdout);
  return static_cast<int>(machines.size());
}

void train_on_machines(const Options& options, const Recipe& chapter) {
  const Ref<ProcessGroup> all = default_group();
  const Ref<ProcessGroup> machine = split_by_node(*all);
  const int machines = show_places(*all, *machine, options);
  std::vector<std::pair<int, Ref<ProcessGroup>>> groups = {{1, machine}};
  if (machines > 1) groups.emplace_back(machines, all);
  const bool is_first = all->rank() == 0;
  if (machines == 1 && is_first && !options.json) fmt::print("All ranks are on one machine.\n");

  const Subject subject = load_subject(options);
  RunPlots plots;
  bool is_first_row = true;
  for (const std::string& batches : options.batches) {
    plots.begin_line(batches);
    for (const auto& [count, group] : groups) {
      const GroupRun run = train_seeds(group, subject, options, chapter, batches);
      if (!is_first) continue;
      print_run(options, run, {{"machines", std::to_string(count)}, {"kind", batches}},
                std::exchange(is_first_row, false));
      plots.add(count, run);
    }
  }
  if (is_first && !options.plot.empty()) plots.write("machines", options.plot);
}

}  // namespace

void chapter11(const Options& given) {
  Options options = with_defaults_of_ranks(given);
  if (options.batches.empty()) options.batches = {"growing"};
  const Recipe chapter = recipe_of_gpus(options);
  if (is_launched_rank()) {
    init_process_group();
    train_on_machines(options, chapter);
    destroy_process_group();
    return;
  }
  const int each = options.ranks > 0 ? options.ranks : kRanksOfMachine;
  const int ranks = kImitatedMachines * each;
  check_batches(options, chapter, ranks);
  if (!is_spawned() && !options.json) {
    fmt::print(
        "Chapter 11 is for several machines: start it by `dlrun --hosts machine1:8,machine2:8 book "
        "11`, by mpirun, or in a job of SLURM.\nHere {} machines of {} rank{} are imitated, which "
        "talk to each other over TCP.\n",
        kImitatedMachines, each, each == 1 ? "" : "s");
  }
  spawn(
      [&](int rank) {
        env::set(std::string(env::name_of(env::Var::kNodeId)),
                 fmt::format("machine{}", rank / each + 1));
        set_num_threads(std::max(1, cores_for_ranks(options) / ranks));
        init_process_group();
        train_on_machines(options, chapter);
        destroy_process_group();
      },
      ranks);
}

}  // namespace dl::examples::book
