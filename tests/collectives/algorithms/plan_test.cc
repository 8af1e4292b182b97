// Plans: what they choose, and what their text may be.
#include "collectives/algorithms/plan.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/error.h"

namespace dl::collectives {
namespace {

constexpr std::string_view kText = R"(dlrun-plan 1
# comes from dlbench --tune
name rack-7
link loopback a=4e-06 o=1e-06 b=1.5e-10 g=4.0e-11

rule all_reduce any * * 64K direct   # a comment
rule all_reduce partial 2 8 max halving
rule broadcast any * 4 1M tree
)";

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(Plan::parse(text, "plan 'x'"));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "";
}

Descriptor f32(OpKind op, std::size_t bytes) {
  return {.count = bytes / 4, .root = 0, .op = op, .dtype = DType::kF32};
}

TEST(Plan, ComesBackFromItsTextAndFromOneLine) {
  const Plan plan = Plan::parse(kText, "plan 'x'");
  EXPECT_EQ(plan.name, "rack-7");
  EXPECT_EQ(plan.link(LinkKind::kLoopback), (Link{.a = 4e-6, .o = 1e-6, .b = 1.5e-10, .g = 4e-11}));
  EXPECT_EQ(plan.link(LinkKind::kEthernet), default_link(LinkKind::kEthernet));
  ASSERT_EQ(plan.rules.size(), 3U);
  EXPECT_EQ(plan.rules[1], (PlanRule{.op = OpKind::kAllReduce,
                                     .sums = SumClass::kPartial,
                                     .nodes = 2,
                                     .ranks = 8,
                                     .up_to = UINT64_MAX,
                                     .algorithm = Algorithm::kHalving}));
  EXPECT_EQ(Plan::parse(plan.text(), "plan 'y'"), plan);
  EXPECT_EQ(plan_of_line(to_line(plan), "plan 'z'"), plan);
  EXPECT_EQ(to_line(plan).find('\n'), std::string::npos);
}

TEST(Plan, AnErrorSaysTheLineAndWhatWasWanted) {
  const std::string head = "dlrun-plan 1\n";
  EXPECT_EQ(error_of(""), "plan 'x' is empty; a plan begins with 'dlrun-plan 1'");
  EXPECT_EQ(error_of("\ndlrun-plan 2\n"), "plan 'x', line 2: a plan begins with 'dlrun-plan 1'");
  EXPECT_EQ(error_of(head + "bogus 1"),
            "plan 'x', line 2: no line of a plan begins with 'bogus'; use name, link or rule");
  EXPECT_EQ(error_of(head + "name a b"),
            "plan 'x', line 2: a name is one word of at most 128 letters, digits and ._-+:,");
  EXPECT_EQ(error_of(head + "link wifi a=1 o=1 b=1 g=1"),
            "plan 'x', line 2: no link is called 'wifi'; there are shm, loopback, ethernet");
  EXPECT_EQ(error_of(head + "link shm a=1 o=1 b=nan g=1"),
            "plan 'x', line 2: 'b=nan' is not b=SECONDS with a number from 0 to 1");
  EXPECT_EQ(error_of(head + "rule all_reduce any * * 8 tree"),
            "plan 'x', line 2: all_reduce has no algorithm 'tree'; it has direct, shares, ring, "
            "doubling, halving");
  EXPECT_EQ(error_of(head + "rule all_reduce raw * * 8 ring"),
            "plan 'x', line 2: all_reduce of raw shares has no algorithm 'ring'; it has direct, "
            "shares");
  EXPECT_EQ(error_of(head + "rule barrier any * * 8 direct"),
            "plan 'x', line 2: barrier has only one algorithm; operations with a choice are "
            "all_reduce, broadcast, all_gather, reduce_scatter, reduce");
  EXPECT_EQ(error_of(head + "rule all_reduce any 0 * 8 ring"),
            "plan 'x', line 2: '0' is not a number of nodes; wanted 1 or more, or *");
  EXPECT_EQ(
      error_of(head + "rule all_reduce any * * 99999999999G ring"),
      "plan 'x', line 2: '99999999999G' is not a number of bytes; wanted one like 65536, 64K or "
      "max");
  EXPECT_EQ(error_of(head + std::string(70000, '#')), "plan 'x' has more than 65536 bytes");
}

TEST(Plan, AnyBytesAreAPlanOrOneError) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text(kText);
    for (int change = 0; change < 1 + round % 5; ++change) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 9);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
    }
    try {
      const Plan plan = Plan::parse(text, "plan 'x'");
      ASSERT_EQ(Plan::parse(plan.text(), "plan 'y'"), plan) << text;
      const Choices choices(plan, {.ranks = 4, .nodes = 2});
      ASSERT_NE(choices.hash(), 0U);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kInvalidArgument) << text;
    }
  }
}

TEST(Plan, AnAlgorithmThatWasAskedForGoesBeforeAllRules) {
  const Plan plan = with_algorithms(Plan::parse(kText, "plan 'x'"), "ring,broadcast:chain");
  EXPECT_EQ(plan.name, "rack-7+ring,broadcast:chain");
  const Choices choices(plan, {.ranks = 4});
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter}) {
    EXPECT_EQ(choices.choose(f32(op, 8)), Algorithm::kRing) << name_of(op);
  }
  EXPECT_EQ(choices.choose(f32(OpKind::kBroadcast, 8)), Algorithm::kChain);
  EXPECT_EQ(choices.choose(f32(OpKind::kReduce, 8)), Algorithm::kDirect);
  // Partial sums of bf16 must not be sent by any caller.
  const Descriptor bf16{.count = 4, .op = OpKind::kAllReduce, .dtype = DType::kBF16};
  EXPECT_EQ(choices.choose(bf16), Algorithm::kDirect);
  EXPECT_EQ(Plan::parse(plan.text(), "plan 'y'"), plan);
  try {
    static_cast<void>(with_algorithms({}, "rings"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "no algorithm is called 'rings'; there are direct, shares, ring, doubling, halving, "
        "tree, chain");
  }
}

TEST(Choices, FollowTheFirstRuleThatFitsThenTheCosts) {
  const Plan plan = Plan::parse(kText, "plan 'x'");
  const Choices fits(plan, {.ranks = 8, .nodes = 2});
  EXPECT_EQ(fits.choose(f32(OpKind::kAllReduce, 65536)), Algorithm::kDirect);
  EXPECT_EQ(fits.choose(f32(OpKind::kAllReduce, 65540)), Algorithm::kHalving);
  EXPECT_EQ(fits.choose(f32(OpKind::kAllReduce, std::size_t{1} << 40)), Algorithm::kHalving);
  const Choices other(plan, {.ranks = 3, .nodes = 1});
  EXPECT_EQ(other.choose(f32(OpKind::kAllReduce, 65536)), Algorithm::kDirect);
  EXPECT_EQ(other.choose(f32(OpKind::kAllReduce, 64 << 20)), Algorithm::kRing);
  EXPECT_NE(fits.hash(), other.hash());
  EXPECT_EQ(other.hash(), Choices(plan, {.ranks = 3, .nodes = 1}).hash());
}

TEST(Choices, OfThePlanThatIsBuiltInGoFromLatencyToBandwidth) {
  for (const int ranks : {2, 3, 4, 5, 8, 64}) {
    for (const int nodes : {1, 2}) {
      const Choices choices({}, {.ranks = ranks, .nodes = nodes});
      const auto steps = choices.steps(OpKind::kAllReduce, SumClass::kPartial);
      EXPECT_TRUE(steps.front().algorithm == Algorithm::kDirect ||
                  steps.front().algorithm == Algorithm::kDoubling)
          << ranks;
      EXPECT_EQ(steps.back().algorithm, Algorithm::kRing) << ranks << " on " << nodes;
      EXPECT_EQ(steps.back().up_to, UINT64_MAX);
      const auto raw = choices.steps(OpKind::kAllReduce, SumClass::kRaw);
      EXPECT_EQ(raw.back().algorithm, ranks == 2 ? Algorithm::kShares : raw.back().algorithm);
    }
  }
}

// The formulas of Thakur, Rabenseifner and Gropp for a power of two.
TEST(Cost, IsThatOfTheLiterature) {
  const Link l{.a = 1e-5, .o = 0, .b = 1e-9, .g = 1e-10};
  const double n = 1 << 20;
  const auto of = [&](Algorithm a) { return cost(OpKind::kAllReduce, a, 8, 1 << 20, l); };
  EXPECT_DOUBLE_EQ(of(Algorithm::kDoubling), 3 * (l.a + n * l.b + n * l.g));
  EXPECT_DOUBLE_EQ(of(Algorithm::kHalving), 6 * l.a + 7.0 / 8 * n * (2 * l.b + l.g));
  EXPECT_DOUBLE_EQ(of(Algorithm::kRing), 14 * l.a + 7.0 / 8 * n * (2 * l.b + l.g));
  EXPECT_EQ(cost(OpKind::kBarrier, Algorithm::kDissemination, 5, 0, l), 3 * l.a);
}

}  // namespace
}  // namespace dl::collectives
