// How entries of an optimizer's state_dict() are called.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace dl::optim {

inline constexpr std::string_view kParams = "params";
inline constexpr std::string_view kParamGroups = "param_groups";
// PyTorch reads states without it, too.
inline constexpr std::string_view kMaximize = "maximize";
// In the state only of optimizers that a scheduler has seen, as in PyTorch.
inline constexpr std::string_view kInitialLr = "initial_lr";

inline std::string state_key(std::size_t parameter, std::string_view name) {
  return fmt::format("state.{}.{}", parameter, name);
}

inline std::string option_key(std::size_t group, std::string_view name) {
  return fmt::format("{}.{}.{}", kParamGroups, group, name);
}

}  // namespace dl::optim
