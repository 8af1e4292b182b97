#include "launcher/remote/node_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/plan/apps.h"

namespace dl::launcher::remote {

std::vector<std::string> node_line(const Options& options, const JobPlan& plan, int node) {
  const int slots = plan.hosts[static_cast<std::size_t>(node)].slots;
  std::vector<std::string> line = {"--nnodes",
                                   std::to_string(plan.nnodes),
                                   "--node-rank",
                                   std::to_string(node),
                                   "--nproc-per-node",
                                   slots > 0 ? std::to_string(slots) : options.job.nproc_per_node,
                                   "--rdzv-id=" + plan.name};
  for (const OptionRow& row : option_table()) {
    const std::string value = row.pass == nullptr ? "" : row.pass(options);
    if (value.empty()) continue;
    // A value may look like an option.
    line.push_back(row.is_flag() ? std::string(row.name) : fmt::format("{}={}", row.name, value));
  }
  line.emplace_back("--no-python");  // programs have their interpreters by now
  return line;
}

std::vector<std::vector<std::string>> program_lines(const std::vector<App>& apps) {
  std::vector<std::vector<std::string>> lines;
  const std::vector<Exported> common = common_exports(apps);
  for (const App& app : apps) {
    std::vector<std::string>& line = lines.emplace_back();
    if (app.np) line.push_back(fmt::format("--np={}", *app.np));
    if (!common_wdir(apps)) line.push_back("--wdir=" + absolute_wdir(app.wdir));
    for (const Exported& variable : app.exports) {
      if (std::ranges::find(common, variable) != common.end()) continue;
      line.insert(line.end(), {"-x", entry_of(variable)});
    }
    line.emplace_back("--");
    line.insert(line.end(), app.program.begin(), app.program.end());
  }
  return lines;
}

std::vector<int> programs_on(const JobPlan& plan, int node) {
  if (plan.started.apps.size() == 1) return {0};  // the host may count its ranks itself
  const std::vector<std::vector<int>> ranks = plan.ranks_of_hosts();
  std::vector<int> programs;
  for (const int rank : ranks[static_cast<std::size_t>(node)]) {
    const int app = static_cast<int>(plan.started.app_of(rank));
    if (programs.empty() || programs.back() != app) programs.push_back(app);
  }
  return programs;
}

std::string entry_of(const Exported& variable) {
  std::string value;
  if (variable.value) {
    value = *variable.value;
  } else {
    // A name that the user chose, which no table has.
    const char* const own = std::getenv(variable.name.c_str());
    DL_CHECK(own != nullptr, kInvalidArgument, "-x {}: it is not set here; give -x {}=VALUE",
             variable.name, variable.name);
    value = own;
  }
  return fmt::format("{}={}", variable.name, value);
}

}  // namespace dl::launcher::remote
