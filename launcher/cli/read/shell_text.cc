#include "launcher/cli/read/shell_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/base/error.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher::read {
namespace {

// More than a command line may have.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kMostWord = std::size_t{128} << 10;  // MAX_ARG_STRLEN of Linux

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  if (file.is_open()) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  DL_CHECK(file.is_open() && !file.bad(), kInvalidArgument, "--app {}: {}", path,
           std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  DL_CHECK(text.size() <= kMostBytes, kInvalidArgument, "--app {} has more than {} MiB", path,
           kMostBytes >> 20);
  return text;
}

}  // namespace

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

std::vector<AppLine> app_file(const std::string& path) {
  std::vector<AppLine> lines;
  int number = 0;
  for (const std::string& line : split(text_of_file(path), '\n')) {
    AppLine found{.place = fmt::format("{}:{}", path, ++number), .words = {}};
    DL_CHECK(line.find('\0') == std::string::npos, kInvalidArgument,
             "{} has a byte 0, and is no text", found.place);
    found.words = shell_words(found.place, trimmed(line));
    for (const std::string& word : found.words) {
      DL_CHECK(word.size() < kMostWord, kInvalidArgument,
               "{}: a word has {} bytes, and Linux takes less than {}", found.place, word.size(),
               kMostWord);
    }
    if (!found.words.empty()) lines.push_back(std::move(found));
  }
  DL_CHECK(!lines.empty(), kInvalidArgument, "--app {} names no program", path);
  return lines;
}

}  // namespace dl::launcher::read
