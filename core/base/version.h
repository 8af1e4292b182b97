// The version of the library and of its wire protocol.
#pragma once

#include <cstdint>
#include <string_view>

namespace dl {

// CMakeLists.txt reads the version here. `./dev release` sets it, here and in deploy/'s recipes.
inline constexpr std::string_view kVersion = "0.2.0";
// Raised whenever bytes between processes change their meaning; peers with different numbers refuse
// each other by name.
inline constexpr std::uint32_t kProtocolVersion = 7;

}  // namespace dl
