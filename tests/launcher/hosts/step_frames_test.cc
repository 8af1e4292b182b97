// What goes through a step of srun: the questions, and answers in lines that srun mixes.
#include "launcher/remote/ask/step_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.h"

namespace dl::launcher::remote {
namespace {

using testing::HasSubstr;

// Long, with all that a line could not have.
std::string long_text() {
  std::string text = "{\n  \"a\\\\n\": \"\\\"\"\n}";
  text += '\0';
  for (int i = 0; i < 100'000; ++i) text += static_cast<char>(i % 256);
  return text + std::string(3000, '\n') + std::string(3000, '\\');
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  return lines;
}

HostAnswer answer_with(const std::string& text) {
  return {.host = "n1", .text = text, .exit_code = 7, .error = {}};
}

TEST(StepFrames, MixedLineByLineGiveEachAnswer) {
  const std::vector<std::string> first =
      lines_of(begin_frame(0) + answer_frames(0, answer_with(long_text())));
  const std::vector<std::string> second =
      lines_of(begin_frame(1) + answer_frames(1, answer_with("short\n")));
  std::string text = "a prolog without an end";
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_LT(first[i].size(), 1000U);
    text += first[i];
    if (i < second.size()) text += second[i];
    text += "noise\ndlrun-answer x\ndlrun-answer 9 text y\n";
  }
  std::vector<FramedAnswer> answers(2);
  std::vector<std::size_t> ended;
  // In parts, as a pipe gives them.
  std::string part;
  for (std::size_t at = 0; at < text.size(); at += 777) {
    part += text.substr(at, 777);
    take_frames(part, answers, [&](std::size_t index) { ended.push_back(index); });
  }
  EXPECT_EQ(ended, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(answers[0].text, long_text());
  EXPECT_EQ(answers[0].exit_code, 7);
  EXPECT_EQ(answers[0].error, "");
  EXPECT_EQ(answers[1].text, "short\n");
}

TEST(StepFrames, ALostLineIsNoticed) {
  std::string text;
  const std::vector<std::string> lines = lines_of(answer_frames(0, answer_with(long_text())));
  for (std::size_t i = 0; i < lines.size(); ++i) text += i == 5 ? "" : lines[i];
  std::vector<FramedAnswer> answers(1);
  take_frames(text, answers, [](std::size_t) {});
  EXPECT_TRUE(answers[0].has_ended);
  EXPECT_EQ(answers[0].error, "its answer came in part only");
}

TEST(StepFrames, AnAnswerThatHasOnlyBegunHasNotEnded) {
  std::string text = begin_frame(0) + "dlrun-answer 0 text half";
  std::vector<FramedAnswer> answers(2);
  take_frames(text, answers, [](std::size_t) {});
  EXPECT_TRUE(answers[0].has_begun);
  EXPECT_FALSE(answers[0].has_ended);
  EXPECT_FALSE(answers[1].has_begun);
  EXPECT_EQ(text, "dlrun-answer 0 text half");
}

TEST(StepFrames, AnErrorIsPassedOn) {
  std::string text = answer_frames(0, {.host = "n1", .text = {}, .error = "host n1: a\nb"});
  std::vector<FramedAnswer> answers(1);
  take_frames(text, answers, [](std::size_t) {});
  EXPECT_EQ(answers[0].error, "host n1: a\nb");
}

TEST(StepQuestions, AreReadAsTheyWereWritten) {
  const StepQuestions asked{.patience = std::chrono::seconds(60),
                            .questions = {{"n1", {"doctor", "--log-dir", "a \n\"b\xff"}},
                                          {"n2", {}},
                                          {"n1", {"kill", "--", "-x"}}}};
  const StepQuestions read = read_step_questions(text_of(asked));
  EXPECT_EQ(read.patience, asked.patience);
  ASSERT_EQ(read.questions.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.questions[i].host, asked.questions[i].host);
    EXPECT_EQ(read.questions[i].words, asked.questions[i].words);
  }
}

TEST(StepQuestions, WithoutAnEndAreRefused) {
  const std::string whole = text_of({.questions = {{"n1", {"ps", "--json"}}}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    try {
      read_step_questions(std::string_view(whole).substr(0, size));
      ADD_FAILURE() << size;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the questions of a step of srun have "));
    }
  }
}

}  // namespace
}  // namespace dl::launcher::remote
