#include "collectives/join/agree.h"

#include <gtest/gtest.h>

#include <mutex>

#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

Agreement ask(rendezvous::Store& store, std::string_view name, int rank, int size, bool flag,
              std::chrono::nanoseconds patience) {
  return agree(store, {.name = name, .rank = rank, .size = size, .flag = flag},
               Deadline::after(patience), Deadline::after(60s));
}

TEST(Agree, IsTheAndOfAllFlags) {
  rendezvous::MemoryStore store;
  run_threads(4, [&](int rank) {
    EXPECT_TRUE(ask(store, "all", rank, 4, true, 60s).flag);
    const Agreement one_says_no = ask(store, "one", rank, 4, rank != 2, 60s);
    EXPECT_FALSE(one_says_no.flag);
    EXPECT_TRUE(one_says_no.missing.empty());
  });
}

TEST(Agree, GoesOnWithoutThoseWhoDoNotCome) {
  rendezvous::MemoryStore store;
  run_threads(3, [&](int rank) {
    const Agreement answer = ask(store, "step 7", rank, 5, true, 100ms);
    EXPECT_TRUE(answer.flag);
    ASSERT_GE(answer.missing.size(), 2u);  // and ranks that the machine has delayed
    EXPECT_EQ(answer.missing.back(), 4);
    EXPECT_EQ(answer.missing[answer.missing.size() - 2], 3);
  });
  // A late rank gets the answer already given, although its own would have changed it.
  const Agreement late = ask(store, "step 7", 4, 5, false, 60s);
  EXPECT_TRUE(late.flag);
  EXPECT_EQ(late.missing.back(), 4);
}

// Ranks that give up at different moments see different votes, and still leave with one answer.
TEST(Agree, HasOneAnswerHoweverThePatienceEnds) {
  for (int round = 0; round < 50; ++round) {
    rendezvous::MemoryStore store;
    std::mutex mutex;
    std::vector<Agreement> answers;
    run_threads(4, [&](int rank) {
      const Agreement mine =
          ask(store, "race", rank, 4, rank != 1, std::chrono::microseconds(rank * round));
      const std::lock_guard lock(mutex);
      answers.push_back(mine);
    });
    for (const Agreement& answer : answers) {
      EXPECT_EQ(answer.flag, answers.front().flag);
      EXPECT_EQ(answer.missing, answers.front().missing);
    }
  }
}

TEST(Agree, NamesThatContinueOneAnotherAreDifferent) {
  rendezvous::MemoryStore store;
  EXPECT_TRUE(ask(store, "step", 0, 1, true, 0s).flag);
  EXPECT_FALSE(ask(store, "step/0", 0, 1, false, 0s).flag);
}

TEST(Agree, AloneIsOnesOwnFlag) {
  rendezvous::MemoryStore store;
  EXPECT_TRUE(ask(store, "a", 0, 1, true, 0s).flag);
  EXPECT_FALSE(ask(store, "b", 0, 1, false, 0s).flag);
  EXPECT_EQ(thrown_by([&] { ask(store, "", 0, 1, true, 0s); }).kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace dl::collectives
