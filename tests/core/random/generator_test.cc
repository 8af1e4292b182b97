#include "core/random/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/random/distributions.h"
#include "tests/parity/arrays.h"

namespace dl {
namespace {

std::vector<std::byte> saved_state() {
  const auto raw = parity::Arrays("random").get<std::uint8_t>("state");
  std::vector<std::byte> bytes(raw.size());
  std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

TEST(Mt19937, GivesTheReferenceOutputs) {
  // ISO C++ [rand.predef]: the 10000th output of an mt19937 with the default seed.
  random::Mt19937 engine(5489);
  std::uint32_t last = 0;
  for (int i = 0; i < 10000; ++i) last = engine();
  EXPECT_EQ(last, 4123659995U);
}

TEST(Generator, StartsAgainFromTheSameSeed) {
  Generator generator(7);
  const std::uint64_t first = generator.random64();
  generator.random();
  generator.manual_seed(7);
  EXPECT_EQ(generator.random64(), first);
  EXPECT_EQ(generator.initial_seed(), 7U);
}

TEST(Generator, SeedingForgetsTheCachedNormalSample) {
  Generator generator(7);
  double fresh = 0;
  random::fill_normal(std::span(&fresh, 1), 0, 1, generator);
  generator.manual_seed(7);
  double again = 0;
  random::fill_normal(std::span(&again, 1), 0, 1, generator);
  EXPECT_EQ(again, fresh);
}

TEST(Generator, SeedFromTheSystemStartsAnotherStream) {
  Generator generator;
  const std::uint64_t a = generator.seed();
  EXPECT_EQ(generator.initial_seed(), a);
  EXPECT_NE(generator.seed(), a);
}

TEST(Generator, StateTakesTheStreamWhereItStands) {
  for (const int drawn : {0, 1, 623, 624, 625}) {
    Generator generator(7);
    for (int i = 0; i < drawn; ++i) generator.random();
    const std::vector<std::byte> state = generator.state();
    EXPECT_EQ(state.size(), Generator::kStateBytes);
    const std::uint64_t next = generator.random64();
    Generator other;
    other.set_state(state);
    EXPECT_EQ(other.random64(), next) << "after " << drawn;
    EXPECT_EQ(other.initial_seed(), 7U);
  }
}

TEST(Generator, ContinuesAStateThatPyTorchSaved) {
  Generator generator;
  generator.set_state(saved_state());
  std::vector<float> got(703);
  random::fill_normal(std::span(got).first(3), 0, 1, generator);
  random::fill_uniform(std::span(got).subspan(3), 0, 1, generator);
  EXPECT_EQ(got, parity::Arrays("random").get<float>("state_next"));
}

TEST(Generator, SavesTheBytesThatPyTorchSaves) {
  Generator generator(123);
  std::vector<float> drawn(1000);
  random::fill_uniform(drawn, 0, 1, generator);
  random::fill_normal(std::span(drawn).first(1), 0, 1, generator);
  EXPECT_EQ(generator.state(), saved_state());
}

TEST(Generator, SavesThatItIsNewAsPyTorchDoes) {
  Generator generator(7);
  // The fields left, seeded and next, of which the last is 0 until the first number.
  const auto fields = [](const Generator& from) {
    const std::vector<std::byte> state = from.state();
    return std::vector<std::byte>(state.begin() + 8, state.begin() + 24);
  };
  std::vector<std::byte> wanted(16);
  wanted[0] = wanted[4] = std::byte{1};
  EXPECT_EQ(fields(generator), wanted);
  EXPECT_EQ(fields(*generator.clone()), wanted);
  for (int i = 0; i < 624; ++i) generator.random();
  EXPECT_NE(fields(generator), wanted);
}

TEST(Generator, CloneGoesItsOwnWay) {
  Generator generator(7);
  generator.random();
  const std::unique_ptr<Generator> copy = generator.clone();
  EXPECT_EQ(copy->random64(), generator.random64());
  generator.random();
  EXPECT_NE(copy->random64(), generator.random64());
}

TEST(Generator, RefusesBytesThatAreNoState) {
  Generator generator(7);
  std::vector<std::byte> state = generator.state();
  EXPECT_THAT(
      [&] { generator.set_state(std::span(state).first(100)); },
      testing::ThrowsMessage<Error>("Generator::set_state: got 100 bytes, a state has 5056"));
  state[8] = std::byte{0xff};  // `left` far beyond the engine's words
  state[9] = std::byte{0xff};
  EXPECT_THAT([&] { generator.set_state(state); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("no state of an mt19937")));
}

TEST(DefaultGenerator, ManualSeedSeedsIt) {
  manual_seed(123);
  std::vector<float> got(50);
  random::fill_uniform(got, 0, 1, default_generator());
  EXPECT_EQ(got, parity::Arrays("random").get<float>("rand_f32"));
}

TEST(Generator, FillsOfTwoThreadsDoNotInterleave) {
  Generator generator(7);
  std::vector<std::int64_t> a(5000);
  std::vector<std::int64_t> b(5000);
  {
    std::jthread thread([&] { random::fill_random(a, generator); });
    random::fill_random(b, generator);
  }
  Generator fresh(7);
  std::vector<std::int64_t> both(10000);
  random::fill_random(both, fresh);
  const bool a_first = a[0] == both[0];
  std::vector<std::int64_t> joined = a_first ? a : b;
  const std::vector<std::int64_t>& second = a_first ? b : a;
  joined.insert(joined.end(), second.begin(), second.end());
  EXPECT_EQ(joined, both);
}

}  // namespace
}  // namespace dl
