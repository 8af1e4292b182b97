#include "launcher/cli/given.h"

#include <string>

namespace dl::launcher {

std::vector<Setting> Given::settings() const {
  std::vector<Setting> settings;
  for (const OptionRow& row : option_table()) {
    bool is_given = false;
    for (const Typed& typed : all_) {
      if (typed.row != &row) continue;
      is_given = true;
      settings.push_back({.option = std::string(row.name),
                          .value = row.is_flag() ? "on" : typed.value,
                          .by = typed.variable.empty() ? SetBy::kLine : SetBy::kVariable,
                          .variable = std::string(typed.variable)});
    }
    if (is_given || row.fallback.empty()) continue;
    settings.push_back({.option = std::string(row.name),
                        .value = std::string(row.fallback),
                        .by = SetBy::kDefault,
                        .variable = ""});
  }
  return settings;
}

}  // namespace dl::launcher
