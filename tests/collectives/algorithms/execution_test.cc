// Executions of all ranks, connected by queues of slices: sums are right in any order of events,
// with several receives begun before the first one is over.
#include "collectives/algorithms/execution/execution.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

namespace dl::collectives {
namespace {

using Value = std::int32_t;

struct Wires {
  struct Place {
    std::byte* to;
    std::size_t bytes;
  };
  std::deque<std::vector<std::byte>> sent;  // slices that have not arrived
  std::deque<Place> begun;                  // receives
};

class Ranks {
 public:
  Ranks(const Descriptor& d, Algorithm algorithm, int size, unsigned seed)
      : size_(size), random_(seed), outputs_(at(size)), wires_(at(size * size)) {
    for (int r = 0; r < size; ++r) {
      inputs_.emplace_back(d.count, r + 1);
      outputs_[at(r)].resize(d.count);
      const CallOptions options;
      const Call call{.what = d,
                      .input = inputs_[at(r)].data(),
                      .output = outputs_[at(r)].data(),
                      .options = &options};
      executions_.emplace_back(call, make_schedule(d, algorithm, r, size, false), size);
    }
  }

  // False if no rank can go on.
  bool run() {
    for (int idle = 0; idle < 2000; ++idle) {
      const int r = static_cast<int>(random_() % at(size_));
      const int peer = static_cast<int>(random_() % at(size_));
      if (r != peer && (random_() % 2 == 0 ? send(r, peer) : receive(r, peer))) idle = 0;
      if (executions_[at(r)].combine_ready()) idle = 0;
    }
    for (const Execution& e : executions_) {
      if (!e.is_finished()) return false;
    }
    return true;
  }

  const std::vector<Value>& output(int r) const { return outputs_[at(r)]; }

 private:
  static std::size_t at(int r) { return static_cast<std::size_t>(r); }

  bool send(int from, int to) {
    Execution& e = executions_[at(from)];
    const auto slice = e.next_send(to);
    if (!slice) return false;
    EXPECT_TRUE(e.needs(to));
    wires_[at(from * size_ + to)].sent.emplace_back(slice->data, slice->data + slice->bytes);
    e.begin_send(to, slice->bytes);
    e.end_send(to, slice->bytes);
    return true;
  }

  bool receive(int to, int from) {
    Execution& e = executions_[at(to)];
    Wires& wire = wires_[at(from * size_ + to)];
    if (const auto place = wire.begun.size() < 3 ? e.next_receive(from) : std::nullopt) {
      wire.begun.push_back({place->to, place->bytes});
      e.begin_receive(from, place->bytes);
      return true;
    }
    if (wire.begun.empty() || wire.sent.empty()) return false;
    const std::vector<std::byte>& slice = wire.sent.front();
    const Wires::Place place = wire.begun.front();
    EXPECT_EQ(slice.size(), place.bytes);
    EXPECT_EQ(e.place(from), place.to);
    if (place.to != nullptr) std::memcpy(place.to, slice.data(), slice.size());
    e.apply(from, slice.data(), slice.size());
    e.end_receive(from);
    wire.begun.pop_front();
    wire.sent.pop_front();
    return true;
  }

  const int size_;
  std::mt19937 random_;
  std::vector<std::vector<Value>> inputs_, outputs_;
  std::deque<Execution> executions_;
  std::vector<Wires> wires_;
};

TEST(Executions, SumOverEveryAlgorithmInAnyOrderOfEvents) {
  unsigned seed = 0;
  for (const int size : {2, 3, 4, 7}) {
    for (const std::uint64_t count : {0, 5, 100'000}) {
      const Descriptor d{.count = count, .op = OpKind::kAllReduce, .dtype = DType::kI32};
      for (const Algorithm algorithm : algorithms_of(d.op, wants_raw_shares(d))) {
        Ranks ranks(d, algorithm, size, ++seed);
        ASSERT_TRUE(ranks.run()) << name_of(algorithm) << " " << size << " " << count;
        for (int r = 0; r < size; ++r) {
          ASSERT_EQ(ranks.output(r), std::vector<Value>(count, size * (size + 1) / 2))
              << name_of(algorithm) << " " << size << " " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dl::collectives
