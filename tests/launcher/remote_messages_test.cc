#include "launcher/remote/frames/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace dl::launcher::remote {
namespace {

using Bytes = std::vector<std::uint8_t>;

// One of each, in the order of the wire.
std::vector<Value> one_of_each() {
  const Verdict verdict{.exit_code = 7,
                        .page = {"rank 3 ended", "", "  others"},
                        .keeps_recorders = true,
                        .may_begin_again = true,
                        .attempt = 2};
  return {Hello{2, "0.1.0"},
          Refused{127, "no such program"},
          Listening{{"10.0.0.1:4711", "[fd00::1]:4711"}},
          Sentence{"waiting"},
          Attempt{1, {4, 6}},
          RankNews{.what = RankNews::What::kEnded, .rank = 3, .pid = 99, .status = 256},
          Output{{1, -1, Stream::kErr}, -5, true, std::string("a\0\nb", 4)},
          Decided{verdict},
          RankFile{0, 3, "error.json", "{}"},
          Over{verdict, {"pid 4"}},
          Start{"00ff",
                "node1",
                {"--nnodes", "2"},
                {{"--np=1", "--", "x", ""}, {}},
                {0, 1},
                "/home/u",
                {"A=b", "C="},
                78,
                25000},
          Meet{{"10.0.0.1:4711"}},
          Stop{130, "stopped by SIGINT", 2},
          SignalRanks{12},
          Order{Order::What::kReport},
          Credit{Stream::kErr, 1u << 20},
          Alive{},
          Save{"SIGTERM"},
          Input{"y\n"},
          InputRoom{1u << 16},
          BeginsAgain{verdict, 2, 3, 4000}};
}

std::vector<Value> decode(Decoder& decoder, std::span<const std::uint8_t> bytes) {
  decoder.feed(bytes);
  std::vector<Value> values;
  while (auto value = decoder.next()) values.push_back(std::move(*value));
  return values;
}

TEST(RemoteMessages, EachComesBackAsItWasHoweverTheBytesAreDivided) {
  const std::vector<Value> values = one_of_each();
  ASSERT_EQ(values.size(), std::variant_size_v<Value>);
  Bytes all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i].index(), i);
    const Bytes frame = encode(values[i]);
    ASSERT_EQ(frame[0], i + 1);
    all.insert(all.end(), frame.begin(), frame.end());
  }
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, all.size()}) {
    Decoder decoder(/*after_magic=*/false);
    std::vector<Value> back;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      const auto part = std::span(all).subspan(at, std::min(piece, all.size() - at));
      for (Value& value : decode(decoder, part)) back.push_back(std::move(value));
    }
    ASSERT_EQ(back.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(encode(back[i]), encode(values[i]));
    EXPECT_TRUE(decoder.is_empty());
  }
}

TEST(RemoteMessages, HelloHasTheBytesThatEveryVersionUnderstands) {
  EXPECT_EQ(encode(Hello{2, "0.1"}),
            (Bytes{1, 0, 0, 0, 11, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, '0', '.', '1'}));
}

TEST(RemoteMessages, WhatALoginWritesBeforeTheMagicIsSkipped) {
  Decoder decoder(/*after_magic=*/true);
  const std::string noise =
      "Welcome!\n\x89"
      "DLA";  // half of the magic is none
  EXPECT_TRUE(decode(decoder, Bytes(noise.begin(), noise.end())).empty());
  EXPECT_EQ(decoder.noise(), noise);
  EXPECT_TRUE(decoder.is_empty());  // no message is incomplete
  Bytes rest(kMagic.begin(), kMagic.end());
  const Bytes hello = encode(Hello{1, "x"});
  rest.insert(rest.end(), hello.begin(), hello.end());
  EXPECT_EQ(decode(decoder, std::span(rest).first(5)).size(), 0u);
  EXPECT_EQ(decode(decoder, std::span(rest).subspan(5)).size(), 1u);
  EXPECT_EQ(decoder.noise(), "");
}

TEST(RemoteMessages, NoiseWithoutAnEndIsAnError) {
  Decoder decoder(/*after_magic=*/true);
  const Bytes noise(1 << 17, 'y');
  EXPECT_THROW(decode(decoder, noise), Error);
}

TEST(RemoteMessages, BytesThatAreNoMessageAreAnError) {
  const Bytes type_0 = {0, 0, 0, 0, 0, 0, 0, 0};
  const Bytes type_99 = {99, 0, 0, 0, 0, 0, 0, 0};
  const Bytes too_long = {4, 0, 0, 0, 255, 255, 255, 255};
  const Bytes text_beyond_its_end = {4, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 'x'};
  const Bytes bytes_behind = {17, 0, 0, 0, 1, 0, 0, 0, 0};
  const Bytes list_of_millions = {3, 0, 0, 0, 4, 0, 0, 0, 255, 255, 255, 0};
  const Bytes no_such_stream = {16, 0, 0, 0, 5, 0, 0, 0, 2, 1, 0, 0, 0};
  for (const Bytes& bytes : {type_0, type_99, too_long, text_beyond_its_end, bytes_behind,
                             list_of_millions, no_such_stream}) {
    Decoder decoder(/*after_magic=*/false);
    EXPECT_THROW(decode(decoder, bytes), Error);
  }
}

TEST(RemoteMessages, OneThatIsTooLongIsNotSent) {
  EXPECT_THROW(encode(Sentence{std::string(kMostBody, 'x')}), Error);
}

}  // namespace
}  // namespace dl::launcher::remote
