// The host's side of CUDA launches, which needs no device: from a loop to offsets, and from many
// tensors to lists of chunks.
#include <gtest/gtest.h>

#include <vector>

#include "core/kernels/cuda/common/strided.h"
#include "core/kernels/cuda/common/tensor_list.h"

namespace dl::kernels::cuda {
namespace {

TEST(OffsetMap, GoesWhereTheStridedLoopGoes) {
  const std::vector<std::pair<Shape, std::array<Strides, 2>>> cases = {
      {{}, {Strides{}, Strides{}}},
      {{1}, {Strides{1}, Strides{7}}},
      {{6}, {Strides{1}, Strides{0}}},
      {{3, 5}, {Strides{5, 1}, Strides{1, 3}}},
      {{2, 3, 4, 5}, {Strides{60, 1, 15, 3}, Strides{0, 20, 0, 1}}},
      {{2, 1, 2, 3, 2, 3, 2}, {Strides{72, 72, 36, 12, 6, 2, 1}, Strides{1, 0, 2, 4, 12, 24, 72}}},
  };
  for (const auto& [shape, strides] : cases) {
    const auto loop = make_loop<2>(shape, strides);
    std::vector<std::array<std::int64_t, 2>> wanted;
    walk(loop, 0, loop.count, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        wanted.push_back({at[0] + i * loop.inner_stride(0), at[1] + i * loop.inner_stride(1)});
      }
    });
    for_each_part(loop, [&](const OffsetMap<2>& map, const std::array<std::int64_t, 2>& first) {
      ASSERT_EQ(map.count, wanted.size());
      for (std::uint32_t i = 0; i < map.count; ++i) {
        const Offsets<2> at = map(i);
        EXPECT_EQ(first[0] + at.at[0], wanted[i][0]) << shape.str() << " " << i;
        EXPECT_EQ(first[1] + at.at[1], wanted[i][1]) << shape.str() << " " << i;
      }
    });
  }
}

// Eight thousand million elements are cut into parts that follow each other.
TEST(OffsetMap, LongLoopsAreCut) {
  constexpr std::int64_t kOuter = 5;
  constexpr std::int64_t kInner = 1'600'000'001;
  const auto loop = make_loop<1>({kOuter, kInner}, {Strides{kInner + 3, 1}});
  std::int64_t count = 0;
  std::int64_t row = 0;
  for_each_part(loop, [&](const OffsetMap<1>& map, const std::array<std::int64_t, 1>& first) {
    EXPECT_EQ(first[0], row * (kInner + 3));
    row += map.count / kInner;
    count += map.count;
    const std::int64_t in_last_row = (map.count / kInner - 1) * (kInner + 3) + kInner - 1;
    EXPECT_EQ(map(map.count - 1).at[0], in_last_row);
  });
  EXPECT_EQ(count, kOuter * kInner);
  const auto one_row = make_loop<1>({std::int64_t{1} << 33}, {Strides{2}});
  std::int64_t next = 0;
  for_each_part(one_row, [&](const OffsetMap<1>& map, const std::array<std::int64_t, 1>& first) {
    EXPECT_EQ(first[0], next * 2);
    next += map.count;
  });
  EXPECT_EQ(next, std::int64_t{1} << 33);
  // Rows that are cut themselves, of which each part then has one.
  constexpr std::int64_t kLong = 3'000'000'001;
  const auto rows = make_loop<1>({3, kLong}, {Strides{kLong + 3, 1}});
  std::int64_t element = 0;
  for_each_part(rows, [&](const OffsetMap<1>& map, const std::array<std::int64_t, 1>& first) {
    EXPECT_EQ(first[0], element / kLong * (kLong + 3) + element % kLong);
    EXPECT_EQ(map(map.count - 1).at[0], map.count - 1);
    element += map.count;
  });
  EXPECT_EQ(element, 3 * kLong);
}

TEST(TensorList, CoversEveryChunkOfEveryTensorOnce) {
  std::vector<std::int64_t> sizes(150, 10);
  sizes[3] = 0;
  sizes[7] = kChunk;
  sizes[8] = kChunk + 1;
  sizes[60] = 700 * kChunk - 5;  // more than a launch takes
  std::vector<std::int64_t> seen(sizes.size(), 0);
  int launches = 0;
  for_each_list<1>(
      sizes.size(), [&](std::size_t i) { return sizes[i]; },
      [&](TensorList<1>& list, int slot, std::size_t i) {
        list.pointers[slot][0] = &seen[i];
        list.marks[slot] = 7;
      },
      [&](const TensorList<1>& list, int blocks, int tensors) {
        ++launches;
        ASSERT_LE(blocks, kListBlocks);
        ASSERT_LE(tensors, kListTensors);
        for (int b = 0; b < blocks; ++b) {
          const int tensor = list.tensor_of[b];
          ASSERT_LT(tensor, tensors);
          EXPECT_EQ(list.marks[tensor], 7);
          auto& done = *static_cast<std::int64_t*>(list.pointers[tensor][0]);
          const std::int64_t begin = list.chunk_of[b] * kChunk;
          EXPECT_EQ(begin, done);  // in order
          done = std::min(begin + kChunk, list.sizes[tensor]);
        }
      });
  EXPECT_EQ(seen, sizes);
  EXPECT_GE(launches, 4);
}

}  // namespace
}  // namespace dl::kernels::cuda
