#include <gtest/gtest.h>

#include <limits>

#include "core/ops/arithmetic.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Ints = std::vector<int>;

TEST(View, SharesStorageWithItsBase) {
  const Tensor x = arange(6);
  const Tensor v = x.view({2, -1});
  EXPECT_EQ(v.sizes(), (Shape{2, 3}));
  v.at<std::int64_t>({1, 0}) = 77;
  EXPECT_EQ(values<int>(x), (Ints{0, 1, 2, 77, 4, 5}));
  EXPECT_ERROR(v.t().view({6}), kShape,
               "view: a tensor of shape [3, 2] with strides [1, 3] cannot be seen as [6] without a "
               "copy; use reshape");
  EXPECT_EQ(values<int>(v.t().reshape({6})), (Ints{0, 77, 1, 4, 2, 5}));
}

TEST(View, SelectsAndSlicesAsPythonDoes) {
  const Tensor x = arange(12).view({3, 4});
  EXPECT_EQ(values<int>(x[-1]), (Ints{8, 9, 10, 11}));
  EXPECT_EQ(values<int>(x.select(1, 2)), (Ints{2, 6, 10}));
  EXPECT_EQ(values<int>(x.slice(1, 1, 4, 2)), (Ints{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(values<int>(x.slice(0, -2, 100)), (Ints{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(x.slice(0, 3, 1).sizes(), (Shape{0, 4}));
  EXPECT_EQ(values<int>(x.narrow(0, 1, 1)), (Ints{4, 5, 6, 7}));
  EXPECT_ERROR(x[3], kIndex, "select: index 3 is out of range for dimension 0 of [3, 4]");
  EXPECT_ERROR(x.slice(0, 0, 2, 0), kInvalidArgument, "slice: the step is 0, wanted at least 1");
  EXPECT_ERROR(x.narrow(0, 2, 2), kIndex,
               "narrow: 2 elements from 2 on are out of range for dimension 0 of [3, 4]");
  EXPECT_ERROR(x.narrow(0, INT64_MAX, 1), kIndex,
               "narrow: 1 elements from 9223372036854775807 on are out of range for dimension 0 of "
               "[3, 4]");
  EXPECT_EQ(values<int>(x.slice(0, 1, 3, INT64_MAX)), (Ints{4, 5, 6, 7}));
  EXPECT_ERROR(tensor(1.0)[0], kShape, "select: a tensor without dimensions has no index");
}

TEST(View, PermutesAndTransposes) {
  const Tensor x = arange(6).view({1, 2, 3});
  EXPECT_EQ(x.permute({2, 0, 1}).sizes(), (Shape{3, 1, 2}));
  EXPECT_EQ(values<int>(x.permute({2, 0, 1})), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(x.transpose(-1, 0).sizes(), (Shape{3, 2, 1}));
  EXPECT_ERROR(x.permute({0, 0, 1}), kInvalidArgument,
               "permute: [0, 0, 1] names dimension 0 twice");
  EXPECT_ERROR(x.permute({0, 1}), kShape, "permute: [0, 1] names 2 dimensions, the tensor has 3");
  EXPECT_ERROR(x.t(), kShape, "t: at most 2 dimensions were wanted, the shape is [1, 2, 3]");
}

TEST(View, ExpandsSqueezesAndFlattens) {
  const Tensor x = arange(3).view({3, 1});
  EXPECT_EQ(values<int>(x.expand({2, -1, 2})), (Ints{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_ERROR(x.expand({4, 2}), kShape,
               "expand: the shape [3, 1] cannot become [4, 2]; dimension 0 has size 3");
  EXPECT_ERROR(tensor(1.0).expand({INT64_MAX, 4}), kShape,
               "expand: the shape [9223372036854775807, 4] has too many elements");
  EXPECT_EQ(x.unsqueeze(0).unsqueeze(-1).sizes(), (Shape{1, 3, 1, 1}));
  EXPECT_EQ(x.squeeze(-1).sizes(), (Shape{3}));
  EXPECT_EQ(x.squeeze(0).sizes(), (Shape{3, 1}));
  EXPECT_EQ(ones({1, 2, 1}).squeeze().sizes(), (Shape{2}));
  EXPECT_EQ(ones({2, 3, 4}).flatten(1).sizes(), (Shape{2, 12}));
  EXPECT_EQ(tensor(1.0).flatten().sizes(), (Shape{1}));
  EXPECT_ERROR(ones({2, 3}).flatten(1, 0), kIndex,
               "flatten: the first dimension 1 comes after the last 0");
}

TEST(Copy, BetweenAllDtypesAndStrides) {
  constexpr DType kAll[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kI8,
                            DType::kU8,  DType::kI16,  DType::kU16, DType::kI32, DType::kU32,
                            DType::kI64, DType::kU64,  DType::kBool};
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      const Tensor x = tensor({0, 1, 1, 0, 1, 0}, {.dtype = from}).view({2, 3});
      EXPECT_EQ(values<int>(x.to(to)), (Ints{0, 1, 1, 0, 1, 0}));
      EXPECT_EQ(values<int>(x.t().to(to)), (Ints{0, 0, 1, 1, 1, 0}));
      Tensor y = zeros({3, 2}, {.dtype = to});
      y.t().copy_(x);
      EXPECT_EQ(values<int>(y), (Ints{0, 0, 1, 1, 1, 0}));
    }
  }
}

TEST(Copy, ConvertsAsPyTorchDoes) {
  EXPECT_EQ(values<int>(tensor({1.9, -1.9, 300.0}).to(DType::kU8)), (Ints{1, 255, 44}));
  EXPECT_EQ(
      values<int>(tensor({0.0, -0.5, std::numeric_limits<double>::quiet_NaN()}).to(DType::kBool)),
      (Ints{0, 1, 1}));
  EXPECT_EQ(tensor({std::int64_t{1} << 62}).to(DType::kU64).to(DType::kI64).item<std::int64_t>(),
            std::int64_t{1} << 62);
  EXPECT_EQ(tensor({-1}, {.dtype = DType::kU64}).to(DType::kF64).item<double>(),
            18446744073709551616.0);
}

TEST(Copy, BroadcastsIntoItsTargetOnly) {
  Tensor x = zeros({2, 3});
  x.copy_(tensor({1, 2, 3}));
  EXPECT_EQ(values<int>(x), (Ints{1, 2, 3, 1, 2, 3}));
  EXPECT_ERROR(x.copy_(ones({4, 2, 3})), kShape,
               "copy_: a source of shape [4, 2, 3] does not fit into [2, 3]");
  EXPECT_ERROR(x.copy_(Tensor()), kInvalidArgument, "copy_: the source is an undefined tensor");
}

TEST(Copy, KeepsOrChangesTheLayout) {
  const Tensor x = arange(24).view({1, 2, 3, 4}).contiguous(MemoryFormat::kChannelsLast);
  EXPECT_TRUE(x.is_channels_last());
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_EQ(values<int>(x), values<int>(arange(24)));
  EXPECT_TRUE(x.clone().is_channels_last());
  EXPECT_TRUE(x.to(DType::kF32).is_channels_last());
  EXPECT_TRUE(x.clone(MemoryFormat::kContiguous).is_contiguous());
  EXPECT_TRUE(x.contiguous(MemoryFormat::kChannelsLast).is_same(x));
  EXPECT_EQ(arange(6).view({2, 3}).t().clone().strides(), (Strides{1, 3}));
  EXPECT_TRUE(ones({1}).expand({4}).clone().is_contiguous());
}

TEST(Fill, OfStridedAndEmptyTensors) {
  Tensor x = zeros({2, 4}, {.dtype = DType::kI16});
  x.slice(1, 0, 4, 2).fill_(3);
  EXPECT_EQ(values<int>(x), (Ints{3, 0, 3, 0, 3, 0, 3, 0}));
  x.slice(0, 0, 0).fill_(9);
  x.fill_(-1.7);
  EXPECT_EQ(x[0][0].item<int>(), -1);
}

}  // namespace
}  // namespace dl
