#include "launcher/remote/ask/step_frames.h"

#include <fmt/core.h>

#include <optional>

#include "core/base/error.h"
#include "core/base/text/number.h"
#include "core/base/text/printable.h"

namespace dl::launcher::remote {
namespace {

constexpr std::string_view kMark = "dlrun-answer ";
// Bytes of text in a line, which escapes may double.
constexpr std::size_t kMostInLine = 450;
constexpr std::size_t kMostAnswer = 64U << 20;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\0':
        out += "\\0";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' ? '\n' : c == '0' ? '\0' : c;
  }
  return out;
}

// Removes the first word and its blank.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

// Returns the index of the question whose answer the line completes.
std::optional<std::size_t> take_frame(std::string_view line, std::vector<FramedAnswer>& answers) {
  if (!line.starts_with(kMark)) return std::nullopt;
  line.remove_prefix(kMark.size());
  const auto index = read_number<std::size_t>(take_word(line));
  if (!index || *index >= answers.size() || answers[*index].has_ended) return std::nullopt;
  FramedAnswer& answer = answers[*index];
  answer.has_begun = true;
  const std::string_view kind = take_word(line);
  if (kind == "text" && answer.text.size() <= kMostAnswer) answer.text += unescaped(line);
  if (kind != "end") return std::nullopt;
  const auto size = read_number<std::size_t>(take_word(line));
  const auto exit_code = read_number<int>(take_word(line));
  answer.has_ended = true;
  answer.exit_code = exit_code.value_or(1);
  answer.error = unescaped(line);
  if (answer.error.empty() && (size != answer.text.size() || !exit_code)) {
    answer.error = "its answer came in part only";
  }
  return index;
}

}  // namespace

std::string text_of(const StepQuestions& questions) {
  std::string text;
  const auto add = [&text](std::string_view field) { (text += field) += '\0'; };
  add(fmt::format("{}", questions.patience.count()));
  add(fmt::format("{}", questions.questions.size()));
  for (const HostQuestion& question : questions.questions) {
    add(question.host);
    add(fmt::format("{}", question.words.size()));
    for (const std::string& word : question.words) add(word);
  }
  return text;
}

StepQuestions read_step_questions(std::string_view text) {
  const auto take = [&text] {
    const std::size_t end = text.find('\0');
    DL_CHECK(end != std::string_view::npos, kParse,
             "the questions of a step of srun have no end; does srun pass on standard input?");
    std::string field(text.substr(0, end));
    text.remove_prefix(end + 1);
    return field;
  };
  const auto take_number = [&take] {
    const std::string field = take();
    const auto number = read_number<std::uint32_t>(field);
    DL_CHECK(number.has_value(), kParse,
             "the questions of a step of srun have {} instead of a number", quoted_name(field));
    return *number;
  };
  StepQuestions read{.patience = std::chrono::seconds(take_number()), .questions = {}};
  for (std::uint32_t questions = take_number(); questions > 0; --questions) {
    HostQuestion question{.host = take(), .words = {}};
    for (std::uint32_t left = take_number(); left > 0; --left) question.words.push_back(take());
    read.questions.push_back(std::move(question));
  }
  return read;
}

std::string begin_frame(std::size_t index) {
  return fmt::format("\n{}{} begin\n", kMark, index);  // not behind an unfinished line of a prolog
}

std::string answer_frames(std::size_t index, const HostAnswer& answer) {
  std::string frames;
  for (std::size_t at = 0; at < answer.text.size(); at += kMostInLine) {
    frames += fmt::format("{}{} text {}\n", kMark, index,
                          escaped(std::string_view(answer.text).substr(at, kMostInLine)));
  }
  return frames + fmt::format("{}{} end {} {} {}\n", kMark, index, answer.text.size(),
                              answer.exit_code,
                              escaped(std::string_view(answer.error).substr(0, kMostInLine)));
}

void take_frames(std::string& text, std::vector<FramedAnswer>& answers,
                 const std::function<void(std::size_t index)>& on_end) {
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto index = take_frame(std::string_view(text).substr(begin, end - begin), answers);
    if (index) on_end(*index);
  }
  text.erase(0, begin);
}

}  // namespace dl::launcher::remote
