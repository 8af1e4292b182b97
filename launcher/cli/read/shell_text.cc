#include "launcher/cli/read/shell_text.h"

#include "core/base/error.h"

namespace dl::launcher::read {

std::vector<std::string> shell_words(std::string_view what, std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    const bool is_blank = c == ' ' || c == '\t';
    if (quote == 0 && is_blank) {
      in_word = false;
      continue;
    }
    if (quote == 0 && c == '#' && !in_word) break;
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool is_escape =
        c == '\\' && (quote == 0 || (quote == '"' && i + 1 < text.size() &&
                                     (text[i + 1] == '"' || text[i + 1] == '\\')));
    if (is_escape) {
      DL_CHECK(++i < text.size(), kInvalidArgument, "{}: a backslash stands at the end", what);
      c = text[i];
    } else if (quote == 0 ? c == '\'' || c == '"' : c == quote) {
      quote = quote == 0 ? c : 0;
      continue;
    }
    words.back() += c;
  }
  DL_CHECK(quote == 0, kInvalidArgument, "{}: a {} is not closed", what, quote);
  return words;
}

}  // namespace dl::launcher::read
