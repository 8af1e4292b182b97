// IntPair: a size in both directions of an image.
//
// It remembers whether it was given as one number or as {height, width}, because PyTorch prints
// some modules' arguments as they were given.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace dl::nn {

struct IntPair {
  constexpr IntPair(std::int64_t both) noexcept  // NOLINT(google-explicit-constructor)
      : h(both), w(both), one_number(true) {}
  constexpr IntPair(std::int64_t height, std::int64_t width) noexcept : h(height), w(width) {}

  // "(3, 3)"
  std::string tuple() const { return fmt::format("({}, {})", h, w); }
  // "3" where one number was given.
  std::string as_given() const { return one_number ? fmt::format("{}", h) : tuple(); }
  constexpr bool is(std::int64_t both) const noexcept { return h == both && w == both; }

  std::int64_t h;
  std::int64_t w;
  bool one_number = false;
};

}  // namespace dl::nn
