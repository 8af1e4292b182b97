// The values of options from a line and from the variables.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/cli/table/option_table.h"

namespace dl::launcher {

// By row of the table; the line's values come first.
class Given {
 public:
  // Replaces an earlier value, unless all occurrences count.
  void add(Typed typed) {
    if (!typed.row->repeats)
      std::erase_if(all_, [&](const Typed& t) { return t.row == typed.row; });
    all_.push_back(std::move(typed));
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Typed* find(std::string_view name) const {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [&](const Typed& typed) { return typed.row->name == name; });
    return found == all_.end() ? nullptr : &*found;
  }
  // Whether another option is given that is the same setting.
  bool overrides(std::string_view name) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const Typed& typed) { return typed.row->overrides == name; });
  }
  // Reads every option in the order of the table.
  void read_into(Options& options) const {
    for (const OptionRow& row : option_table()) {
      for (const Typed& typed : all_) {
        if (typed.row == &row) row.read(options, typed);
      }
    }
  }
  std::vector<Setting> settings() const;  // in the order of the table
  const std::vector<Typed>& all() const { return all_; }

 private:
  std::vector<Typed> all_;
};

// These settings and the defaults that are in force in `options`, which were read from them and
// checked. `several`: the job has several nodes, started by dlrun or by the user.
std::vector<Setting> settings_in_force(const Given& given, const Options& options, bool several);

}  // namespace dl::launcher
