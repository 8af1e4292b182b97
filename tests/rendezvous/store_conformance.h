// What every Store must do, written once. A test program includes this and instantiates
// StoreConformance with the worlds that it has.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/store.h"
#include "rendezvous/stores/barrier.h"
#include "rendezvous/stores/prefix_store.h"
#include "tests/support/stderr_lines.h"

namespace dl::rendezvous {

// One store, seen by several clients.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  // Of 0, 1, 2; they may be one object.
  virtual Store& client(int number) = 0;
};

struct StoreParam {
  const char* name;
  std::function<std::unique_ptr<StoreWorld>(std::chrono::nanoseconds warn_after)> make;
};

class StoreConformance : public ::testing::TestWithParam<StoreParam> {
 protected:
  void SetUp() override {
    log::set_level(log::Level::kOff);
    world_ = GetParam().make(kWarnAfter);
  }
  void TearDown() override {
    world_.reset();
    log::set_level(log::Level::kWarning);
  }

  Store& a() { return world_->client(0); }
  Store& b() { return world_->client(1); }
  static Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }
  static Deadline now() { return Deadline::after(std::chrono::milliseconds(50)); }

  template <typename Call>
  static std::string error_of(ErrorKind kind, Call call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  std::unique_ptr<StoreWorld> world_;
};

using ::testing::HasSubstr;

TEST_P(StoreConformance, SetIsSeenByOthersAndReplaces) {
  a().set("key", "one", soon());
  EXPECT_EQ(b().get("key", soon()), "one");
  b().set("key", "two", soon());
  EXPECT_EQ(a().get("key", soon()), "two");
  EXPECT_EQ(a().try_get("key", soon()), "two");
  EXPECT_EQ(a().try_get("other", soon()), std::nullopt);
}

TEST_P(StoreConformance, KeepsAnyBytesAndEmptyValues) {
  const std::string bytes("\0\xff\n\x80 end", 8);
  a().set("bytes", bytes, soon());
  a().set("empty", "", soon());
  EXPECT_EQ(b().get("bytes", soon()), bytes);
  EXPECT_EQ(b().get("empty", soon()), "");
}

TEST_P(StoreConformance, KeysMayHoldAnyTextAndAreNotPaths) {
  for (const std::string key : {"../up", "a/b/../c", ".", "with space", "ключ", "a\nb"}) {
    a().set(key, key, soon());
    EXPECT_EQ(b().get(key, soon()), key);
  }
  const std::string longest(1024, 'k');
  a().set(longest, "v", soon());
  EXPECT_EQ(b().get(longest, soon()), "v");
}

TEST_P(StoreConformance, RefusesKeysAndValuesOutOfLimits) {
  for (const std::string& key :
       {std::string(), std::string(1025, 'k'), std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_THAT(error_of(ErrorKind::kInvalidArgument, [&] { a().set(key, "v", soon()); }),
                HasSubstr("store: set: the key"));
    error_of(ErrorKind::kInvalidArgument, [&] { a().get(key, soon()); });
    error_of(ErrorKind::kInvalidArgument, [&] { a().try_get(key, soon()); });
    error_of(ErrorKind::kInvalidArgument, [&] { a().wait({&key, 1}, soon()); });
    error_of(ErrorKind::kInvalidArgument, [&] { a().add(key, 1, soon()); });
    error_of(ErrorKind::kInvalidArgument, [&] { a().compare_and_set(key, {}, "v", soon()); });
  }
  const std::string too_long((16 << 20) + 1, 'v');
  EXPECT_THAT(error_of(ErrorKind::kInvalidArgument, [&] { a().set("k", too_long, soon()); }),
              HasSubstr("16777217 bytes, wanted at most 16777216"));
}

TEST_P(StoreConformance, TakesAValueOf16MiB) {
  std::string value(16 << 20, 'v');
  value.front() = 'a';
  value.back() = 'z';
  a().set("large", value, soon());
  EXPECT_TRUE(b().get("large", soon()) == value);
}

TEST_P(StoreConformance, GetWaitsForTheKey) {
  std::thread setter([&] { b().set("late", "here", soon()); });
  EXPECT_EQ(a().get("late", soon()), "here");
  setter.join();
}

TEST_P(StoreConformance, GetNamesTheKeyAtTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of(ErrorKind::kTimeout, [&] { a().get("absent", now()); }),
              HasSubstr("no process has set 'absent'"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
}

TEST_P(StoreConformance, WaitNamesTheMissingKeysAtTheDeadline) {
  a().set("here", "", soon());
  const std::vector<std::string> keys{"here", "gone1", "gone2"};
  EXPECT_THAT(error_of(ErrorKind::kTimeout, [&] { a().wait(keys, now()); }),
              ::testing::AllOf(HasSubstr("2 of 3 keys are still missing"),
                               HasSubstr("'gone1', 'gone2'"), Not(HasSubstr("'here'"))));
}

TEST_P(StoreConformance, AWaitThatLastsSaysForWhat) {
  const std::unique_ptr<StoreWorld> world = GetParam().make(std::chrono::milliseconds(100));
  tests::StderrLines err;
  log::set_level(log::Level::kWarning);
  std::thread waiter([&] { world->client(0).get("late", soon()); });
  EXPECT_THAT(err.line_with("late"), HasSubstr("store: get: no process has set 'late' after "));
  world->client(1).set("late", "", soon());
  waiter.join();
}

TEST_P(StoreConformance, ABarrierThatLastsSaysWhoIsMissing) {
  tests::StderrLines err;
  log::set_level(log::Level::kWarning);
  const auto call = [&](int rank) {
    barrier(world_->client(rank),
            {.name = "x", .rank = rank, .size = 2, .warn_after = std::chrono::milliseconds(100)},
            soon());
  };
  std::thread waiter(call, 0);
  EXPECT_THAT(err.line_with("barrier"), HasSubstr("barrier 'x': rank 0 has waited"));
  EXPECT_THAT(err.line_with("barrier"), HasSubstr("for rank 1 of 2"));
  call(1);
  waiter.join();
}

TEST_P(StoreConformance, WaitEndsWhenAllKeysAreThere) {
  const std::vector<std::string> keys{"w1", "w2", "w3"};
  std::thread setter([&] {
    for (const char* key : {"w3", "w1", "w2"}) b().set(key, "", soon());
  });
  a().wait(keys, soon());
  for (const std::string& key : keys) EXPECT_TRUE(a().try_get(key, soon()).has_value());
  setter.join();
  a().wait({}, soon());
}

TEST_P(StoreConformance, WaitsOfSeveralThreadsDoNotDelayEachOther) {
  // The first two wait for what only comes when the third has come.
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] { EXPECT_EQ(world_->client(i).get("slow", soon()), "s"); });
  }
  threads.emplace_back([&] {
    EXPECT_EQ(a().get("quick", soon()), "q");
    a().set("slow", "s", soon());
  });
  a().set("quick", "q", soon());
  for (std::thread& thread : threads) thread.join();
}

TEST_P(StoreConformance, AddCountsExactlyFromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<std::int64_t> seen[3];
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 40; ++k) seen[i].push_back(world_->client(i).add("count", 1, soon()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::int64_t> all;
  for (const auto& part : seen) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i) + 1);
  EXPECT_EQ(a().get("count", soon()), "120");
}

TEST_P(StoreConformance, AddTakesNegativeNumbersAndRefusesWhatIsNone) {
  EXPECT_EQ(a().add("n", -5, soon()), -5);
  EXPECT_EQ(a().add("n", 0, soon()), -5);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  a().set("n", std::to_string(most), soon());
  EXPECT_THAT(error_of(ErrorKind::kInvalidArgument, [&] { a().add("n", 1, soon()); }),
              HasSubstr("do not fit 64 bits"));
  for (const char* text : {"", "x", "1x", " 1", "99999999999999999999"}) {
    a().set("n", text, soon());
    EXPECT_THAT(error_of(ErrorKind::kInvalidArgument, [&] { a().add("n", 1, soon()); }),
                HasSubstr("add 1 to 'n'"));
  }
}

TEST_P(StoreConformance, CompareAndSetSwapsOnlyWhatWasExpected) {
  Store::Swap swap = a().compare_and_set("c", std::nullopt, "one", soon());
  EXPECT_TRUE(swap.swapped);
  EXPECT_EQ(swap.present, "one");
  swap = b().compare_and_set("c", std::nullopt, "two", soon());
  EXPECT_FALSE(swap.swapped);
  EXPECT_EQ(swap.present, "one");
  swap = b().compare_and_set("c", "none", "two", soon());
  EXPECT_FALSE(swap.swapped);
  swap = b().compare_and_set("c", "one", "two", soon());
  EXPECT_TRUE(swap.swapped);
  EXPECT_EQ(a().get("c", soon()), "two");
  swap = a().compare_and_set("absent", "something", "x", soon());
  EXPECT_FALSE(swap.swapped);
  EXPECT_EQ(swap.present, std::nullopt);
}

TEST_P(StoreConformance, CompareAndSetHasOneWinner) {
  std::vector<std::thread> threads;
  std::vector<int> won(6, 0);
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      won[i] = world_->client(i % 3).compare_and_set("lead", {}, std::to_string(i), soon()).swapped;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(won.begin(), won.end(), 1), 1);
  const auto winner = std::find(won.begin(), won.end(), 1) - won.begin();
  EXPECT_EQ(a().get("lead", soon()), std::to_string(winner));
}

TEST_P(StoreConformance, CloseEndsCallsUnderWayAndLaterOnes) {
  std::vector<std::thread> threads;
  std::vector<std::string> texts(2);
  threads.emplace_back(
      [&] { texts[0] = error_of(ErrorKind::kAborted, [&] { a().get("never", soon()); }); });
  threads.emplace_back([&] {
    const std::vector<std::string> keys{"never"};
    texts[1] = error_of(ErrorKind::kAborted, [&] { a().wait(keys, soon()); });
  });
  a().close("the job ended");
  a().close("a second reason");
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "store: closed: the job ended");
  error_of(ErrorKind::kAborted, [&] { a().set("k", "v", soon()); });
  error_of(ErrorKind::kAborted, [&] { a().try_get("k", soon()); });
  error_of(ErrorKind::kAborted, [&] { a().add("k", 1, soon()); });
  error_of(ErrorKind::kAborted, [&] { a().compare_and_set("k", {}, "v", soon()); });
}

TEST_P(StoreConformance, PrefixesKeepGenerationsApart) {
  PrefixStore old(a(), PrefixStore::generation_prefix(1));
  PrefixStore current(b(), PrefixStore::generation_prefix(2));
  old.set("address", "old", soon());
  EXPECT_EQ(current.try_get("address", soon()), std::nullopt);
  current.set("address", "new", soon());
  EXPECT_EQ(old.get("address", soon()), "old");
  EXPECT_EQ(a().get("gen2/address", soon()), "new");
  error_of(ErrorKind::kInvalidArgument, [&] { current.set("", "v", soon()); });
  EXPECT_EQ(current.add("n", 1, soon()), 1);
  EXPECT_TRUE(current.compare_and_set("n", "1", "7", soon()).swapped);
  const std::vector<std::string> keys{"address"};
  current.wait(keys, soon());
}

TEST_P(StoreConformance, BarrierEndsForAllWhenTheLastHasCome) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      barrier(world_->client(rank), {.name = "start", .rank = rank, .size = 3}, soon());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(StoreConformance, BarrierNamesWhoIsMissing) {
  std::thread second([&] {
    error_of(ErrorKind::kAborted,
             [&] { barrier(b(), {.name = "x", .rank = 2, .size = 4}, soon()); });
  });
  a().get("barrier/x/2", soon());  // rank 2 is there
  const std::string text = error_of(ErrorKind::kTimeout, [&] {
    barrier(a(), {.name = "x", .rank = 0, .size = 4}, Deadline::after(std::chrono::seconds(1)));
  });
  b().close("rank 0 has given up");
  second.join();
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("barrier 'x': rank 0 has waited"),
                                     HasSubstr("for ranks 1 and 3 of 4")));
}

inline std::string store_param_name(const ::testing::TestParamInfo<StoreParam>& info) {
  return info.param.name;
}

}  // namespace dl::rendezvous
