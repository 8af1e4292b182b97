// What the reader of PyTorch's protocol makes of bytes.
#include "launcher/torch_store/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/torch_store/wire.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& bytes) {
  QueryReader reader;
  reader.feed(bytes);
  while (reader.next()) {
  }
  return reader.error();
}

TEST(TorchQuery, ComesWholeFromPiecesOfOneByte) {
  const std::string bytes =
      wire::hello() +
      wire::query(QueryKind::kMultiSet, wire::number(std::uint64_t{2}) + wire::text("/a") +
                                            wire::text("1") + wire::text("/b") + wire::text("")) +
      wire::query(QueryKind::kAdd, wire::text("/n") + wire::number(std::int64_t{-3}));
  QueryReader reader;
  std::vector<Query> queries;
  for (const char byte : bytes) {
    reader.feed({&byte, 1});
    while (std::optional<Query> query = reader.next()) queries.push_back(std::move(*query));
  }
  EXPECT_EQ(reader.error(), "");
  EXPECT_EQ(reader.held(), 0U);
  ASSERT_EQ(queries.size(), 3U);
  EXPECT_EQ(queries[1].kind, QueryKind::kMultiSet);
  EXPECT_THAT(queries[1].keys, ElementsAre("/a", "/b"));
  EXPECT_THAT(queries[1].values, ElementsAre("1", ""));
  EXPECT_THAT(queries[2].keys, ElementsAre("/n"));
  EXPECT_EQ(queries[2].number, -3);
}

TEST(TorchQuery, OfAStrangerIsNone) {
  EXPECT_EQ(error_of("GET / HTTP/1.1\r\n"), "its first byte is 0x47, wanted 0x00 (VALIDATE)");
  EXPECT_EQ(error_of("\x89"
                     "DLRUN\r\n"),
            "it is a dlrun's, and the nodes of this job have met; that dlrun tries again");
  EXPECT_THAT(error_of(wire::query(QueryKind::kValidate, wire::number(std::uint32_t{7}))),
              HasSubstr("0x00000007, wanted 0x3c85f7ce"));
  EXPECT_THAT(error_of(wire::hello() + wire::hello()), HasSubstr("validates itself twice"));
  EXPECT_EQ(error_of(wire::hello() + "\x13"), "query 19 is not known");
}

// The size is refused when it is read: nothing is kept for it.
TEST(TorchQuery, OfASizeBeyondTheLimitsIsNone) {
  const std::string huge = wire::number(~std::uint64_t{0});
  EXPECT_EQ(error_of(wire::hello() + wire::query(QueryKind::kGet, huge)),
            "GET has a key of 18446744073709551615 bytes, wanted at most 8192");
  EXPECT_EQ(error_of(wire::hello() + wire::query(QueryKind::kSet, wire::text("/k") + huge)),
            "SET has a value of 18446744073709551615 bytes, wanted at most 8388608");
  EXPECT_EQ(error_of(wire::hello() + wire::query(QueryKind::kWait, huge)),
            "WAIT has 18446744073709551615 keys, wanted at most 131072");
}

TEST(TorchQuery, OfManyLargeValuesIsNone) {
  const std::size_t pairs = kMostQueryBytes / kMostValueBytes + 1;
  QueryReader reader;
  reader.feed(wire::hello());
  EXPECT_TRUE(reader.next());
  reader.feed(wire::query(QueryKind::kMultiSet, wire::number(std::uint64_t{pairs})));
  const std::string pair = wire::text("/k") + wire::text(std::string(kMostValueBytes, 'v'));
  for (std::size_t i = 0; i < pairs && reader.error().empty(); ++i) {
    EXPECT_FALSE(reader.next());
    reader.feed(pair);
  }
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.error(), "MULTI_SET has more than 268435456 bytes of keys and values");
  EXPECT_EQ(reader.held(), 0U);
}

}  // namespace
}  // namespace dl::launcher
