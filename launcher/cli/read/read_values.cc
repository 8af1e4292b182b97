// Functions that several readers share.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/base/error.h"
#include "core/base/text/number.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher::read {

int whole_number(std::string_view name, std::string_view text, int least, int most,
                 std::string_view else_wanted) {
  const std::optional<int> value = read_number<int>(text);
  DL_CHECK(value && *value >= least && *value <= most, kInvalidArgument,
           "{} is `{}`, wanted a whole number from {} to {}{}", name, text, least, most,
           else_wanted);
  return *value;
}

std::chrono::milliseconds seconds(std::string_view name, std::string_view text) {
  const std::optional<double> value = read_number<double>(text);
  DL_CHECK(value && *value >= 0 && *value <= 1e9, kInvalidArgument,
           "{} is `{}`, wanted a number of seconds from 0 to 1000000000", name, text);
  return std::chrono::milliseconds(std::llround(*value * 1000));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> words_among(std::string_view values) {
  std::vector<std::string> words = split(values, '|');
  std::erase_if(words, [](const std::string& word) {
    return word.empty() || !std::ranges::all_of(word, [](unsigned char c) {
             return std::islower(c) != 0 || std::isdigit(c) != 0;
           });
  });
  return words;
}

bool takes_words_only(const OptionRow& row) {
  return !row.is_flag() && words_among(row.value).size() == split(row.value, '|').size();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string text_of(std::chrono::milliseconds time) {
  return fmt::format("{:.3f}", std::chrono::duration<double>(time).count());
}

void nothing(Options&, const Typed&) {}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = words.find(' ');
    if (words.substr(0, end) == word) return true;
    if (end == std::string_view::npos) return false;
    words.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace dl::launcher::read
