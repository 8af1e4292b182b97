#include "launcher/cli/table/option_variables.h"

#include <fmt/format.h>

#include "core/base/env.h"
#include "core/base/error.h"

namespace dl::launcher {
namespace {

std::optional<env::Var> variable_of(const OptionRow& row) {
  for (const std::optional<env::Var> variable : {row.variable, row.other_variable}) {
    if (variable && env::get(*variable)) return variable;
  }
  return std::nullopt;
}

bool is_on(env::Var variable) {
  const std::int64_t value = env::get_int(variable).value_or(0);
  DL_CHECK(value == 0 || value == 1, kInvalidArgument, "{} is `{}`, wanted 0 or 1",
           env::name_of(variable), value);
  return value == 1;
}

}  // namespace

FoundVariables option_variables() {
  FoundVariables found;
  for (const OptionRow& row : option_table()) {
    const std::optional<env::Var> variable = variable_of(row);
    if (!variable) continue;
    if (row.group == Group::kRefused) {
      found.remarks.push_back(
          fmt::format("{} of torchrun is not used: {}", env::name_of(*variable), row.about));
    } else if (!row.is_flag()) {
      found.options.push_back({&row, *env::get(*variable), env::name_of(*variable)});
    } else if (is_on(*variable)) {
      found.options.push_back({&row, "", env::name_of(*variable)});
    }
  }
  return found;
}

}  // namespace dl::launcher
