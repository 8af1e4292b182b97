// dlbench: times dlrun's collectives as nccl-tests does. It also runs under nccl-tests' program
// names.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "collectives/bench/measure/options.h"
#include "collectives/bench/planner.h"
#include "collectives/bench/run.h"
#include "collectives/init/init.h"
#include "collectives/init/launch.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/output.h"

namespace dl::collectives::bench {
namespace {

std::vector<std::unique_ptr<Report>> make_reports(const Options& o) {
  std::vector<std::unique_ptr<Report>> reports;
  reports.push_back(o.format == Format::kJson  ? make_json_lines(stdout)
                    : o.format == Format::kCsv ? make_csv(stdout)
                                               : make_table(stdout));
  if (!o.output_file.empty()) reports.push_back(make_file_report(o.output_file));
  return reports;
}

int nodes_of(const Options& options) {
  if (options.nodes > 0) return options.nodes;
  return static_cast<int>(env::get_int(env::Var::kGroupWorldSize).value_or(1));
}

// Makes no group, so that it can explain a job of any size on any machine. Rank 0 prints.
int explain_job(const Options& options, const Launch& launch, int ranks) {
  if (launch.rank != 0) return 0;
  explain(options, find_plan(options.plan, options.algorithm),
          {.ranks = ranks, .nodes = nodes_of(options)});
  return 0;
}

int bench(const Options& options, const std::vector<std::string>& command) {
  // Open the GPU before the ranks meet: without one nothing else matters.
  const std::unique_ptr<Gpu> gpu = options.on_gpu() ? open_gpu(options.device) : nullptr;
  // Shared memory has no algorithms to choose from, so it needs no tuning.
  init_process_group(
      {.backend = options.tune && options.backend == "auto" ? "tcp" : options.backend,
       .timeout = options.timeout,
       .plan = options.plan,
       .algorithm = options.algorithm});
  int code = 1;
  if (options.tune) {
    code = tune(*default_group(), options, nodes_of(options));
  } else {
    const Ref<ProcessGroup> group = default_group();
    std::vector<std::unique_ptr<Report>> reports;
    if (group->rank() == 0) reports = make_reports(options);
    code = run(*group, options, command, reports, {.gpu = gpu.get()});
  }
  destroy_process_group();
  return code;
}

int run_as_told(const Options& options, const std::vector<std::string>& command) {
  const Launch launch = find_launch(std::nullopt, std::nullopt);
  const int ranks = options.ranks > 0 ? options.ranks : launch.world_size;
  try {
    check_for_ranks(options, ranks, nodes_of(options));
  } catch (const Error& error) {
    dl::write_error(fmt::format("{}: {}\n", options.program, error.what()));
    return 2;
  }
  return options.explain ? explain_job(options, launch, ranks) : bench(options, command);
}

}  // namespace
}  // namespace dl::collectives::bench

int main(int argc, char** argv) {
  dl::collectives::bench::Options options;
  if (const auto end = dl::collectives::bench::parse(argc, argv, options)) return *end;
  try {
    const int code = dl::collectives::bench::run_as_told(options, {argv, argv + argc});
    dl::require_written(stdout, "standard output");
    return code;
  } catch (const std::bad_alloc&) {
    dl::write_error("error: out of memory; choose a smaller -e, -m or -n\n");
  } catch (const std::system_error& error) {  // no thread could be made
    dl::write_error(fmt::format("error: {}\n", dl::text_with_limits(error)));
  }
  std::fflush(stderr);
  ::_exit(1);  // cleaning up could wait for other ranks
}
