#include "launcher/cli/given.h"

#include <string>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

// Whether the job would be the same if the user had typed the default.
bool is_in_force(const OptionRow& row, const Options& options, bool several) {
  if (row.fallback.empty() || (row.applies != nullptr && !row.applies(options, several))) {
    return false;
  }
  Options typed = options;
  try {
    row.read(typed, {&row, std::string(row.fallback), ""});
  } catch (const Error&) {
    return false;  // the line lacks what the option is about
  }
  return typed == options;
}

void add_settings_of(const OptionRow& row, const std::vector<Typed>& all,
                     std::vector<Setting>& settings) {
  for (const Typed& typed : all) {
    if (typed.row != &row) continue;
    settings.push_back({.option = std::string(row.name),
                        .value = row.is_flag() ? "on" : typed.value,
                        .by = typed.variable.empty() ? SetBy::kLine : SetBy::kVariable,
                        .variable = std::string(typed.variable)});
  }
}

}  // namespace

std::vector<Setting> Given::settings() const {
  std::vector<Setting> settings;
  for (const OptionRow& row : option_table()) add_settings_of(row, all_, settings);
  return settings;
}

std::vector<Setting> settings_in_force(const Given& given, const Options& options, bool several) {
  std::vector<Setting> settings;
  for (const OptionRow& row : option_table()) {
    const std::size_t before = settings.size();
    add_settings_of(row, given.all(), settings);
    if (settings.size() > before || !is_in_force(row, options, several)) continue;
    settings.push_back({.option = std::string(row.name),
                        .value = std::string(row.fallback),
                        .by = SetBy::kDefault});
  }
  return settings;
}

}  // namespace dl::launcher
