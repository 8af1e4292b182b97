#include "launcher/cli/read/apps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "core/base/error.h"
#include "launcher/cli/python.h"
#include "launcher/cli/read/shell_text.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

std::string options_of_apps() {
  std::vector<std::string> names;
  for (const OptionRow& row : option_table()) {
    if (!row.is_of_app) continue;
    names.push_back(row.letter != 0 ? fmt::format("-{}", row.letter) : std::string(row.name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Sets the program of the last App.
void set_program(const PythonChoice& choice, std::vector<std::string> words, Options& options) {
  DL_CHECK(!words.empty(), kInvalidArgument,
           "no program stands on one side of a `:`, which divides the programs of a line; if it is "
           "a word of the program's own, write `--` before the program");
  DL_CHECK(!words.front().empty(), kInvalidArgument, "no program given; `dlrun --help` shows how");
  DL_CHECK(words.front() != "-", kInvalidArgument,
           "there is no option -; `dlrun --help` lists them all");
  ProgramLine line = program_line(std::move(words), choice);
  App& app = options.job.apps.back();
  app.program = std::move(line.words);
  app.script = std::move(line.script);
}

// `has`: whether a flag is given.
template <typename Has>
PythonChoice choice_of(const Has& has) {
  return {
      .module = has("--module"), .no_python = has("--no-python"), .run_path = has("--run-path")};
}

// torchrun's variables count for every program.
Given variables_in(const Given& given) {
  Given variables;
  for (const Typed& typed : given.all()) {
    if (!typed.variable.empty()) variables.add(typed);
  }
  return variables;
}

}  // namespace

void add_app(const Given& line, SpelledOut words, std::string_view place, Options& options) {
  Given own;
  for (Typed& typed : words.options) {
    DL_CHECK(typed.row->is_of_app, kInvalidArgument,
             "{} is for the whole job: write it {}; {} may stand {}", typed.row->name,
             place.empty() ? "before the first program" : "on dlrun's own line", options_of_apps(),
             place.empty() ? "behind `:`" : "here");
    own.add(std::move(typed));
  }
  own.read_into(options);
  for (Setting& setting : own.settings()) {
    if (setting.by != SetBy::kLine) continue;
    setting.place = place;
    setting.program = options.job.apps.size() - 1;
    options.settings.push_back(std::move(setting));
  }
  set_program(choice_of([&](std::string_view flag) { return own.has(flag) || line.has(flag); }),
              std::move(words.program), options);
}

void read_apps(const Given& first, std::vector<SpelledOut> lines, Options& options) {
  set_program(choice_of([&](std::string_view flag) { return first.has(flag); }),
              std::move(lines.front().program), options);
  const Given variables = variables_in(first);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    options.job.apps.emplace_back();
    add_app(variables, std::move(lines[i]), "", options);
  }
}

void read_app_file(const Given& line, const std::string& path, Options& options) {
  const App common = options.job.apps.front();
  DL_CHECK(!common.np, kInvalidArgument,
           "--np is {}, and each program of --app {} has its own number; leave one of them out",
           common.np.value_or(0), path);
  options.job.apps.clear();
  for (const read::AppLine& found : read::app_file(path)) {
    options.job.apps.push_back(common);
    try {
      add_app(line, spell_out_one(found.words), found.place, options);
    } catch (const Error& error) {
      throw_error(ErrorKind::kInvalidArgument, "{}: {}", found.place, error.what());
    }
  }
}

std::optional<int> ranks_of_all(const std::vector<App>& apps) {
  if (apps.size() == 1) return apps.front().np;
  std::int64_t all = 0;
  for (const App& app : apps) {
    DL_CHECK(app.np.has_value(), kInvalidArgument,
             "the job has {} programs, and `{}` has no number of ranks: write -n N before it",
             apps.size(), app.program.front());
    all += *app.np;
  }
  DL_CHECK(all <= read::kMost, kInvalidArgument, "the programs have {} ranks, wanted at most {}",
           all, read::kMost);
  return static_cast<int>(all);
}

}  // namespace dl::launcher
