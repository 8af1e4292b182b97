#include "collectives/call/matching.h"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>

namespace dl::collectives {
namespace {

constexpr std::size_t kCredit = 100;

struct Receive final : RefCounted {
  Receive(std::uint64_t number, int source, std::uint32_t tag, std::uint64_t count)
      : descriptor{.sequence = number,
                   .count = count,
                   .root = static_cast<std::int32_t>(tag),
                   .op = OpKind::kRecv,
                   .dtype = DType::kI32},
        peer(source),
        bytes(count * 4) {}
  std::uint32_t tag() const { return static_cast<std::uint32_t>(descriptor.root); }

  Descriptor descriptor;
  int peer;
  std::size_t bytes;
};

// Rank 0 of three; messages are told apart by their ids.
class MatchingRule : public ::testing::Test {
 protected:
  MatchingRule() {
    for (int rank = 0; rank < 3; ++rank) {
      matching_.add_rank({.rank = rank, .host = "a", .pid = 10 + rank});
    }
  }

  Ref<Receive> receive(int source, std::uint32_t tag = 0, std::uint64_t count = 1) {
    return make_ref<Receive>(++calls_, source, tag, count);
  }
  // Its id; 0: it is posted.
  std::uint64_t post(const Ref<Receive>& receive) {
    const auto message = matching_.post(receive);
    return message ? message->id : 0;
  }
  void post_all(std::initializer_list<Ref<Receive>> receives) {
    for (const Ref<Receive>& r : receives) EXPECT_EQ(post(r), 0u);
  }
  static Envelope message(std::uint64_t id, std::uint32_t tag = 0) {
    return {.count = 1, .id = id, .tag = tag, .dtype = DType::kI32, .bytes = 4, .cost = 10};
  }
  static std::string text_of(const std::function<void()>& call, ErrorKind kind) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "no error";
  }

  std::uint64_t calls_ = 0;
  Matching<Receive> matching_{"world", 0, kCredit};
};

TEST_F(MatchingRule, AMessageTakesTheReceiveThatWasCalledFirst) {
  const Ref<Receive> one = receive(1), any = receive(kAnySource), other = receive(2);
  const Ref<Receive> last = receive(1);
  post_all({one, any, other, last});
  EXPECT_EQ(matching_.take_posted(1, message(1)), one);
  EXPECT_EQ(matching_.take_posted(1, message(2)), any);
  EXPECT_EQ(any->peer, 1);
  EXPECT_EQ(matching_.take_posted(1, message(3)), last);
  EXPECT_EQ(matching_.take_posted(1, message(4)), nullptr);
  EXPECT_EQ(matching_.take_posted(2, message(5)), other);
}

TEST_F(MatchingRule, TheFirstReceiveFromAnyTakesTheFirstSend) {
  const Ref<Receive> any = receive(kAnySource), one = receive(1);
  post_all({any, one});
  EXPECT_EQ(matching_.take_posted(2, message(1)), any);
  EXPECT_EQ(any->peer, 2);
  EXPECT_EQ(matching_.take_posted(2, message(2)), nullptr);
  EXPECT_EQ(matching_.take_posted(1, message(3)), one);
}

TEST_F(MatchingRule, AReceiveTakesTheOldestMessageOfItsSourceOrOfAll) {
  matching_.keep(2, {message(1)});
  matching_.keep(1, {message(2)});
  matching_.keep(2, {message(3)});
  matching_.keep(1, {message(4)});
  EXPECT_EQ(post(receive(1)), 2u);
  const Ref<Receive> any = receive(kAnySource);
  EXPECT_EQ(post(any), 1u);
  EXPECT_EQ(any->peer, 2);
  EXPECT_EQ(post(receive(kAnySource)), 3u);
  EXPECT_EQ(post(receive(2)), 0u);
  EXPECT_EQ(post(receive(kAnySource)), 4u);
  EXPECT_EQ(post(receive(kAnySource)), 0u);
}

TEST_F(MatchingRule, TagsAreToldApartOnBothSides) {
  const Ref<Receive> seven = receive(1, 7), any = receive(kAnySource, 4'000'000'000);
  post_all({seven, any});
  EXPECT_EQ(matching_.take_posted(1, message(1, 8)), nullptr);
  EXPECT_EQ(matching_.take_posted(1, message(2, 4'000'000'000)), any);
  EXPECT_EQ(matching_.take_posted(1, message(3, 7)), seven);
  matching_.keep(1, {message(4, 8)});
  matching_.keep(2, {message(5, 9)});
  EXPECT_EQ(post(receive(1, 9)), 0u);
  EXPECT_EQ(post(receive(kAnySource, 9)), 5u);
  EXPECT_EQ(post(receive(1, 8)), 4u);
}

TEST_F(MatchingRule, AKeptMessageComesOutWithItsBytes) {
  matching_.keep(1, {message(1), {std::byte{42}}});
  const auto got = matching_.post(receive(1));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->payload, std::vector{std::byte{42}});
  EXPECT_EQ(got->cost, 10u);
}

TEST_F(MatchingRule, ADifferentCountOrTypeQuotesBothSides) {
  const std::string wanted =
      "recv with tag 7: rank 1 (a, pid 11) sent i32[1], rank 0 (a, pid 10) expects i32[2]; the two "
      "calls must agree";
  const Ref<Receive> two = receive(1, 7, 2);
  post_all({two});
  EXPECT_EQ(text_of([&] { matching_.take_posted(1, message(1, 7)); }, ErrorKind::kMismatch),
            wanted);
  matching_.keep(1, {message(2, 7)});
  EXPECT_EQ(text_of([&] { matching_.post(receive(kAnySource, 7, 2)); }, ErrorKind::kMismatch),
            wanted);
  Envelope other = message(3);
  other.dtype = DType::kF32;
  matching_.keep(1, {other});
  EXPECT_NE(text_of([&] { matching_.post(receive(1)); }, ErrorKind::kMismatch).find("f32[1]"),
            std::string::npos);
}

TEST_F(MatchingRule, BytesMustBeWholeUnlessTheyComeLater) {
  Envelope half = message(1);
  half.bytes = 2;
  post_all({receive(1), receive(1)});
  EXPECT_NE(text_of([&] { matching_.take_posted(1, half); }, ErrorKind::kMismatch), "no error");
  half.is_request = true;
  EXPECT_TRUE(matching_.take_posted(1, half));
}

TEST_F(MatchingRule, EachSendersCreditIsGivenBackByReceives) {
  for (const int rank : {1, 2}) {
    for (std::size_t cost = 0; cost < kCredit; cost += 10) matching_.keep(rank, {message(1)});
  }
  EXPECT_EQ(post(receive(1)), 1u);
  matching_.keep(1, {message(2)});
  EXPECT_EQ(text_of([&] { matching_.keep(2, {message(3)}); }, ErrorKind::kInternal),
            "group 'world': rank 2 (a, pid 12) sent more messages than its credit allows");
}

TEST_F(MatchingRule, SaysWhomAReceiveWaitsForAndWhereToLookNext) {
  EXPECT_FALSE(matching_.has_posted(1));
  post_all({receive(1)});
  EXPECT_TRUE(matching_.has_posted(1));
  EXPECT_FALSE(matching_.has_posted(2));
  post_all({receive(kAnySource)});
  EXPECT_TRUE(matching_.has_posted(2));
  EXPECT_EQ(matching_.first_look(), 0u);
  EXPECT_TRUE(matching_.take_posted(1, message(1)));
  EXPECT_EQ(matching_.first_look(), 0u);
  EXPECT_TRUE(matching_.take_posted(1, message(2)));
  EXPECT_EQ(matching_.first_look(), 2u);
}

TEST_F(MatchingRule, NothingIsLeftAfterClear) {
  post_all({receive(1), receive(kAnySource)});
  matching_.keep(2, {message(1, 5)});
  matching_.clear();
  EXPECT_FALSE(matching_.has_posted(1));
  EXPECT_EQ(post(receive(kAnySource, 5)), 0u);
}

}  // namespace
}  // namespace dl::collectives
