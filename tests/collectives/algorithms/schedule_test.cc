// Executes the schedules of all ranks in memory, a few bytes at a time and in random order, under
// exactly the rules that schedule.h states. What comes out right here is right under any timing.
#include "collectives/algorithms/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <set>

#include "collectives/algorithms/parts.h"
#include "collectives/algorithms/plan.h"
#include "collectives/reduce/reduce.h"
#include "core/base/error.h"
#include "tests/collectives/values.h"

namespace dl::collectives {
namespace {

using Value = std::int32_t;
constexpr std::size_t kElement = sizeof(Value);

struct Rank {
  Schedule schedule;
  std::vector<Value> input, output, scratch;
  bool in_place = false;
  std::vector<std::size_t> sent, received;
  std::vector<bool> header_sent, header_received;
  std::size_t combined = 0;
  std::set<int> heard;  // ranks whose entry has happened before what this rank does now

  std::byte* base(Region region) {
    switch (region) {
      case Region::kInput:
        return reinterpret_cast<std::byte*>(in_place ? output.data() : input.data());
      case Region::kOutput:
        return reinterpret_cast<std::byte*>(output.data());
      default:
        return reinterpret_cast<std::byte*>(scratch.data());
    }
  }
};

class Machine {
 public:
  Machine(Descriptor descriptor, int size, bool in_place, unsigned seed)
      : Machine(descriptor, Choices({}, {.ranks = size}).choose(descriptor), size, in_place, seed) {
  }
  Machine(Descriptor descriptor, Algorithm algorithm, int size, bool in_place, unsigned seed)
      : descriptor_(descriptor),
        element_(size_of(descriptor.dtype)),
        size_(size),
        random_(seed),
        ranks_(static_cast<std::size_t>(size)),
        wires_(static_cast<std::size_t>(size * size)) {
    for (int r = 0; r < size; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      rank.schedule = make_schedule(descriptor, algorithm, r, size, in_place);
      rank.scratch.resize(rank.schedule.scratch_bytes / kElement + 1);
      rank.sent.resize(rank.schedule.sends.size());
      rank.header_sent.resize(rank.sent.size());
      rank.received.resize(rank.schedule.receives.size());
      rank.header_received.resize(rank.received.size());
      rank.in_place = in_place;
      rank.heard = {r};
    }
  }

  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }

  // False if no rank can move although work is left.
  bool run() {
    std::vector<int> order(static_cast<std::size_t>(size_));
    for (int r = 0; r < size_; ++r) order[static_cast<std::size_t>(r)] = r;
    for (;;) {
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (const int r : order) {
        if (random_() % 3 != 0) moved |= step(r);
      }
      if (!moved) {
        for (const int r : order) moved |= step(r);
        if (!moved) return done();
      }
    }
  }

 private:
  struct Wire {
    std::deque<std::byte> bytes;
    struct Header {
      std::size_t bytes;
      std::set<int> heard;
    };
    std::deque<Header> transfers;
  };
  Wire& wire(int from, int to) { return wires_[static_cast<std::size_t>(from * size_ + to)]; }

  bool done() {
    for (Rank& rank : ranks_) {
      for (std::size_t i = 0; i < rank.sent.size(); ++i) {
        if (!rank.header_sent[i] || rank.sent[i] != rank.schedule.sends[i].bytes) return false;
      }
      for (std::size_t i = 0; i < rank.received.size(); ++i) {
        if (!rank.header_received[i] || rank.received[i] != rank.schedule.receives[i].bytes) {
          return false;
        }
      }
      if (rank.schedule.combine && rank.combined != rank.schedule.combine->bytes) return false;
    }
    for (const Wire& w : wires_) {
      if (!w.bytes.empty() || !w.transfers.empty()) return false;
    }
    return true;
  }

  std::size_t some(std::size_t limit) {
    const std::size_t elements = limit / element_;
    return elements == 0 ? 0 : (1 + random_() % std::min<std::size_t>(elements, 5)) * element_;
  }

  bool received_all(Rank& rank, std::size_t i) {
    return rank.header_received[i] && rank.received[i] == rank.schedule.receives[i].bytes;
  }

  bool step(int r) {
    Rank& me = rank(r);
    bool moved = false;
    std::vector<bool> busy(static_cast<std::size_t>(size_));
    for (std::size_t i = 0; i < me.schedule.sends.size(); ++i) {
      const Transfer& t = me.schedule.sends[i];
      if (me.header_sent[i] && me.sent[i] == t.bytes) continue;
      const auto peer = static_cast<std::size_t>(t.peer);
      if (busy[peer]) continue;
      busy[peer] = true;
      std::size_t ready = t.bytes;
      if (t.after == Transfer::kCombined) ready = me.combined;
      if (t.after >= 0) {
        const auto source = static_cast<std::size_t>(t.after);
        bool over = received_all(me, source);
        for (std::size_t j = 0; t.after_all && j < source; ++j) over &= received_all(me, j);
        if ((t.bytes == 0 || t.after_all) && !over) continue;
        if (t.bytes > 0 && !t.after_all) {
          const Transfer& forwarded = me.schedule.receives[source];
          EXPECT_EQ(t.region, forwarded.region);
          EXPECT_GE(t.offset, forwarded.offset);
          EXPECT_LE(t.offset + t.bytes, forwarded.offset + forwarded.bytes);
          const std::size_t before = t.offset - forwarded.offset;
          ready = std::min(me.received[source] - std::min(me.received[source], before), t.bytes);
        }
      }
      if (t.bytes > 0 && ready == me.sent[i]) continue;
      if (!me.header_sent[i]) {
        me.header_sent[i] = true;
        wire(r, t.peer).transfers.push_back({t.bytes, me.heard});
        moved = true;
      }
      const std::size_t n = some(ready - me.sent[i]);
      const std::byte* from = me.base(t.region) + t.offset + me.sent[i];
      auto& bytes = wire(r, t.peer).bytes;
      bytes.insert(bytes.end(), from, from + n);
      me.sent[i] += n;
      moved |= n > 0;
    }
    std::fill(busy.begin(), busy.end(), false);
    for (std::size_t i = 0; i < me.schedule.receives.size(); ++i) {
      const Transfer& t = me.schedule.receives[i];
      if (received_all(me, i)) continue;
      const auto peer = static_cast<std::size_t>(t.peer);
      if (busy[peer]) continue;
      busy[peer] = true;
      Wire& w = wire(t.peer, r);
      if (!me.header_received[i]) {
        if (w.transfers.empty()) continue;
        if (t.bytes == 0 && t.after >= 0 && !me.header_sent[static_cast<std::size_t>(t.after)]) {
          continue;
        }
        EXPECT_EQ(w.transfers.front().bytes, t.bytes);
        me.heard.merge(w.transfers.front().heard);
        w.transfers.pop_front();
        me.header_received[i] = true;
        moved = true;
      }
      std::size_t limit = t.bytes - me.received[i];
      if (t.after >= 0) {
        const std::size_t gone = me.sent[static_cast<std::size_t>(t.after)];
        limit = std::min(limit, gone > me.received[i] ? gone - me.received[i] : 0);
      }
      if (t.own_from >= 0) {
        const auto source = static_cast<std::size_t>(t.own_from);
        const Transfer& operand = me.schedule.receives[source];
        EXPECT_EQ(t.own, operand.region);
        EXPECT_GE(t.own_offset, operand.offset);
        const std::size_t used = t.own_offset - operand.offset + me.received[i];
        limit = std::min(limit, me.received[source] - std::min(me.received[source], used));
      }
      const std::size_t n = some(std::min(limit, w.bytes.size()));
      if (n == 0) continue;
      std::vector<std::byte> got(w.bytes.begin(), w.bytes.begin() + static_cast<std::ptrdiff_t>(n));
      w.bytes.erase(w.bytes.begin(), w.bytes.begin() + static_cast<std::ptrdiff_t>(n));
      std::byte* to = me.base(t.region) + t.offset + me.received[i];
      if (t.apply == Apply::kStore) {
        std::memcpy(to, got.data(), n);
      } else {
        const std::byte* const own = me.base(t.own) + t.own_offset + me.received[i];
        reduce(descriptor_.dtype, descriptor_.reduce, to, t.own_first ? own : got.data(),
               t.own_first ? got.data() : own, n / element_);
        if (t.apply == Apply::kReduceLast) {
          finish(descriptor_.dtype, descriptor_.reduce, to, n / element_, size_);
        }
      }
      me.received[i] += n;
      moved = true;
    }
    return combine_some(me) || moved;
  }

  bool combine_some(Rank& me) {
    if (!me.schedule.combine) return false;
    const Combine& c = *me.schedule.combine;
    std::size_t ready = c.bytes;
    for (const int i : c.receives) {
      if (i >= 0) ready = std::min(ready, me.received[static_cast<std::size_t>(i)]);
    }
    for (const int i : c.overwrites) {
      ready = std::min(ready, me.sent[static_cast<std::size_t>(i)]);
    }
    const std::size_t n = some(ready - me.combined);
    if (n == 0) return false;
    std::vector<const void*> shares;
    for (const int i : c.receives) {
      shares.push_back(i < 0 ? me.base(Region::kInput) + c.input_offset + me.combined
                             : me.base(Region::kScratch) +
                                   me.schedule.receives[static_cast<std::size_t>(i)].offset +
                                   me.combined);
    }
    combine(descriptor_.dtype, descriptor_.reduce, me.base(c.region) + c.offset + me.combined,
            shares, n / element_, descriptor_.order);
    me.combined += n;
    return true;
  }

  Descriptor descriptor_;
  std::size_t element_;
  int size_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::vector<Wire> wires_;
};

Value element(int rank, std::size_t i) {
  return static_cast<Value>(1 + rank * 7 + static_cast<int>(i % 11));
}

Value total(int size, std::size_t i) {
  Value sum = 0;
  for (int r = 0; r < size; ++r) sum += element(r, i);
  return sum;
}

class Schedules : public ::testing::TestWithParam<int> {};

using testing::Bytes;
using testing::kAllDTypes;

// Of any dtype: the vectors of a Rank are no more than storage.
void write(std::vector<Value>& to, const Bytes& from) {
  to.resize(from.size() / kElement + 1);
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}
Bytes read(const std::vector<Value>& from, std::size_t bytes) {
  Bytes to(bytes);
  if (bytes > 0) std::memcpy(to.data(), from.data(), bytes);
  return to;
}

// Every rank's output of an all_reduce of these inputs.
std::vector<Bytes> all_reduced(const Descriptor& d, Algorithm algorithm, bool in_place,
                               const std::vector<Bytes>& inputs, unsigned seed) {
  const int size = static_cast<int>(inputs.size());
  Machine machine(d, algorithm, size, in_place, seed);
  for (int r = 0; r < size; ++r) {
    Rank& rank = machine.rank(r);
    write(rank.input, inputs[static_cast<std::size_t>(r)]);
    if (in_place) rank.output = rank.input;
    if (!in_place) write(rank.output, Bytes(inputs[0].size()));
    for (const auto* transfers : {&rank.schedule.sends, &rank.schedule.receives}) {
      for (const Transfer& t : *transfers) {
        const std::size_t most =
            t.region == Region::kScratch ? rank.schedule.scratch_bytes : inputs[0].size();
        EXPECT_LE(t.offset + t.bytes, most);
        if (t.peer == r) ADD_FAILURE() << "rank " << r << " talks to itself";
      }
    }
  }
  EXPECT_TRUE(machine.run()) << name_of(algorithm) << " " << text(d);
  std::vector<Bytes> outputs;
  for (int r = 0; r < size; ++r) {
    outputs.push_back(read(machine.rank(r).output, inputs[0].size()));
    if (!in_place) {
      EXPECT_EQ(read(machine.rank(r).input, inputs[0].size()), inputs[static_cast<std::size_t>(r)]);
    }
  }
  return outputs;
}

class AllReduces : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, AllReduces, ::testing::Range(1, 10));

// Numbers whose sums are exact, so that the order of additions does not show.
TEST_P(AllReduces, OfEveryAlgorithmAndDTypeAreRight) {
  const auto size = static_cast<std::size_t>(GetParam());
  unsigned seed = 0;
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax}) {
      if (op == ReduceOp::kAvg && dtype == DType::kBool) continue;
      for (const std::size_t count : {0U, 5U, 43U}) {
        const Descriptor d{.count = count, .op = OpKind::kAllReduce, .dtype = dtype, .reduce = op};
        std::vector<Bytes> inputs;
        std::vector<const void*> shares;
        for (std::size_t r = 0; r < size; ++r) {
          Bytes& input = inputs.emplace_back(count * size_of(dtype));
          for (std::size_t i = 0; i < count; ++i) {
            testing::put(input, dtype, i, static_cast<double>((r * 3 + i) % 13));
          }
        }
        for (const Bytes& input : inputs) shares.push_back(input.data());
        Bytes wanted(count * size_of(dtype));
        combine(dtype, op, wanted.data(), shares, count);
        for (const Algorithm algorithm : algorithms_of(d.op, wants_raw_shares(d))) {
          const bool in_place = ++seed % 2 == 0;
          for (const Bytes& got : all_reduced(d, algorithm, in_place, inputs, seed)) {
            ASSERT_EQ(got, wanted) << name_of(algorithm) << " " << text(d);
          }
        }
      }
    }
  }
}

// Any bits: NaNs, infinities, zeros of both signs, sums that round.
TEST_P(AllReduces, OfEveryAlgorithmGiveAllRanksTheSameBits) {
  const auto size = static_cast<std::size_t>(GetParam());
  std::mt19937 random(GetParam());
  unsigned seed = 1000;
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kProd}) {
      constexpr std::size_t kCount = 61;
      const Descriptor d{.count = kCount, .op = OpKind::kAllReduce, .dtype = dtype, .reduce = op};
      std::vector<Bytes> inputs;
      for (std::size_t r = 0; r < size; ++r) {
        Bytes& input = inputs.emplace_back(kCount * size_of(dtype));
        for (std::byte& byte : input) byte = static_cast<std::byte>(random());
        for (std::size_t i = 0; i < kCount; i += 3) {
          testing::put(input, dtype, i, random() % 2 == 0 ? -0.0 : 0.0);
        }
      }
      for (const Algorithm algorithm : algorithms_of(d.op, wants_raw_shares(d))) {
        const std::vector<Bytes> first = all_reduced(d, algorithm, false, inputs, ++seed);
        const std::vector<Bytes> again = all_reduced(d, algorithm, true, inputs, ++seed);
        for (std::size_t r = 0; r < size; ++r) {
          ASSERT_EQ(first[r], first[0]) << name_of(algorithm) << " " << text(d) << " rank " << r;
          ASSERT_EQ(again[r], first[0]) << name_of(algorithm) << " " << text(d) << " rank " << r;
        }
      }
    }
  }
}

// kAvg of integers takes the exchange of raw shares at any size, kSum the ring for large ones.
TEST_P(Schedules, AllReduceGivesEveryRankTheReduction) {
  const int size = GetParam();
  unsigned seed = 0;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    for (const std::size_t count : {0u, 1u, 5u, 64u, 20011u}) {
      for (const bool in_place : {false, true}) {
        if (count > 1000 && size > 5) continue;  // minutes of random steps otherwise
        Machine machine(
            {.count = count, .op = OpKind::kAllReduce, .dtype = DType::kI32, .reduce = op}, size,
            in_place, ++seed);
        for (int r = 0; r < size; ++r) {
          Rank& rank = machine.rank(r);
          for (std::size_t i = 0; i < count; ++i) rank.input.push_back(element(r, i));
          rank.output = in_place ? rank.input : std::vector<Value>(count);
        }
        ASSERT_TRUE(machine.run()) << name_of(op) << " count " << count;
        for (int r = 0; r < size; ++r) {
          for (std::size_t i = 0; i < count; ++i) {
            const Value wanted = op == ReduceOp::kSum ? total(size, i) : total(size, i) / size;
            ASSERT_EQ(machine.rank(r).output[i], wanted) << name_of(op) << " " << count << " " << i;
          }
          if (!in_place && count > 0) {
            ASSERT_EQ(machine.rank(r).input[0], element(r, 0));
          }
        }
      }
    }
  }
}

TEST_P(Schedules, ReduceScatterGivesEachRankItsPart) {
  const int size = GetParam();
  const auto ranks = static_cast<std::size_t>(size);
  unsigned seed = 100;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    for (const std::size_t count : {0u, 1u, 33u, 17000u}) {
      if (count > 1000 && size > 4) continue;
      Machine machine(
          {.count = count, .op = OpKind::kReduceScatter, .dtype = DType::kI32, .reduce = op}, size,
          false, ++seed);
      for (int r = 0; r < size; ++r) {
        for (std::size_t i = 0; i < count * ranks; ++i) {
          machine.rank(r).input.push_back(element(r, i));
        }
        machine.rank(r).output.resize(count);
      }
      ASSERT_TRUE(machine.run());
      for (int r = 0; r < size; ++r) {
        for (std::size_t i = 0; i < count; ++i) {
          const Value sum = total(size, static_cast<std::size_t>(r) * count + i);
          ASSERT_EQ(machine.rank(r).output[i], op == ReduceOp::kSum ? sum : sum / size);
        }
      }
    }
  }
}

TEST_P(Schedules, ReduceGivesTheRootTheReduction) {
  const int size = GetParam();
  unsigned seed = 150;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
    for (const std::size_t count : {0u, 1u, 33u, 20011u}) {
      if (count > 1000 && size > 4) continue;
      for (const bool in_place : {false, true}) {
        const int root = static_cast<int>(++seed) % size;
        Machine machine({.count = count,
                         .root = root,
                         .op = OpKind::kReduce,
                         .dtype = DType::kI32,
                         .reduce = op},
                        size, in_place, seed);
        for (int r = 0; r < size; ++r) {
          Rank& rank = machine.rank(r);
          for (std::size_t i = 0; i < count; ++i) rank.input.push_back(element(r, i));
          // Others than the root have no output to write into.
          rank.in_place = in_place && r == root;
          if (r == root) rank.output = in_place ? rank.input : std::vector<Value>(count);
        }
        ASSERT_TRUE(machine.run()) << name_of(op) << " count " << count;
        for (std::size_t i = 0; i < count; ++i) {
          const Value wanted = op == ReduceOp::kSum ? total(size, i) : total(size, i) / size;
          ASSERT_EQ(machine.rank(root).output[i], wanted) << name_of(op) << " " << count;
        }
      }
    }
  }
}

TEST_P(Schedules, AllGatherGivesEveryRankAllParts) {
  const int size = GetParam();
  unsigned seed = 200;
  for (const std::size_t count : {0u, 1u, 33u, 17000u}) {
    if (count > 1000 && size > 4) continue;
    Machine machine({.count = count, .op = OpKind::kAllGather, .dtype = DType::kI32}, size, false,
                    ++seed);
    for (int r = 0; r < size; ++r) {
      Rank& rank = machine.rank(r);
      for (std::size_t i = 0; i < count; ++i) rank.input.push_back(element(r, i));
      rank.output.resize(count * static_cast<std::size_t>(size));
      // A backend copies a rank's own part before it starts.
      std::copy(
          rank.input.begin(), rank.input.end(),
          rank.output.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * count));
    }
    ASSERT_TRUE(machine.run());
    for (int r = 0; r < size; ++r) {
      for (int from = 0; from < size; ++from) {
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(machine.rank(r).output[static_cast<std::size_t>(from) * count + i],
                    element(from, i));
        }
      }
    }
  }
}

TEST_P(Schedules, BroadcastGivesEveryRankTheRootsBuffer) {
  const int size = GetParam();
  unsigned seed = 300;
  for (int root = 0; root < size; ++root) {
    for (const std::size_t count : {0u, 1u, 33u, 17000u}) {
      Machine machine(
          {.count = count, .root = root, .op = OpKind::kBroadcast, .dtype = DType::kI32}, size,
          true, ++seed);
      for (int r = 0; r < size; ++r) {
        Rank& rank = machine.rank(r);
        rank.output.resize(count);
        for (std::size_t i = 0; r == root && i < count; ++i) rank.output[i] = element(r, i);
      }
      ASSERT_TRUE(machine.run());
      for (int r = 0; r < size; ++r) {
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(machine.rank(r).output[i], element(root, i));
        }
      }
    }
  }
}

TEST_P(Schedules, NoRankLeavesABarrierBeforeAllHaveEntered) {
  const int size = GetParam();
  for (unsigned seed = 1; seed <= 50; ++seed) {
    Machine machine({.op = OpKind::kBarrier}, size, false, seed);
    ASSERT_TRUE(machine.run());
    for (int r = 0; r < size; ++r) {
      EXPECT_EQ(machine.rank(r).heard.size(), static_cast<std::size_t>(size)) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Schedules, ::testing::Values(2, 3, 4, 5, 8));

TEST(Schedule, RingMovesNoMoreBytesThanItMust) {
  const std::size_t count = 1 << 20;
  for (const int size : {2, 3, 4, 8}) {
    const Schedule s =
        make_schedule({.count = count, .op = OpKind::kAllReduce, .dtype = DType::kF32},
                      Algorithm::kRing, 0, size, true);
    std::size_t bytes = 0;
    for (const Transfer& t : s.sends) bytes += t.bytes;
    const auto ranks = static_cast<std::size_t>(size);
    EXPECT_LE(bytes, 2 * (ranks - 1) * (count * 4 / ranks + 4));
  }
}

// MPI forbids to send bytes that a posted receive will overwrite.
TEST(Schedule, StoresNameTheSendsThatTheyOverwrite) {
  for (const Algorithm algorithm : algorithms_of(OpKind::kAllReduce, false)) {
    for (const int size : {2, 3, 4, 5, 8, 13}) {
      for (int i = 0; i < 2 * size; ++i) {
        const bool in_place = i % 2 == 1;
        const Schedule s = make_schedule({.count = 1000, .op = OpKind::kAllReduce}, algorithm,
                                         i / 2, size, in_place);
        for (std::size_t r = 0; r < s.receives.size(); ++r) {
          const Transfer& in = s.receives[r];
          if (in.apply != Apply::kStore || in.region != Region::kOutput) continue;
          for (std::size_t j = 0; j < s.sends.size(); ++j) {
            const Transfer& out = s.sends[j];
            if (out.region == Region::kScratch || (out.region == Region::kInput && !in_place) ||
                out.offset >= in.offset + in.bytes || in.offset >= out.offset + out.bytes ||
                out.after >= static_cast<int>(r) || out.after == Transfer::kCombined) {
              continue;
            }
            EXPECT_EQ(in.after, static_cast<int>(j))
                << name_of(algorithm) << ", rank " << i / 2 << " of " << size;
            EXPECT_EQ(in.offset, out.offset);
            EXPECT_EQ(in.bytes, out.bytes);
          }
        }
      }
    }
  }
}

TEST(Schedule, CountsOverFourGiBAreOrdinary) {
  const std::size_t count = (std::size_t{5} << 30) + 3;
  const std::size_t whole = count * 4;
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kReduce, OpKind::kBroadcast}) {
    for (int rank = 0; rank < 3; ++rank) {
      const Schedule s = make_schedule(
          {.count = count, .root = 1, .op = op, .dtype = DType::kF32},
          op == OpKind::kAllReduce ? Algorithm::kRing : Algorithm::kChain, rank, 3, true);
      std::size_t received = 0;
      for (const Transfer& t : s.receives) {
        EXPECT_LE(t.offset + t.bytes, whole);
        received += t.bytes;
      }
      if (op == OpKind::kAllReduce) {
        EXPECT_GE(received, whole);
      }
    }
  }
  const std::size_t counts[] = {count, 0, count};
  const std::vector<Part> parts = pack(counts, 4);
  EXPECT_EQ(parts[2].offset, whole);
  const Schedule gather = gather_schedule(parts, 0, 0, 3);
  EXPECT_EQ(gather.receives[1].offset, whole);
  EXPECT_EQ(gather.receives[1].bytes, whole);
}

// On a ring a chunk's sum begins wherever the chunk does: no order that all sizes could share.
TEST(Schedule, TreeOrderNeverTravelsAsPartialSums) {
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kReduce}) {
    const Descriptor d{.count = 1 << 20, .op = op, .dtype = DType::kF32, .order = Order::kTree};
    for (const Algorithm algorithm : algorithms_of(op, wants_raw_shares(d))) {
      for (const Transfer& t : make_schedule(d, algorithm, 1, 4, false).receives) {
        EXPECT_EQ(t.apply, Apply::kStore) << name_of(op) << " " << name_of(algorithm);
      }
    }
    EXPECT_THROW(make_schedule(d, Algorithm::kRing, 1, 4, false), Error);
  }
}

}  // namespace
}  // namespace dl::collectives
