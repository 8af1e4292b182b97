// The programs of a line, each with the options that belong to it alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/given.h"
#include "launcher/cli/options.h"
#include "launcher/cli/read/words.h"

namespace dl::launcher {

// `first`: the options of the whole line; the first program's own ones are read into
// `options.job.apps` already. Throws kInvalidArgument, as all functions here do.
void read_apps(const Given& first, std::vector<SpelledOut> lines, Options& options);
// The programs of a file. -x and --wdir of the line count for each, unless it has its own.
void read_app_file(const Given& line, const std::string& path, Options& options);
// Adds a program. Flags of `line` (--module, --no-python, --run-path) count for it, too. `place`:
// for errors, "job.app:3"; empty: it stands behind a `:`.
void add_app(const Given& line, SpelledOut words, std::string_view place, Options& options);

// Empty if there is one program, without a number. Throws if one of several has none.
std::optional<int> ranks_of_all(const std::vector<App>& apps);

}  // namespace dl::launcher
