#include "collectives/tcp/wire/frame.h"

#include <gtest/gtest.h>

namespace dl::collectives::tcp {
namespace {

FrameHeader example() {
  return {.type = FrameType::kData,
          .length = 4096,
          .descriptor = {.sequence = 0x1122334455667788,
                         .count = std::uint64_t{5} << 32,
                         .root = 3,
                         .op = OpKind::kBroadcast,
                         .dtype = DType::kI64,
                         .reduce = ReduceOp::kMax,
                         .order = Order::kTree,
                         .plan = 0x12345678},
          .hash = 0xdeadbeef,
          .transfer = 5,
          .offset = std::uint64_t{3} << 31,
          .aux = 42};
}

using Bytes = std::array<std::byte, kHeaderBytes>;

Bytes encoded(const FrameHeader& header) {
  Bytes bytes{};
  encode(header, bytes);
  return bytes;
}

TEST(Frame, ComesBackAsItWasEncoded) {
  const FrameHeader wanted = example();
  const std::optional<FrameHeader> got = decode(encoded(wanted));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->type, wanted.type);
  EXPECT_EQ(got->length, wanted.length);
  EXPECT_EQ(got->descriptor, wanted.descriptor);
  EXPECT_EQ(got->hash, wanted.hash);
  EXPECT_EQ(got->transfer, wanted.transfer);
  EXPECT_EQ(got->offset, wanted.offset);
  EXPECT_EQ(got->aux, wanted.aux);
}

TEST(Frame, HasTheBytesThatTheProtocolStates) {
  const Bytes bytes = encoded(example());
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 'D');
  EXPECT_EQ(std::to_integer<int>(bytes[3]), '1');
  EXPECT_EQ(std::to_integer<int>(bytes[4]), 1);      // type
  EXPECT_EQ(std::to_integer<int>(bytes[8]), 0x88);   // sequence, low byte first
  EXPECT_EQ(std::to_integer<int>(bytes[16]), 0xef);  // hash
  EXPECT_EQ(std::to_integer<int>(bytes[21]), 0x10);  // length
  EXPECT_EQ(std::to_integer<int>(bytes[32]), 3);     // root
  EXPECT_EQ(std::to_integer<int>(bytes[60]), 0x78);  // plan
}

TEST(Frame, RefusesWhatIsNoHeaderOfOurs) {
  const Bytes good = encoded(example());
  const auto with = [&](std::size_t at, int value) {
    Bytes bad = good;
    bad[at] = static_cast<std::byte>(value);
    return decode(bad);
  };
  EXPECT_TRUE(decode(good));
  EXPECT_FALSE(with(0, 'X'));
  EXPECT_FALSE(with(4, 0));
  EXPECT_FALSE(with(4, 11));
  EXPECT_FALSE(with(5, 16));
  EXPECT_FALSE(with(6, 13));
  EXPECT_FALSE(with(7, 8));
  EXPECT_FALSE(with(22, 5));  // longer than a slice
  EXPECT_FALSE(with(56, 2));  // order
  EXPECT_FALSE(with(58, 1));  // reserved
}

TEST(Frame, AKindWithoutPayloadMayNotAnnounceOne) {
  FrameHeader header = example();
  header.type = FrameType::kProbe;
  EXPECT_FALSE(decode(encoded(header)));
  header.length = 0;
  EXPECT_TRUE(decode(encoded(header)));
}

}  // namespace
}  // namespace dl::collectives::tcp
