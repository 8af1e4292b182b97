#include "nn/text/pre_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/text/utf8.h"

namespace dl::text {
namespace {

enum class Kind : std::uint8_t { kLetter, kNumber, kSpace, kOther };

struct Character {
  Kind kind;
  std::size_t bytes;
};

// Unicode's property White_Space, which is more than the category Z: tabs and line ends are
// controls.
bool is_white_space(std::int32_t point, utf8proc_category_t category) noexcept {
  constexpr std::int32_t kNextLine = 0x85;
  return (point >= '\t' && point <= '\r') || point == kNextLine ||
         category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

Kind kind_of(std::int32_t point) noexcept {
  const utf8proc_category_t category = utf8proc_category(point);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Kind::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Kind::kNumber;
  return is_white_space(point, category) ? Kind::kSpace : Kind::kOther;
}

Character character_at(std::string_view text, std::size_t i) noexcept {
  const std::size_t bytes = utf8_length(text, i);
  if (bytes == 0) return {Kind::kOther, 1};
  std::int32_t point = 0;
  utf8proc_iterate(reinterpret_cast<const std::uint8_t*>(text.data()) + i,
                   static_cast<utf8proc_ssize_t>(bytes), &point);
  return {kind_of(point), bytes};
}

// The end of the characters of `kind` from `i` on, and the begin of the last one.
struct Run {
  std::size_t end;
  std::size_t last;
};

Run run_of(std::string_view text, std::size_t i, Kind kind) noexcept {
  Run run{i, i};
  while (run.end < text.size()) {
    const Character next = character_at(text, run.end);
    if (next.kind != kind) break;
    run.last = run.end;
    run.end += next.bytes;
  }
  return run;
}

}  // namespace

std::size_t gpt2_word_length(std::string_view text, std::size_t begin) noexcept {
  constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t",  "'re", "'ve",
                                                             "'m", "'ll", "'d"};
  const std::string_view rest = text.substr(begin);
  const auto* const contraction = std::ranges::find_if(
      kContractions, [rest](std::string_view suffix) { return rest.starts_with(suffix); });
  if (contraction != kContractions.end()) return contraction->size();

  const std::size_t after_space = begin + (rest.starts_with(' ') ? 1 : 0);
  if (after_space < text.size()) {
    const Kind kind = character_at(text, after_space).kind;
    if (kind != Kind::kSpace) return run_of(text, after_space, kind).end - begin;
  }
  // The last white space before a word is left to that word.
  const Run spaces = run_of(text, begin, Kind::kSpace);
  const bool word_follows = spaces.end < text.size();
  return (word_follows && spaces.last > begin ? spaces.last : spaces.end) - begin;
}

}  // namespace dl::text
