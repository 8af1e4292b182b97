// Rooted operations, all_to_all and the v-variants: calls that differ, and wrong arguments.
#include <gtest/gtest.h>

#include <latch>

#include "collectives/call/descriptor.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

using Counts = std::vector<std::size_t>;

// Every rank gets the same error, which quotes both sides.
void expect_mismatch(const std::vector<std::string>& quotes,
                     const std::function<void(ProcessGroup&)>& call) {
  std::latch over(3);
  run_ranks(3, [&](ProcessGroup& group) {
    const Thrown thrown = thrown_by([&] {
      call(group);
      for (;;) group.barrier()->wait();
    });
    over.arrive_and_wait();  // who leaves early is an error of its own to the others
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
    for (const std::string& quote : quotes) {
      EXPECT_NE(thrown.text.find(quote), std::string::npos)
          << "no '" << quote << "' in: " << thrown.text;
    }
  });
}

TEST(TcpPartsMismatch, OfRootQuotesBothSides) {
  for (const std::size_t count : {4u, 100'000u}) {
    const auto root_of = [](const ProcessGroup& group) { return group.rank() == 0 ? 0 : 1; };
    const auto buffer = [&] { return std::vector<float>(3 * count); };
    expect_mismatch({"to root 0", "to root 1", "reduce #1"}, [&](ProcessGroup& group) {
      auto x = buffer(), y = buffer();
      group.reduce({.input = x.data(), .output = y.data(), .count = count, .root = root_of(group)})
          ->wait();
    });
    expect_mismatch({"to root 0", "to root 1", "gather #1"}, [&](ProcessGroup& group) {
      auto x = buffer(), y = buffer();
      group.gather({.input = x.data(), .output = y.data(), .count = count, .root = root_of(group)})
          ->wait();
    });
    expect_mismatch({"from root 0", "from root 1", "scatter #1"}, [&](ProcessGroup& group) {
      auto x = buffer(), y = buffer();
      group
          .scatter({.input = x.data(), .output = y.data(), .count = count, .root = root_of(group)})
          ->wait();
    });
  }
}

TEST(TcpPartsMismatch, OfCountAndOperationQuotesBothSides) {
  expect_mismatch({"all_to_all #1", "f32[8]", "f32[9]"}, [](ProcessGroup& group) {
    std::vector<float> x(27), y(27);
    group
        .all_to_all({.input = x.data(),
                     .output = y.data(),
                     .count = group.rank() == 2 ? std::size_t{9} : std::size_t{8}})
        ->wait();
  });
  expect_mismatch({"gather #1 (f32[2] to root 0)", "scatter #1 (f32[2] from root 0)"},
                  [](ProcessGroup& group) {
                    std::vector<float> x(6), y(6);
                    if (group.rank() == 1) {
                      group.scatter({.input = x.data(), .output = y.data(), .count = 2})->wait();
                    } else {
                      group.gather({.input = x.data(), .output = y.data(), .count = 2})->wait();
                    }
                  });
}

TEST(TcpPartsMismatch, OfAPartsCountQuotesBothNumbers) {
  // Equal sums, so that only the parts themselves can tell; rank 0 finds two that differ.
  expect_mismatch(
      {"all_gatherv #1: rank ", "sends f32[2], rank 0 (", "from it"}, [](ProcessGroup& group) {
        const Counts counts = group.rank() == 0 ? Counts{1, 3, 1} : Counts{1, 2, 2};
        std::vector<float> x(3), y(5);
        group.all_gatherv({.input = x.data(), .output = y.data(), .counts = counts})->wait();
      });
}

TEST(TcpPartsMismatch, OfCountsInAllToAllvGathervAndScatterv) {
  expect_mismatch({"all_to_allv #1: rank 1 (", "sends i32[5], rank 0 (", "expects i32[0] from it"},
                  [](ProcessGroup& group) {
                    Counts send(3, 0);
                    const Counts receive(3, 0);
                    if (group.rank() == 1) send[0] = 5;
                    std::vector<int> x(5), y(5);
                    group
                        .all_to_allv({.input = x.data(),
                                      .send_counts = send,
                                      .output = y.data(),
                                      .receive_counts = receive,
                                      .dtype = DType::kI32})
                        ->wait();
                  });
  expect_mismatch({"gatherv #1: rank 2 (", "sends i32[4], rank 0 (", "expects i32[1] from it"},
                  [](ProcessGroup& group) {
                    const Counts counts(3, 1);
                    std::vector<int> x(4), y(3);
                    group
                        .gatherv({.input = x.data(),
                                  .count = group.rank() == 2 ? std::size_t{4} : std::size_t{1},
                                  .output = y.data(),
                                  .counts = counts,
                                  .dtype = DType::kI32})
                        ->wait();
                  });
  expect_mismatch({"scatterv #1: rank 0 (", "sends i32[1], rank 2 (", "expects i32[4] from it"},
                  [](ProcessGroup& group) {
                    const Counts counts(3, 1);
                    std::vector<int> x(3), y(4);
                    group
                        .scatterv({.input = x.data(),
                                   .counts = counts,
                                   .output = y.data(),
                                   .count = group.rank() == 2 ? std::size_t{4} : std::size_t{1},
                                   .dtype = DType::kI32})
                        ->wait();
                  });
}

TEST(TcpPartsArguments, AreCheckedBeforeAnythingIsSent) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(8), y(8);
    const Counts two{1, 1};
    const Counts three{1, 1, 1};
    EXPECT_EQ(thrown_by([&] {
                group.all_gatherv({.input = x.data(), .output = y.data(), .counts = three});
              }).text,
              "all_gatherv: counts has 3 elements, wanted one for each of 2 ranks");
    EXPECT_EQ(thrown_by([&] {
                const float* const others = x.data() + 5 - group.rank();
                group.all_gatherv({.input = others, .output = x.data() + 4, .counts = two});
              }).text,
              "all_gatherv: input overlaps output elsewhere than at this rank's part");
    EXPECT_EQ(thrown_by([&] {
                group.reduce({.input = x.data(), .output = y.data(), .count = 1, .root = -1});
              }).text,
              "reduce: root is -1, wanted a rank of this group, 0 to 1");
    const Counts huge{std::size_t{1} << 60, std::size_t{1} << 60};
    EXPECT_EQ(
        thrown_by([&] {
          group.all_to_allv(
              {.input = x.data(), .send_counts = huge, .output = y.data(), .receive_counts = two});
        }).text,
        "all_to_allv: the sum of send_counts is more than memory can hold");
    EXPECT_EQ(thrown_by([&] {
                group.all_to_all({.input = x.data(), .output = x.data() + 1, .count = 1});
              }).kind,
              ErrorKind::kInvalidArgument);
  });
}

}  // namespace
}  // namespace dl::collectives
