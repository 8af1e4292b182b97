#include "launcher/cli/read/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "launcher/cli/table/option_table.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher {
namespace {

// --nproc_per_node: --nproc-per-node
std::string with_dashes(std::string_view name) {
  std::string text(name);
  if (text.starts_with("--")) std::replace(text.begin() + 2, text.end(), '_', '-');
  return text;
}

const OptionRow* row_of(std::string_view name) {
  for (const OptionRow& row : option_table()) {
    if (row.name == name || read::has_word(row.also, name)) return &row;
  }
  return nullptr;
}

const OptionRow* row_of_letter(char letter) {
  for (const OptionRow& row : option_table()) {
    if (letter != 0 && row.letter == letter) return &row;
    if (row.name.size() == 2 && row.name[1] == letter) return &row;
  }
  return nullptr;
}

std::vector<const OptionRow*> rows_that_begin(std::string_view begin, bool torchruns_only) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_table()) {
    if (torchruns_only && row.origin != Origin::kTorchrun) continue;
    if (row.name.starts_with(begin)) rows.push_back(&row);
  }
  return rows;
}

// "-x" and "--bogus" without their values.
[[noreturn]] void refuse_unknown(std::string_view typed) {
  throw_error(ErrorKind::kInvalidArgument, "there is no option {}; `dlrun --help` lists them all",
              typed);
}

// An abbreviation that is clear among torchrun's options means what it means to torchrun.
const OptionRow& row_that_begins(std::string_view typed, const std::string& begin) {
  for (const bool torchruns_only : {true, false}) {
    const std::vector<const OptionRow*> rows = rows_that_begin(begin, torchruns_only);
    if (rows.size() == 1) return *rows.front();
    if (rows.empty()) continue;
    std::vector<std::string_view> names;
    for (const OptionRow* row : rows_that_begin(begin, false)) {
      if (row->group != Group::kRefused) names.push_back(row->name);
    }
    if (names.empty()) return *rows.front();  // it is refused by its name
    throw_error(ErrorKind::kInvalidArgument, "{} may be {}; write more of it", typed,
                fmt::join(names, ", "));
  }
  refuse_unknown(typed);
}

// Negative numbers and words with a blank are values, as for torchrun.
bool looks_like_an_option(const std::string& word) {
  if (word.size() < 2 || word.front() != '-') return false;
  const std::string name = with_dashes(word.substr(0, word.find('=')));
  if (row_of(name) != nullptr || why_refused(name)) return true;
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  if (std::all_of(word.begin() + 1, word.end(), [&](char c) { return is_digit(c) || c == '.'; })) {
    return false;
  }
  return word.find(' ') == std::string::npos;
}

class Speller {
 public:
  explicit Speller(const std::vector<std::string>& words) : words_(words) {}

  // The words up to the next lone colon. `colon_is_word`: all words.
  SpelledOut next(bool colon_is_word) {
    out_ = {};
    while (at_ < words_.size() && !done_) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        colon_is_word = true;
        break;
      }
      if (!word.starts_with('-') || word == "-") break;
      ++at_;
      take(word);
    }
    has_more_ = false;
    while (at_ < words_.size() && !done_ && !has_more_) {
      const std::string& word = words_[at_++];
      has_more_ = word == ":" && !colon_is_word;
      if (!has_more_) out_.program.push_back(word);
    }
    return std::move(out_);
  }
  // Whether the last one ended at a colon.
  bool has_more() const { return has_more_; }

 private:
  void take(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string typed = word.substr(0, equals);
    const std::string name = with_dashes(typed);
    const std::string* value = nullptr;
    std::string behind;
    if (equals != std::string::npos) {
      behind = word.substr(equals + 1);
      value = &behind;
    }
    if (const OptionRow* row = row_of(name)) {
      add(*row, value);
    } else if (const std::optional<std::string> why = why_refused(name)) {
      throw_error(ErrorKind::kInvalidArgument, "{}", *why);
    } else if (name.starts_with("--")) {
      add(row_that_begins(typed, name), value);
    } else {
      take_letters(word);
    }
  }

  // -t 3, -t3, -t=3, -mt3: letters of options without a value, then one that may have one.
  void take_letters(const std::string& word) {
    const std::string whole = word.substr(0, word.find('='));
    if (whole.size() > 2 && row_of(with_dashes("-" + whole)) != nullptr) {
      throw_error(ErrorKind::kInvalidArgument, "{0} is written -{0} here", whole);
    }
    std::string_view letters = std::string_view(word).substr(1);
    while (!letters.empty()) {
      const std::string typed = fmt::format("-{}", letters.front());
      const OptionRow* const row = row_of_letter(letters.front());
      if (row == nullptr) {
        if (const std::optional<std::string> why = why_refused(typed)) {
          throw_error(ErrorKind::kInvalidArgument, "{}", *why);
        }
        refuse_unknown(letters.size() + 1 == word.size() ? std::string_view(word) : typed);
      }
      letters.remove_prefix(1);
      if (row->is_flag() && !letters.starts_with('=')) {
        add(*row, nullptr);
        continue;
      }
      if (letters.empty()) {
        add(*row, nullptr);
      } else {
        const std::string value(letters.substr(letters.starts_with('=') ? 1 : 0));
        add(*row, &value);
      }
      return;
    }
  }

  // `value`: behind a `=`; null: the next word, if the option takes one.
  void add(const OptionRow& row, const std::string* value) {
    if (row.group == Group::kRefused) {
      throw_error(ErrorKind::kInvalidArgument, "{} of torchrun is not supported: {}", row.name,
                  row.about);
    }
    done_ = row.group == Group::kInformation;
    if (row.is_flag()) {
      DL_CHECK(value == nullptr, kInvalidArgument, "{} takes no value", row.name);
      out_.options.push_back({&row, "", ""});
      return;
    }
    if (value == nullptr) {
      DL_CHECK(at_ < words_.size(), kInvalidArgument, "{} needs a value: {}", row.name, row.value);
      value = &words_[at_++];
      DL_CHECK(!looks_like_an_option(*value), kInvalidArgument, "{} needs a value, {}, and `{}` {}",
               row.name, row.value, *value,
               read::takes_words_only(row)
                   ? std::string("is an option")
                   : fmt::format("looks like an option; if it is the value, write `{}={}`",
                                 row.name, *value));
    }
    DL_CHECK(!value->empty(), kInvalidArgument, "{} has an empty value, wanted {}; or leave it out",
             row.name, row.value);
    Typed typed{&row, *value, ""};
    // If the value was forgotten, the program stands in its place, and what follows is not meant
    // for dlrun.
    if (read::takes_words_only(row) && row.group != Group::kInformation) {
      Options only;
      row.read(only, typed);
    }
    out_.options.push_back(std::move(typed));
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  bool done_ = false;
  bool has_more_ = false;
  SpelledOut out_;
};

}  // namespace

std::vector<SpelledOut> spell_out(const std::vector<std::string>& words) {
  Speller speller(words);
  std::vector<SpelledOut> all;
  do {
    all.push_back(speller.next(/*colon_is_word=*/false));
  } while (speller.has_more());
  return all;
}

SpelledOut spell_out_one(const std::vector<std::string>& words) {
  return Speller(words).next(/*colon_is_word=*/true);
}

}  // namespace dl::launcher
