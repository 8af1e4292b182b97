// The command line of a soak: numbers, by position.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>

#include "core/base/text/number.h"

namespace dl::tests {

class SoakArguments {
 public:
  // `usage`: "soak SECONDS [SEED [BACKEND]]".
  SoakArguments(int argc, char** argv, const char* usage)
      : words_(argv, argv + argc), usage_(usage) {}

  bool has(std::size_t i) const { return i < words_.size(); }
  const char* text(std::size_t i) const { return words_[i]; }
  // Ends the program with the usage and 2 if the i-th word is missing or no number from `least`.
  std::uint64_t number(std::size_t i, std::uint64_t least = 0) const {
    const auto value =
        has(i) ? read_number<std::uint64_t>(words_[i]) : std::optional<std::uint64_t>();
    if (!value || *value < least) end();
    return *value;
  }
  std::uint64_t number_or(std::size_t i, std::uint64_t otherwise) const {
    return has(i) ? number(i) : otherwise;
  }
  int seconds() const {
    const std::uint64_t seconds = number(1, 1);
    if (seconds > 1'000'000'000) end();
    return static_cast<int>(seconds);
  }
  [[noreturn]] void end() const {
    std::fprintf(stderr, "usage: %s\n", usage_);
    std::exit(2);
  }

 private:
  std::span<char*> words_;
  const char* usage_;
};

}  // namespace dl::tests
