#include "collectives/call/descriptor.h"

#include <gtest/gtest.h>

#include <set>

namespace dl::collectives {
namespace {

constexpr Descriptor kBase{.sequence = 1042,
                           .count = 1024,
                           .op = OpKind::kAllReduce,
                           .dtype = DType::kF32,
                           .reduce = ReduceOp::kSum};

TEST(Descriptor, HashDependsOnEveryField) {
  std::set<std::uint32_t> hashes;
  const auto add = [&](const Descriptor& d, std::uint64_t salt = 7) {
    EXPECT_TRUE(hashes.insert(hash(d, salt)).second);
  };
  add(kBase);
  add(kBase, 8);
  Descriptor d = kBase;
  d.sequence += std::uint64_t{1} << 32;
  add(d);
  d = kBase, d.count = 1000, add(d);
  d = kBase, d.root = 0, add(d);
  d = kBase, d.root = 1, add(d);
  d = kBase, d.op = OpKind::kReduceScatter, add(d);
  d = kBase, d.dtype = DType::kI32, add(d);
  d = kBase, d.reduce = ReduceOp::kMax, add(d);
  d = kBase, d.order = Order::kTree, add(d);
  EXPECT_EQ(hash(kBase, 7), hash(kBase, 7));
}

TEST(Descriptor, GroupsOfDifferentNameOrGenerationDiffer) {
  EXPECT_NE(hash_of_group("a", 0), hash_of_group("b", 0));
  EXPECT_NE(hash_of_group("a", 0), hash_of_group("a", 1));
}

TEST(Descriptor, MismatchOfCountQuotesBothSides) {
  Descriptor theirs = kBase;
  theirs.count = 1000;
  EXPECT_EQ(
      mismatch_text(theirs, "rank 3 (node2, pid 7)", kBase, "rank 0 (node1, pid 9)"),
      "all_reduce #1042: rank 3 (node2, pid 7) sent f32[1000] sum, rank 0 (node1, pid 9) expects "
      "f32[1024] sum; are the models the same on all ranks?");
}

TEST(Descriptor, MismatchOfOperationQuotesBothSides) {
  const Descriptor theirs{
      .sequence = 1042, .count = 8, .root = 2, .op = OpKind::kBroadcast, .dtype = DType::kI64};
  EXPECT_EQ(
      mismatch_text(theirs, "rank 3", kBase, "rank 0"),
      "rank 3 called broadcast #1042 (i64[8] from root 2), but rank 0 called all_reduce #1042 "
      "(f32[1024] sum); all ranks must make the same calls in the same order");
}

TEST(Descriptor, TextsNameRootsAndLeaveOutCountsThatMayDiffer) {
  const auto payload = [](OpKind op) {
    return payload_text({.count = 8, .root = 1, .op = op, .dtype = DType::kI32});
  };
  EXPECT_EQ(payload(OpKind::kReduce), "i32[8] sum to root 1");
  EXPECT_EQ(payload(OpKind::kGatherv), "i32 to root 1");
  EXPECT_EQ(payload(OpKind::kScatter), "i32[8] from root 1");
  EXPECT_EQ(payload(OpKind::kAllToAllv), "i32");
  EXPECT_EQ(payload(OpKind::kReduceScatterv), "i32[8] sum");
}

TEST(Descriptor, MismatchOfAPartQuotesBothNumbers) {
  EXPECT_EQ(
      part_mismatch_text({.sequence = 7, .op = OpKind::kGatherv, .dtype = DType::kF32}, "rank 1", 5,
                         "rank 0", 3),
      "gatherv #7: rank 1 sends f32[5], rank 0 expects f32[3] from it; do the counts agree on "
      "both ranks?");
}

TEST(Descriptor, ExchangesOfAGroupAreNamedByTheirPurpose) {
  Descriptor split{
      .sequence = 4, .count = 2, .root = kForSplit, .op = OpKind::kAllGather, .dtype = DType::kI32};
  EXPECT_EQ(text(split), "split #4");
  Descriptor plain = split;
  plain.root = -1;
  EXPECT_NE(hash(split, 1), hash(plain, 1));
  EXPECT_EQ(mismatch_text(split, "rank 1", plain, "rank 0"),
            "rank 1 called split #4, but rank 0 called all_gather #4 (i32[2]); all ranks must make "
            "the same calls in the same order");
  split.root = kForAllocate;
  EXPECT_EQ(text(split), "allocate #4");
  split.root = kForRegister;
  EXPECT_EQ(text(split), "register #4");
  // The tag of a message is any number.
  EXPECT_EQ(title({.sequence = 4, .root = kForSplit, .op = OpKind::kSend}), "send #4");
}

TEST(Descriptor, BarrierHasNoPayloadText) {
  EXPECT_EQ(text({.sequence = 3, .op = OpKind::kBarrier}), "barrier #3");
}

TEST(Descriptor, PlansThatDifferAreQuotedBeforeAllElse) {
  const Descriptor ours{
      .sequence = 7, .count = 4, .op = OpKind::kAllReduce, .dtype = DType::kF32, .plan = 0xabc};
  Descriptor theirs = ours;
  theirs.plan = 0x12345678;
  EXPECT_NE(hash(theirs, 1), hash(ours, 1));
  EXPECT_EQ(mismatch_text(theirs, "rank 1", ours, "rank 0"),
            "all_reduce #7: rank 1 follows plan 12345678, rank 0 follows plan 00000abc; are "
            "DLRUN_PLAN, DLRUN_ALGORITHM and dlrun the same on all ranks?");
}

}  // namespace
}  // namespace dl::collectives
