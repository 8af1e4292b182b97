// How the agent store answers, and whom it wakes.
#include "launcher/torch_store/torch_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/torch_store/wire.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kStop("\0", 1);
const std::string kCanceled("\1", 1);

Query of(QueryKind kind, std::vector<std::string> keys = {}, std::vector<std::string> values = {},
         std::int64_t number = 0) {
  return {kind, std::move(keys), std::move(values), number};
}

// "1: BYTES" a reply, in order.
struct Store {
  std::vector<std::string> ask(TorchClient from, Query query) {
    std::vector<TorchReply> replies;
    why = keys.apply(from, std::move(query), replies);
    std::vector<std::string> texts;
    for (const TorchReply& reply : replies) {
      texts.push_back(std::to_string(reply.to) + ": " + reply.bytes);
    }
    return texts;
  }
  std::vector<std::string> set(const std::string& key, const std::string& value = "v") {
    return ask(9, of(QueryKind::kSet, {key}, {value}));
  }

  TorchKeys keys;
  std::string why;
};

TEST(TorchKeys, WakeAWaitWhenEachOfItsKeysHasBeenThere) {
  Store store;
  EXPECT_THAT(store.ask(1, of(QueryKind::kWait, {"a", "b", "a"})), IsEmpty());
  EXPECT_THAT(store.set("a"), IsEmpty());
  store.ask(9, of(QueryKind::kDeleteKey, {"a"}));
  EXPECT_THAT(store.ask(9, of(QueryKind::kAdd, {"b"}, {}, 1)),
              ElementsAre("9: " + wire::number(std::int64_t{1}), "1: " + kStop));
  EXPECT_EQ(store.keys.waiting(), 0U);
  EXPECT_THAT(store.ask(1, of(QueryKind::kWait, {"b"})), ElementsAre("1: " + kStop));
}

TEST(TorchKeys, DoNotWakeClientsThatHaveGivenUpOrLeft) {
  Store store;
  const std::size_t empty = store.keys.bytes();
  store.ask(1, of(QueryKind::kWait, {"a", "b"}));
  store.ask(2, of(QueryKind::kWait, {"a"}));
  EXPECT_THAT(store.ask(1, of(QueryKind::kCancelWait)), ElementsAre("1: " + kCanceled));
  store.keys.leave(2);
  EXPECT_EQ(store.keys.bytes(), empty);
  EXPECT_THAT(store.set("a"), IsEmpty());
  // Another wait of the first one.
  EXPECT_THAT(store.ask(1, of(QueryKind::kWait, {"b"})), IsEmpty());
  EXPECT_THAT(store.set("b"), ElementsAre("1: " + kStop));
}

TEST(TorchKeys, CompareSetWakesOnlyIfTheKeyIsThere) {
  Store store;
  store.ask(1, of(QueryKind::kWait, {"k"}));
  EXPECT_THAT(store.ask(2, of(QueryKind::kCompareSet, {"k"}, {"old", "new"})),
              ElementsAre("2: " + wire::text("old")));
  EXPECT_THAT(store.ask(2, of(QueryKind::kCompareSet, {"k"}, {"", "new"})),
              ElementsAre("2: " + wire::text("new"), "1: " + kStop));
}

TEST(TorchKeys, AQueuesValueWakesOneClient) {
  Store store;
  store.ask(1, of(QueryKind::kWait, {"q"}));
  store.ask(2, of(QueryKind::kWait, {"q"}));
  const auto push = of(QueryKind::kQueuePush, {"q"}, {"x"});
  EXPECT_THAT(store.ask(9, push), ElementsAre("1: " + kStop));
  EXPECT_THAT(store.ask(9, push), ElementsAre("2: " + kStop));
  EXPECT_THAT(store.ask(9, push), IsEmpty());
  EXPECT_THAT(store.ask(3, of(QueryKind::kQueuePop, {"q"})),
              ElementsAre("3: " + wire::number(std::int64_t{3}) + wire::text("x")));
  EXPECT_THAT(store.ask(3, of(QueryKind::kNumKeys)),
              ElementsAre("3: " + wire::number(std::int64_t{0})));
  store.ask(3, of(QueryKind::kQueuePop, {"q"}));
  store.ask(3, of(QueryKind::kQueuePop, {"q"}));
  EXPECT_THAT(store.ask(3, of(QueryKind::kQueuePop, {"q"})),
              ElementsAre("3: " + wire::number(std::int64_t{0})));
  EXPECT_EQ(store.keys.bytes(), 0U);
}

TEST(TorchKeys, ABarrierWakesAllWhenTheLastHasCome) {
  Store store;
  const auto meet = of(QueryKind::kBarrier, {"b"}, {}, 3);
  EXPECT_THAT(store.ask(1, meet), IsEmpty());
  EXPECT_THAT(store.ask(2, meet), IsEmpty());
  EXPECT_THAT(store.ask(3, meet), ElementsAre("3: " + kStop, "1: " + kStop, "2: " + kStop));
}

TEST(TorchKeys, ThatHoldNoNumberAreNotAddedTo) {
  Store store;
  store.set("text", "abc");
  EXPECT_THAT(store.ask(1, of(QueryKind::kAdd, {"text"}, {}, 1)), IsEmpty());
  EXPECT_EQ(store.why, "ADD to `text`, whose value is no number");
  store.set("most", std::to_string(INT64_MAX));
  store.ask(1, of(QueryKind::kAdd, {"most"}, {}, 1));
  EXPECT_THAT(store.why, HasSubstr("is more than 64 bits hold"));
  store.set("begins", " 12 apples");  // as PyTorch reads it
  EXPECT_THAT(store.ask(1, of(QueryKind::kAdd, {"begins"}, {}, 1)),
              ElementsAre("1: " + wire::number(std::int64_t{13})));
}

TEST(TorchKeys, AskedToWaitTwiceRefuse) {
  Store store;
  store.ask(1, of(QueryKind::kWait, {"a"}));
  store.ask(1, of(QueryKind::kWait, {"b"}));
  EXPECT_EQ(store.why, "it waits twice at one time");
}

TEST(TorchKeys, TakeNoMoreThanTheirLimits) {
  Store store{TorchKeys({.bytes = 2000, .keys = 3, .value = 300, .reply = 500}), ""};
  store.set("a", std::string(200, 'a'));
  EXPECT_EQ(store.why, "");
  store.ask(1, of(QueryKind::kAppend, {"a"}, {std::string(101, 'a')}));
  EXPECT_THAT(store.why, HasSubstr("APPEND would make the value of `a` larger than 300 bytes"));
  store.ask(1, of(QueryKind::kMultiGet, {"a", "a", "a"}));
  EXPECT_THAT(store.why, HasSubstr("the answer to MULTI_GET would have more than 500 bytes"));
  store.set("b", std::string(2000, 'b'));
  EXPECT_THAT(store.why, HasSubstr("bytes, and at most 2000"));
  store.ask(1, of(QueryKind::kWait, {std::string(1000, 'w')}));
  EXPECT_THAT(store.why, HasSubstr("bytes, and at most 2000"));
  store.set("b");
  store.ask(1, of(QueryKind::kQueuePush, {"q"}, {"x"}));
  EXPECT_EQ(store.why, "");
  store.set("c");
  EXPECT_EQ(store.why, "the store holds 3 keys, and at most 3");
  EXPECT_EQ(store.keys.size(), 2U);
}

}  // namespace
}  // namespace dl::launcher
