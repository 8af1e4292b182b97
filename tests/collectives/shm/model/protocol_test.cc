// The protocol of shared memory under the C++ memory model: the code that moves operations on, in
// all executions of all pairs of operations, and the errors that are found if one memory order is
// weakened.
#include <gtest/gtest.h>

#include <vector>

#include "tests/collectives/shm/model/explorer.h"

namespace dl::collectives::shm {
namespace {

using model::explore;
using model::Field;
using model::Mutation;

// Every operation on every path: beside the flag, in one line and in two, in one chunk, in more
// chunks than there are slots or just as many, in symmetric memory; and the staged path of a rank
// whose buffer is symmetric while another's is not.
std::vector<Call> calls(int size) {
  const int last = size - 1;
  const unsigned all_ranks = (1u << size) - 1;
  std::vector<Call> all{{.op = OpKind::kBarrier}};
  for (const OpKind op : {OpKind::kReduce, OpKind::kGather}) {
    for (const std::size_t count : {4u, 8u, 20u}) all.push_back({op, count, last});
  }
  // Parts in two lines, of which one may have nothing but the caller's own; in one chunk, or two.
  const auto share = static_cast<std::size_t>(6 / size);
  for (const std::size_t count : {share, std::size_t{4}, std::size_t{8}}) {
    all.push_back({OpKind::kAllToAll, count});
    all.push_back({OpKind::kScatter, count, last});
  }
  all.push_back({OpKind::kReduceScatter, share});
  // Parts of nothing, one chunk, and two; ranks that have fewer chunks than the operation.
  all.push_back({OpKind::kAllGatherv, 12});
  all.push_back({OpKind::kGatherv, 8, last});
  all.push_back({OpKind::kReduceScatterv, 4});
  all.push_back({OpKind::kScatterv, 4, last});
  all.push_back({OpKind::kAllToAllv, 4});
  all.push_back({OpKind::kGather, 20, 0});
  all.push_back({OpKind::kBroadcast, 20, 0});
  for (const unsigned symmetric : {0u, all_ranks, 1u}) {
    if (symmetric == 0) all.push_back({OpKind::kAllReduce, 8});
    for (const std::size_t count : {1u, 4u, 12u, 20u}) {
      if (count < 12 && symmetric != 0) continue;
      all.push_back({OpKind::kAllReduce, count, -1, symmetric});
      all.push_back({OpKind::kBroadcast, count, last, symmetric});
      all.push_back({OpKind::kAllGather, count, -1, symmetric});
    }
    for (const std::size_t count : {4u, 8u}) {
      all.push_back({OpKind::kReduceScatter, count, -1, symmetric});
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
  const std::vector<Call> all{{.op = OpKind::kBarrier},    {OpKind::kAllReduce, 4},
                              {OpKind::kAllReduce, 8},     {OpKind::kAllReduce, 20, -1, 7},
                              {OpKind::kReduceScatter, 4}, {OpKind::kReduceScatter, 8, -1, 7},
                              {OpKind::kBroadcast, 20, 2}, {OpKind::kBroadcast, 20, 0, 7},
                              {OpKind::kAllGather, 12},    {OpKind::kScatter, 8, 1},
                              {OpKind::kGatherv, 8, 0}};
  check_programs(pairs_of(all), {.size = 3, .slots = 1});
}

TEST(ShmProtocol, LosesNoRing) {
  check_programs({{{OpKind::kBarrier}, {OpKind::kBarrier}},
                  {{OpKind::kBroadcast, 20, 0}},
                  {{OpKind::kAllReduce, 20, -1, 3}}},
                 {.size = 2, .slots = 1, .sleeps = true});
}

// Beside the header, filling the ring, and going round in it; one way, back, and both at once.
std::vector<Call> messages() {
  std::vector<Call> all;
  for (const int root : {0, 1, -1}) {
    for (const std::size_t count : {0u, 1u, 4u, 20u}) all.push_back({OpKind::kSend, count, root});
  }
  return all;
}

TEST(ShmProtocol, EveryPairOfMessagesOfTwoRanks) {
  check_programs(pairs_of(messages()), {.size = 2});
  check_programs({{{OpKind::kSend, 1, 0}}, {{OpKind::kSend, 20, 0}}, {{OpKind::kSend, 4, -1}}},
                 {.size = 2, .sleeps = true});
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

// Weakening any order on which the protocol depends is noticed.
TEST(ShmProtocol, IsFoundWrongWithoutAnyOneOfItsOrders) {
  using Kind = Mutation::Kind;
  const Call inlined{OpKind::kAllReduce, 1};
  const Call two_lines{OpKind::kAllReduce, 4};
  const Call exchange{OpKind::kAllReduce, 8};
  const Call staged{OpKind::kBroadcast, 20, 0};
  const Call counted{OpKind::kAllToAllv, 4};
  const Call divided{OpKind::kAllReduce, 20};
  const Call direct{OpKind::kAllReduce, 20, -1, 3};
  const Call message{OpKind::kSend, 1, 0};
  const Call sliced{OpKind::kSend, 20, 0};
  struct Case {
    Mutation mutation;
    std::vector<Call> program;
    bool sleeps = false;
  };
  const Case cases[] = {{{Kind::kRelaxedStore, Field::kFlag}, {inlined}},
                        {{Kind::kRelaxedLoad, Field::kFlag}, {inlined}},
                        {{Kind::kRelaxedStore, Field::kLine}, {two_lines}},
                        {{Kind::kRelaxedLoad, Field::kLine}, {two_lines}},
                        {{Kind::kRelaxedStore, Field::kFlag}, {exchange}},
                        {{Kind::kRelaxedLoad, Field::kFlag}, {exchange}},
                        {{Kind::kRelaxedLoad, Field::kFlag}, {direct}},
                        {{Kind::kRelaxedStore, Field::kFlag}, {counted}},
                        {{Kind::kRelaxedLoad, Field::kFlag}, {counted}},
                        {{Kind::kRelaxedStore, Field::kStaged}, {counted}},
                        {{Kind::kRelaxedLoad, Field::kStaged}, {counted}},
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
                        {{Kind::kRelaxedStore, Field::kStaged}, {message}},
                        {{Kind::kRelaxedLoad, Field::kStaged}, {message}},
                        {{Kind::kOneTooMany, Field::kStaged}, {message}},
                        {{Kind::kRelaxedStore, Field::kStaged}, {sliced}},
                        {{Kind::kRelaxedLoad, Field::kStaged}, {sliced}},
                        {{Kind::kRelaxedStore, Field::kConsumed}, {sliced}},
                        {{Kind::kRelaxedLoad, Field::kConsumed}, {sliced}},
                        {{Kind::kOneTooMany, Field::kConsumed}, {sliced}},
                        {{Kind::kNoPublishersFence}, {message}, true},
                        {{Kind::kNoSleepersFence}, {message}, true},
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
