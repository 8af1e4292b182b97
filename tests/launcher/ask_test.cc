// Questions to a short program of this host.
#include "launcher/process/ask/ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

using testing::HasSubstr;

Answer ask_sh(const std::string& script, const AskOptions& options = {}) {
  return ask({"sh", "-c", script, "name", "word"}, options);
}

std::pair<ErrorKind, std::string> failure(std::vector<std::string> line,
                                          const AskOptions& options = {}) {
  try {
    ask(std::move(line), options);
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::kInternal, "answered"};
}

TEST(Ask, GivesTheEndAndBothStreams) {
  const Answer answer = ask_sh("echo $1; cat; echo why >&2; exit 7", {.input = "given\n"});
  EXPECT_EQ(WEXITSTATUS(answer.status), 7);
  EXPECT_EQ(answer.text, "word\ngiven\nwhy\n");
}

TEST(Ask, TheEnvironmentAndThePathMayBeOthers) {
  EXPECT_EQ(ask_sh("echo $A-$HOME", {.path = "/bin/sh", .environment = {"A=b"}}).text, "b-\n");
  EXPECT_NE(ask_sh("echo $PATH").text, "\n");
}

TEST(Ask, AProgramThatIsNotThereOrDoesNotAnswerIsNamed) {
  const auto [kind, text] = failure({"no-such-program-anywhere"});
  EXPECT_EQ(kind, ErrorKind::kNotFound);
  EXPECT_EQ(text, "no-such-program-anywhere could not be run: No such file or directory");
  const auto [late, said] = failure({"sleep", "300"}, {.patience = std::chrono::seconds(1)});
  EXPECT_EQ(late, ErrorKind::kTimeout);
  EXPECT_THAT(said, HasSubstr("sleep has not answered within 1 s"));
}

}  // namespace
}  // namespace dl::launcher
