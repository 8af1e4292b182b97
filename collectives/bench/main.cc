// dlbench: nccl-tests for dlrun's groups, also under the names of its programs.
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/bench/options.h"
#include "collectives/bench/run.h"
#include "collectives/init.h"

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

int bench(const Options& options, const std::vector<std::string>& command) {
  init_process_group({.backend = options.backend, .timeout = options.timeout});
  int code = 1;
  {
    const Ref<ProcessGroup> group = default_group();
    std::vector<std::unique_ptr<Report>> reports;
    if (group->rank() == 0) reports = make_reports(options);
    code = run(*group, options, command, reports);
  }
  destroy_process_group();
  return code;
}

}  // namespace
}  // namespace dl::collectives::bench

int main(int argc, char** argv) {
  dl::collectives::bench::Options options;
  if (const auto end = dl::collectives::bench::parse(argc, argv, options)) return *end;
  return dl::collectives::bench::bench(options, {argv, argv + argc});
}
