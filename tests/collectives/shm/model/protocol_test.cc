// The protocol of shared memory under the C++ memory model: the code that moves operations on, in
// all executions of all pairs of operations, and what is found where one memory order is weakened.
#include <gtest/gtest.h>

#include <vector>

#include "tests/collectives/shm/model/explorer.h"

namespace dl::collectives::shm {
namespace {

using model::explore;
using model::Field;
using model::Mutation;

// Every operation on every path: beside the flag, in one chunk, in more chunks than there are slots
// or just as many, in symmetric memory; and the staged path of a rank whose buffer is symmetric
// while another's is not.
std::vector<Call> calls(int size) {
  const int last = size - 1;
  const unsigned all_ranks = (1u << size) - 1;
  std::vector<Call> all{{.op = OpKind::kBarrier}};
  for (const OpKind op : {OpKind::kReduce, OpKind::kGather}) {
    for (const std::size_t count : {1u, 4u, 20u}) all.push_back({op, count, last});
  }
  for (const std::size_t count : {1u, 4u, 8u}) {
    all.push_back({OpKind::kAllToAll, count});
    all.push_back({OpKind::kScatter, count, last});
  }
  all.push_back({OpKind::kGather, 20, 0});
  all.push_back({OpKind::kBroadcast, 20, 0});
  for (const unsigned symmetric : {0u, all_ranks, 1u}) {
    for (const std::size_t count : {1u, 4u, 12u, 20u}) {
      if (count < 12 && symmetric != 0) continue;
      all.push_back({OpKind::kAllReduce, count, -1, symmetric});
      all.push_back({OpKind::kBroadcast, count, last, symmetric});
      all.push_back({OpKind::kAllGather, count, -1, symmetric});
    }
    for (const std::size_t count : {1u, 4u, 8u}) {
      if (count > 1 || symmetric == 0) {
        all.push_back({OpKind::kReduceScatter, count, -1, symmetric});
      }
    }
  }
  return all;
}

std::string text(const Call& call) {
  return std::string(name_of(call.op)) + " of " + std::to_string(call.count) +
         (call.root < 0 ? "" : " with root " + std::to_string(call.root)) +
         (call.symmetric == 0 ? "" : ", symmetric on " + std::to_string(call.symmetric));
}

void check_programs(const std::vector<std::vector<Call>>& programs, const model::Options& options) {
  std::uint64_t pieces = 0;
  for (const std::vector<Call>& program : programs) {
    const model::Result result = explore(program, options);
    std::string calls;
    for (const Call& call : program) calls += text(call) + "; ";
    ASSERT_EQ(result.error, "") << calls;
    ASSERT_GT(result.ends, 0u) << calls;
    pieces += result.pieces;
  }
  std::printf("%zu programs in %llu pieces\n", programs.size(),
              static_cast<unsigned long long>(pieces));
}

std::vector<std::vector<Call>> pairs_of(const std::vector<Call>& all) {
  std::vector<std::vector<Call>> pairs;
  for (const Call& first : all) {
    for (const Call& second : all) pairs.push_back({first, second});
  }
  return pairs;
}

TEST(ShmProtocol, EveryPairOfOperationsOfTwoRanks) {
  check_programs(pairs_of(calls(2)), {.size = 2});
}

// Three ranks run apart in so many ways that they have one slot, and fewer operations here.
TEST(ShmProtocol, PairsOfOperationsOfThreeRanks) {
  const std::vector<Call> all{{.op = OpKind::kBarrier},    {OpKind::kAllReduce, 1},
                              {OpKind::kAllReduce, 4},     {OpKind::kAllReduce, 20, -1, 7},
                              {OpKind::kReduceScatter, 4}, {OpKind::kReduceScatter, 8, -1, 7},
                              {OpKind::kBroadcast, 20, 2}, {OpKind::kBroadcast, 20, 0, 7},
                              {OpKind::kAllGather, 12},    {OpKind::kScatter, 8, 1}};
  check_programs(pairs_of(all), {.size = 3, .slots = 1});
}

TEST(ShmProtocol, LosesNoRing) {
  check_programs({{{OpKind::kBarrier}, {OpKind::kBarrier}},
                  {{OpKind::kBroadcast, 20, 0}},
                  {{OpKind::kAllReduce, 20, -1, 3}}},
                 {.size = 2, .slots = 1, .sleeps = true});
}

// Minutes; ./dev test-all runs them.
TEST(ShmProtocolLong, EveryPairOfOperationsOfThreeRanks) {
  check_programs(pairs_of(calls(3)), {.size = 3, .slots = 1});
}

TEST(ShmProtocolLong, LosesNoRing) {
  const std::vector<Call> all{
      {OpKind::kBarrier}, {OpKind::kAllReduce, 4}, {OpKind::kBroadcast, 4, 0}};
  check_programs(pairs_of(all), {.size = 2, .slots = 1, .sleeps = true});
  check_programs({{{OpKind::kBarrier}}}, {.size = 3, .slots = 1, .sleeps = true});
}

// Every order on which the protocol rests is missed where it is weakened.
TEST(ShmProtocol, IsFoundWrongWithoutAnyOneOfItsOrders) {
  using Kind = Mutation::Kind;
  const Call inlined{OpKind::kAllReduce, 1};
  const Call exchange{OpKind::kAllReduce, 4};
  const Call staged{OpKind::kBroadcast, 20, 0};
  const Call divided{OpKind::kAllReduce, 20};
  const Call direct{OpKind::kAllReduce, 20, -1, 3};
  struct Case {
    Mutation mutation;
    std::vector<Call> program;
    bool sleeps = false;
  };
  const Case cases[] = {{{Kind::kRelaxedStore, Field::kFlag}, {inlined}},
                        {{Kind::kRelaxedLoad, Field::kFlag}, {inlined}},
                        {{Kind::kRelaxedStore, Field::kFlag}, {exchange}},
                        {{Kind::kRelaxedLoad, Field::kFlag}, {exchange}},
                        {{Kind::kRelaxedLoad, Field::kFlag}, {direct}},
                        {{Kind::kRelaxedStore, Field::kStaged}, {staged}},
                        {{Kind::kRelaxedLoad, Field::kStaged}, {staged}},
                        {{Kind::kOneTooMany, Field::kStaged}, {staged}},
                        {{Kind::kRelaxedStore, Field::kReduced}, {divided}},
                        {{Kind::kRelaxedLoad, Field::kReduced}, {divided}},
                        {{Kind::kOneTooMany, Field::kReduced}, {divided}},
                        {{Kind::kRelaxedStore, Field::kConsumed}, {staged}},
                        {{Kind::kRelaxedLoad, Field::kConsumed}, {staged}},
                        {{Kind::kOneTooMany, Field::kConsumed}, {staged}},
                        {{Kind::kRelaxedStore, Field::kConsumed}, {direct}},
                        {{Kind::kRelaxedLoad, Field::kConsumed}, {direct}},
                        {{Kind::kOneTooMany, Field::kConsumed}, {direct}},
                        {{Kind::kNoPublishersFence}, {{OpKind::kBarrier}}, true},
                        {{Kind::kNoSleepersFence}, {{OpKind::kBarrier}}, true}};
  for (const Case& each : cases) {
    const auto what = std::to_string(static_cast<int>(each.mutation.kind)) + " of " +
                      std::to_string(static_cast<int>(each.mutation.field)) + " in " +
                      text(each.program.front());
    EXPECT_EQ(explore(each.program, {.slots = 1, .sleeps = each.sleeps}).error, "") << what;
    EXPECT_NE(
        explore(each.program, {.slots = 1, .sleeps = each.sleeps, .mutation = each.mutation}).error,
        "")
        << what;
  }
}

}  // namespace
}  // namespace dl::collectives::shm
