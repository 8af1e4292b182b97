// What is made of a group's operations: custom reductions, coalesced calls, byte strings.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <latch>
#include <vector>

#include "collectives/compose/coalesced.h"
#include "collectives/compose/custom_reduce.h"
#include "collectives/compose/objects.h"
#include "tests/collectives/conformance/conformance.h"
#include "tests/collectives/patterns.h"
#include "tests/collectives/thrown.h"
#include "tests/support/eventually.h"

namespace dl::collectives::testing {
namespace {

TEST_P(Conformance, PremultipliedSumTakesEveryRanksOwnFactor) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const double factor = group.rank() + 1;
    double wanted = 0;
    for (int r = 0; r < size; ++r) wanted += 2.0 * (r + 1);
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      const auto ranks = static_cast<std::size_t>(size);
      const std::size_t count = 37;
      Bytes input(count * ranks * size_of(dtype));
      for (std::size_t i = 0; i < count * ranks; ++i) put(input, dtype, i, 2.0);
      const Bytes before = input;
      Bytes output(count * size_of(dtype));
      const auto is_right = [&](const Bytes& x) {
        for (std::size_t i = 0; i < count; ++i) {
          if (get(x, dtype, i) != wanted) return false;
        }
        return true;
      };
      premul_all_reduce(
          group, {.input = input.data(), .output = output.data(), .count = count, .dtype = dtype},
          factor)
          ->wait();
      EXPECT_TRUE(is_right(output)) << short_name(dtype);
      output = Bytes(output.size());
      premul_reduce_scatter(
          group, {.input = input.data(), .output = output.data(), .count = count, .dtype = dtype},
          factor)
          ->wait();
      EXPECT_TRUE(is_right(output)) << short_name(dtype);
      output = Bytes(output.size());
      premul_reduce(group,
                    {.input = input.data(),
                     .output = output.data(),
                     .count = count,
                     .dtype = dtype,
                     .root = size - 1},
                    factor)
          ->wait();
      EXPECT_EQ(is_right(output), group.rank() == size - 1) << short_name(dtype);
      EXPECT_EQ(input, before);
    }
    int x = 1;
    EXPECT_EQ(thrown_by([&] {
                premul_all_reduce(group,
                                  {.input = &x, .output = &x, .count = 1, .dtype = DType::kI32}, 2);
              }).text,
              "all_reduce: a factor needs a floating dtype, got i32");
  });
}

// 2x2 integer matrices: associative and not commutative, so that the order shows.
using Matrix = std::array<std::int64_t, 4>;
Matrix matrix(int rank, std::size_t i) {
  return {1, rank + static_cast<std::int64_t>(i % 3), rank % 2, 1};
}
Matrix times(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
          a[2] * b[1] + a[3] * b[3]};
}
Matrix product(int size, std::size_t i) {
  Matrix all = matrix(0, i);
  for (int r = 1; r < size; ++r) all = times(all, matrix(r, i));
  return all;
}
void multiply(const void* in, void* inout, std::size_t count) {
  const auto* const right = static_cast<const Matrix*>(in);
  auto* const left = static_cast<Matrix*>(inout);
  for (std::size_t i = 0; i < count; ++i) left[i] = times(left[i], right[i]);
}

TEST_P(Conformance, UserDefinedReductionFoldsInRankOrder) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (const std::size_t count : {0u, 1u, 3000u}) {
      const auto rank = static_cast<std::size_t>(group.rank());
      std::vector<Matrix> input;
      for (std::size_t i = 0; i < count * static_cast<std::size_t>(size); ++i) {
        input.push_back(matrix(group.rank(), i));
      }
      std::vector<Matrix> output(count);
      UserReduceOptions options{.input = input.data(),
                                .output = output.data(),
                                .count = count,
                                .element_bytes = sizeof(Matrix),
                                .function = multiply};
      user_reduce_scatter(group, options)->wait();
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(output[i], product(size, rank * count + i));
      }
      user_reduce(group, options, 0)->wait();
      for (std::size_t i = 0; rank == 0 && i < count; ++i) ASSERT_EQ(output[i], product(size, i));
      options.output = input.data();  // in place
      user_all_reduce(group, options)->wait();
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(input[i], product(size, i));
    }
  });
}

TEST_P(Conformance, CoalescedReductionsEqualSingleOnes) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const std::size_t counts[] = {1, 0, 1000, 7, 30'001};
    std::vector<Bytes> inputs, outputs;
    std::vector<AllReduceOptions> parts;
    for (const std::size_t count : counts) {
      inputs.push_back(filled(DType::kF32, group.rank(), count));
      outputs.emplace_back(inputs.back().size());
    }
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      const bool in_place = k % 2 == 0;
      parts.push_back({.input = inputs[k].data(),
                       .output = in_place ? inputs[k].data() : outputs[k].data(),
                       .count = counts[k]});
    }
    all_reduce_coalesced(group, parts)->wait();
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      const Bytes& result = k % 2 == 0 ? inputs[k] : outputs[k];
      for (std::size_t i = 0; i < counts[k]; i = next_look(i, counts[k])) {
        ASSERT_EQ(get(result, DType::kF32, i), expected(DType::kF32, ReduceOp::kSum, size, i));
      }
    }
    all_reduce_coalesced(group, {})->wait();
    parts[2].dtype = DType::kI32;
    EXPECT_EQ(thrown_by([&] { all_reduce_coalesced(group, parts); }).kind,
              ErrorKind::kInvalidArgument);
  });
}

TEST_P(Conformance, CoalescedGathersEqualSingleOnes) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const std::size_t counts[] = {1, 0, 1000, 7, 30'001};
    std::vector<Bytes> inputs, outputs;
    std::vector<AllGatherOptions> parts;
    for (const std::size_t count : counts) {
      inputs.push_back(filled(DType::kI16, group.rank(), count));
      outputs.emplace_back(inputs.back().size() * static_cast<std::size_t>(size));
    }
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      parts.push_back({.input = inputs[k].data(),
                       .output = outputs[k].data(),
                       .count = counts[k],
                       .dtype = DType::kI16});
    }
    all_gather_coalesced(group, parts)->wait();
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      Bytes wanted;
      for (int r = 0; r < size; ++r) {
        const Bytes part = filled(DType::kI16, r, counts[k]);
        wanted.insert(wanted.end(), part.begin(), part.end());
      }
      EXPECT_EQ(outputs[k], wanted) << counts[k];
    }
    all_gather_coalesced(group, {})->wait();
  });
}

TEST_P(Conformance, CoalescedReduceScattersEqualSingleOnes) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const std::size_t counts[] = {1, 0, 1000, 7, 10'001};
    std::vector<Bytes> inputs, outputs;
    std::vector<ReduceScatterOptions> parts;
    for (const std::size_t count : counts) {
      inputs.push_back(filled(DType::kF32, group.rank(), count * static_cast<std::size_t>(size)));
      outputs.emplace_back(count * sizeof(float));
    }
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      parts.push_back({.input = inputs[k].data(), .output = outputs[k].data(), .count = counts[k]});
    }
    reduce_scatter_coalesced(group, parts)->wait();
    for (std::size_t k = 0; k < std::size(counts); ++k) {
      const std::size_t first = counts[k] * static_cast<std::size_t>(group.rank());
      for (std::size_t i = 0; i < counts[k]; i = next_look(i, counts[k])) {
        ASSERT_EQ(get(outputs[k], DType::kF32, i),
                  expected(DType::kF32, ReduceOp::kSum, size, first + i));
      }
    }
    parts[0].op = ReduceOp::kMax;
    EXPECT_EQ(
        thrown_by([&] { reduce_scatter_coalesced(group, parts); }).text,
        "reduce_scatter_coalesced: one part is f32 max, another f32 sum; coalesce parts of one "
        "dtype and reduction");
  });
}

// Says when it is let go.
struct LetGo final : RefCounted {
  explicit LetGo(std::latch& latch) : gone(latch) {}
  ~LetGo() override { gone.count_down(); }
  std::latch& gone;
};

UserReduceOptions largest_of(const std::vector<int>& input, std::vector<int>& output) {
  return {.input = input.data(),
          .output = output.data(),
          .count = input.size(),
          .element_bytes = sizeof(int),
          .function = [](const void* in, void* inout, std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) {
              int& best = static_cast<int*>(inout)[i];
              best = std::max(best, static_cast<const int*>(in)[i]);
            }
          }};
}

TEST_P(Conformance, IsCompletedReportsTheOutputWithoutAWait) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (int round = 0; round < 20; ++round) {
      const std::vector<int> input(100, group.rank());
      std::vector<int> output(100, -1);
      const Ref<Work> work = user_all_reduce(group, largest_of(input, output));
      EXPECT_TRUE(tests::eventually([&] { return work->is_completed(); }));
      EXPECT_EQ(output.front(), size - 1);
      EXPECT_EQ(work->error(), nullptr);
      float a = 1, b = 2, sum_a = 0, sum_b = 0;
      const AllReduceOptions parts[] = {{.input = &a, .output = &sum_a, .count = 1},
                                        {.input = &b, .output = &sum_b, .count = 1}};
      const Ref<Work> both = all_reduce_coalesced(group, parts, {});
      EXPECT_TRUE(tests::eventually([&] { return both->is_completed(); }));
      EXPECT_EQ(sum_a, static_cast<float>(size));
      EXPECT_EQ(sum_b, static_cast<float>(2 * size));
    }
  });
}

TEST_P(Conformance, WritesItsOutputThoughItIsDropped) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    std::latch written(2);
    const std::vector<int> input(100, group.rank());
    std::vector<int> output(100, -1);
    UserReduceOptions options = largest_of(input, output);
    options.call.keep_alive = make_ref<LetGo>(written);
    user_all_reduce(group, options);
    options.call.keep_alive = nullptr;
    float a = 1, sum = 0;
    const AllReduceOptions parts[] = {{.input = &a, .output = &sum, .count = 1}};
    all_reduce_coalesced(group, parts, {.keep_alive = make_ref<LetGo>(written)});
    // Owners go with later calls, which all ranks make.
    for (float all_are_written = 0; all_are_written == 0;) {
      all_are_written = written.try_wait() ? 1 : 0;
      group
          .all_reduce({.input = &all_are_written,
                       .output = &all_are_written,
                       .count = 1,
                       .op = ReduceOp::kMin})
          ->wait();
    }
    EXPECT_EQ(output.back(), size - 1);
    EXPECT_EQ(sum, static_cast<float>(size));
  });
}

TEST_P(Conformance, ByteStringsOfAnyLengthFindTheirWay) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const auto of = [](int rank) {
      return rank == 1 ? std::string()
                       : std::string(static_cast<std::size_t>(rank * 40'000 + 1),
                                     static_cast<char>('a' + rank)) +
                             '\0';
    };
    std::vector<std::string> wanted;
    for (int r = 0; r < size; ++r) wanted.push_back(of(r));
    EXPECT_EQ(all_gather_bytes(group, of(group.rank())), wanted);
    const int root = size - 1;
    const bool is_root = group.rank() == root;
    EXPECT_EQ(gather_bytes(group, of(group.rank()), root),
              is_root ? wanted : std::vector<std::string>());
    EXPECT_EQ(broadcast_bytes(group, is_root ? "news" : "not read", root), "news");
    EXPECT_EQ(broadcast_bytes(group, "", root), "");
    EXPECT_EQ(scatter_bytes(group, is_root ? wanted : std::vector<std::string>(), root),
              of(group.rank()));
  });
}

}  // namespace
}  // namespace dl::collectives::testing
