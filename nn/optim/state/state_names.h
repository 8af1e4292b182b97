// Names of the entries of an optimizer's state_dict().
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "nn/optim/optimizer.h"

namespace dl::optim {

inline constexpr std::string_view kParams = "params";
inline constexpr std::string_view kParamGroups = "param_groups";
inline constexpr std::string_view kMaximize = "maximize";
inline bool is_scheduler_option(std::string_view name) {
  return std::ranges::find(kSchedulerOptionNames, name) != kSchedulerOptionNames.end();
}

inline std::string state_key(std::size_t parameter, std::string_view name) {
  return fmt::format("state.{}.{}", parameter, name);
}

inline std::string option_key(std::size_t group, std::string_view name) {
  return fmt::format("{}.{}.{}", kParamGroups, group, name);
}

}  // namespace dl::optim
