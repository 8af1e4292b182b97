#include "launcher/plan/apps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"

namespace dl::launcher {

std::vector<Exported> common_exports(const std::vector<App>& apps) {
  std::vector<Exported> common = apps.front().exports;
  std::erase_if(common, [&](const Exported& variable) {
    return !std::ranges::all_of(apps, [&](const App& app) {
      return std::ranges::find(app.exports, variable) != app.exports.end();
    });
  });
  return common;
}

std::optional<std::string> common_wdir(const std::vector<App>& apps) {
  const std::string& first = apps.front().wdir;
  const bool is_common =
      std::ranges::all_of(apps, [&](const App& app) { return app.wdir == first; });
  return is_common ? std::optional(first) : std::nullopt;
}

std::string absolute_wdir(const std::string& wdir) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) throw_errno(error.value(), "the working directory");
  return wdir.empty() ? here : (here / wdir).lexically_normal();
}

std::string ranks_of_program(const std::vector<App>& apps, std::size_t program) {
  int first = 0;
  for (std::size_t i = 0; i < program; ++i) first += apps[i].np.value_or(0);
  const int ranks = apps[program].np.value_or(0);
  return ranks == 1 ? fmt::format("rank {}", first)
                    : fmt::format("ranks {} to {}", first, first + ranks - 1);
}

std::string programs_as_text(const std::vector<App>& apps) {
  std::string text;
  std::size_t i = 0;
  for (const App& app : apps) {
    const std::string whose = apps.size() == 1 ? "" : " of " + ranks_of_program(apps, i++);
    text += fmt::format("program{}: {}\n", whose, fmt::join(app.program, " "));
  }
  return text;
}

RankPrograms programs_to_start(const NodePlan& plan, rlimit open_files) {
  RankPrograms programs{.all = {}, .open_files = open_files};
  const std::vector<App>& apps = plan.job.started.apps;
  for (std::size_t i = 0; i < apps.size(); ++i) {
    programs.all.push_back(
        {.path = plan.programs[i].path, .argv = apps[i].program, .directory = apps[i].wdir});
  }
  return programs;
}

}  // namespace dl::launcher
