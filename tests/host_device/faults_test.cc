// Each fault that is planted in faults.cu is found, and what is right is not accused.
#include "tests/host_device/faults.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

namespace dl::host_device::faults {
namespace {

class Faults : public testing::Test {
 protected:
  // A death test begins the program anew, because a fork would have no thread of a stream.
  Faults() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static float* make(int count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, static_cast<std::size_t>(count) * sizeof(float)), cudaSuccess);
    return static_cast<float*>(data);
  }
  float* make(const std::vector<float>& values) const {
    float* const data = make(static_cast<int>(values.size()));
    EXPECT_EQ(cudaMemcpyAsync(data, values.data(), values.size() * sizeof(float), cudaMemcpyDefault,
                              stream_),
              cudaSuccess);
    return data;
  }
  std::vector<float> read(const float* data, int count) const {
    std::vector<float> values(static_cast<std::size_t>(count));
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data, values.size() * sizeof(float), cudaMemcpyDefault,
                              stream_),
              cudaSuccess);
    return values;
  }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

  const cudaStream_t stream_ = [] {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0), cudaSuccess);
    return made;
  }();
};

// 100 floats end at a page, and 101 end 12 bytes before one.
constexpr int kWhole = 100;
constexpr int kPadded = 101;

TEST_F(Faults, WhatStaysInItsMemoryIsNone) {
  for (const int count : {kWhole, kPadded}) {
    float* const data = make(count);
    float* const sums = make(count - 1);
    number(data, count, stream_);
    add_neighbours(data, sums, count - 1, stream_);
    wait();
    EXPECT_EQ(read(sums, count - 1).back(), 2 * count - 3);
    EXPECT_EQ(cudaFree(data), cudaSuccess);
    EXPECT_EQ(cudaFree(sums), cudaSuccess);
  }
}

TEST_F(Faults, AWriteBehindTheEndIsNamed) {
  EXPECT_DEATH(
      {
        number(make(kWhole), kWhole + 1, stream_);
        wait();
      },
      "the kernel of .*faults.cu:[0-9]+ .*number.*, block \\(1, 0, 0\\), thread \\(36, 0, 0\\), "
      "writes at offset 400 of allocation 1, which has 400 bytes on device 0 "
      ".DLRUN_TEST_ORDER=");
}

TEST_F(Faults, AWriteIntoTheRestOfAPageIsFound) {
  EXPECT_DEATH(
      {
        number(make(kPadded), kPadded + 1, stream_);
        wait();
      },
      "bytes behind allocation 1, which has 404 bytes on device 0 were written, as is found "
      "behind the kernel of .*faults.cu:[0-9]+ .*number");
}

TEST_F(Faults, AWriteBeforeTheBeginningIsFound) {
  EXPECT_DEATH(
      {
        number_from_before(make(kWhole), kWhole, stream_);
        wait();
      },
      "bytes before allocation 1, .*behind the kernel of .*number_from_before");
  constexpr int kPage = 4096 / sizeof(float);
  EXPECT_DEATH(
      {
        number_from_before(make(kPage), kPage, stream_);
        wait();
      },
      "number_from_before.* writes at offset -4 of allocation 1");
}

TEST_F(Faults, AReadBehindTheEndIsNamedOrNan) {
  EXPECT_DEATH(
      {
        float* const data = make(kWhole);
        float* const sums = make(kWhole);
        number(data, kWhole, stream_);
        add_neighbours(data, sums, kWhole, stream_);
        wait();
      },
      "add_neighbours.* reads at offset 400 of allocation 1");
  float* const data = make(kPadded);
  float* const sums = make(kPadded);
  number(data, kPadded, stream_);
  add_neighbours(data, sums, kPadded, stream_);
  EXPECT_TRUE(std::isnan(read(sums, kPadded).back()));
}

TEST_F(Faults, AUseOfFreedMemoryIsNamed) {
  EXPECT_DEATH(
      {
        float* const data = make(kWhole);
        EXPECT_EQ(cudaFree(data), cudaSuccess);
        make(kWhole);
        number(data, kWhole, stream_);
        wait();
      },
      "number.* writes at offset [0-9]+ of allocation 1, which has 400 bytes on device 0 and was "
      "freed");
}

TEST_F(Faults, AnAccessThatIsNotAlignedIsNamed) {
  float* const in = make(std::vector<float>(kWhole, 1));
  float* const out = make(kWhole);
  copy_fours(in, out, kWhole, stream_);
  EXPECT_EQ(read(out, kWhole).back(), 1);
  EXPECT_DEATH(
      {
        copy_fours(make(kWhole) + 1, make(kWhole), 4, stream_);
        wait();
      },
      "copy_fours.* accesses 16 bytes that are not aligned, in line [0-9]+ of .*faults.cu, at "
      "offset 4 of allocation [0-9]+, which has 400 bytes");
  EXPECT_DEATH(
      {
        copy_fours(make(kWhole), make(kWhole) + 3, 4, stream_);
        wait();
      },
      "copy_fours.* accesses 16 bytes .*offset 12 of allocation");
}

TEST_F(Faults, UnwrittenMemoryIsNan) {
  float* const sums = make(kPadded);
  accumulate(make(std::vector<float>(kPadded, 1)), sums, kPadded, stream_);
  for (const float sum : read(sums, kPadded)) ASSERT_TRUE(std::isnan(sum));

  double f64 = 0;
  std::int32_t i32 = 0;
  std::uint16_t half = 0;
  const float* const fresh = make(2);
  const std::vector<float> values = read(fresh, 2);
  std::memcpy(&f64, values.data(), sizeof f64);
  std::memcpy(&i32, values.data(), sizeof i32);
  std::memcpy(&half, values.data(), sizeof half);
  EXPECT_TRUE(std::isnan(f64));
  EXPECT_GT(i32, 1 << 30) << "an index that leaves every tensor";
  EXPECT_GT(half & 0x7fff, 0x7c00) << "NaN in f16";
  EXPECT_GT(half & 0x7fff, 0x7f80) << "NaN in bf16";
}

TEST_F(Faults, UnwrittenSharedMemoryIsNan) {
  float* const sum = make(1);
  sum_half_written(sum, stream_);
  EXPECT_TRUE(std::isnan(read(sum, 1).front()));
}

TEST_F(Faults, ASumInTheOrderOfBlocksHasManyResults) {
  constexpr int kBlocks = 8;
  std::vector<float> values;
  for (int i = 0; i < kBlocks; ++i)
    values.push_back(std::ldexp(1.0F, 8 * i) * (i % 2 == 0 ? 1 : -1));
  const float* const in = make(values);
  const auto results = [&](auto sum) {
    std::set<float> found;
    for (int run = 0; run < 20; ++run) {
      float* const out = make(std::vector<float>{0});
      sum(in, out, kBlocks, stream_);
      found.insert(read(out, 1).front());
    }
    return found.size();
  };
  EXPECT_GT(results(sum_block_after_block), 1U);
  EXPECT_EQ(results(sum_in_order), 1U);
}

TEST_F(Faults, AReductionByOneThreadIsNamed) {
  constexpr int kMany = 4000;
  const std::vector<float> ones(kMany, 1);
  float* const sum = make(1);
  total(make(ones), sum, kMany, true, stream_);
  EXPECT_EQ(read(sum, 1).front(), kMany);
  total(make(ones), sum, 50, false, stream_);
  EXPECT_EQ(read(sum, 1).front(), 50) << "a few steps are not worth a group";
  EXPECT_DEATH(
      {
        total(make(ones), make(1), kMany, false, stream_);
        wait();
      },
      "the kernel of .*faults.cu:[0-9]+ .*total.*, block \\(0, 0, 0\\), thread \\(0, 0, 0\\), "
      "takes "
      "[0-9]+ steps, and the next of its block [0-9]+");
}

TEST_F(Faults, AMissingBarrierIsSeenInOneBlock) {
  const auto right = [&](bool waits) {
    float* const out = make(64);
    shift(out, waits, stream_);
    int equal = 0;
    const std::vector<float> values = read(out, 64);
    for (int i = 0; i < 64; ++i) equal += values[i] == (i == 0 ? 0 : i - 1);
    return equal;
  };
  EXPECT_EQ(right(true), 64);
  EXPECT_LT(right(false), 64);
}

}  // namespace
}  // namespace dl::host_device::faults
