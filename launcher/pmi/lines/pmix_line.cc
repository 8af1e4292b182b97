#include "launcher/pmi/lines/pmix_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace dl::launcher {
namespace {

// By kind.
constexpr std::array<std::string_view, 8> kWords = {"environment", "ready", "connected", "ended",
                                                    "finalized",   "abort", "note",      "failed"};

// Removes the first word of `rest`, and the blank behind it.
std::string_view take_word(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

std::optional<int> take_int(std::string_view& rest) {
  const std::string_view word = take_word(rest);
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string text_of(const PmixLine& line) {
  std::string text = line.text;
  std::ranges::replace(text, '\n', ' ');
  return fmt::format("{} {} {} {}\n", kWords.at(static_cast<std::size_t>(line.kind)), line.rank,
                     line.code, text);
}

std::optional<PmixLine> parse_pmix_line(std::string_view line) {
  const auto* const word = std::ranges::find(kWords, take_word(line));
  if (word == kWords.end()) return std::nullopt;
  const std::optional<int> rank = take_int(line);
  const std::optional<int> code = take_int(line);
  if (!rank || !code) return std::nullopt;
  return PmixLine{static_cast<PmixLine::Kind>(word - kWords.begin()), *rank, *code,
                  std::string(line)};
}

}  // namespace dl::launcher
