// A wait that lasts says for whom: rank, operation, and how far that rank has come.
#include <gmock/gmock.h>

#include "tests/collectives/ranks.h"
#include "tests/support/stderr_lines.h"

namespace dl::collectives {
namespace {

using namespace testing;
using ::testing::MatchesRegex;

Ref<Work> all_reduce(ProcessGroup& group) {
  thread_local float value = 1;
  return group.all_reduce({.input = &value, .output = &value, .count = 1});
}

// Rank 0 calls, rank 1 only when rank 0 has said that it waits for it.
std::string said_while_waiting(const std::function<void(ProcessGroup&)>& call,
                               const std::string& operation) {
  tests::StderrLines err;
  std::string line;
  run_ranks(2,
            [&](ProcessGroup& group) {
              if (group.rank() == 1) line = err.line_with(operation);
              call(group);
            },
            {.warn_after = 100ms});
  return line;
}

TEST(Notice, NamesTheRankThatHasNotCalledAndTheOperation) {
  EXPECT_THAT(
      said_while_waiting([](ProcessGroup& group) { all_reduce(group)->wait(); }, "all_reduce #1"),
      MatchesRegex(".* all_reduce #1 \\(f32\\[1\\] sum\\): 0.1 s waiting for rank 1 \\(.*, which "
                   "(has not called it, nor anything before it|does not answer .*)"));
}

TEST(Notice, NamesTheRankThatHasNotSent) {
  const auto exchange = [](ProcessGroup& group) {
    float value = 0;
    if (group.rank() == 0) {
      group.recv({.buffer = &value, .count = 1, .peer = 1, .tag = 7})->wait();
    } else {
      group.send({.buffer = &value, .count = 1, .peer = 0, .tag = 7})->wait();
    }
  };
  EXPECT_THAT(said_while_waiting(exchange, "recv #1"),
              MatchesRegex(".* recv #1 .*: 0.1 s waiting for rank 1 \\(.*, which has not sent it "
                           "\\(tag 7\\).*"));
}

}  // namespace
}  // namespace dl::collectives
