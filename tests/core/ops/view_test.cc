#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/product.h"
#include "core/ops/order/order.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
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

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> run;
};

// Calls that change nothing, of a tensor [3]: which of them give a view, the tensor itself or a new
// one, as in PyTorch.
TEST(View, WithoutEffectIsATensorOfItsOwn) {
  const Case kViews[] = {
      {"view", [](const Tensor& x) { return x.view({3}); }},
      {"view_as", [](const Tensor& x) { return x.view_as(x); }},
      {"reshape", [](const Tensor& x) { return x.reshape({-1}); }},
      {"reshape_as", [](const Tensor& x) { return x.reshape_as(x); }},
      {"expand", [](const Tensor& x) { return x.expand({3}); }},
      {"expand to -1", [](const Tensor& x) { return x.expand({-1}); }},
      {"expand_as", [](const Tensor& x) { return x.expand_as(x); }},
      {"broadcast_to", [](const Tensor& x) { return x.broadcast_to({3}); }},
      {"squeeze", [](const Tensor& x) { return x.squeeze(); }},
      {"squeeze(0)", [](const Tensor& x) { return x.squeeze(0); }},
      {"transpose", [](const Tensor& x) { return x.transpose(0, 0); }},
      {"permute", [](const Tensor& x) { return x.permute({0}); }},
      {"movedim", [](const Tensor& x) { return x.movedim(0, 0); }},
      {"t", [](const Tensor& x) { return x.t(); }},
      {"T", [](const Tensor& x) { return x.T(); }},
      {"narrow", [](const Tensor& x) { return x.narrow(0, 0, 3); }},
      {"slice", [](const Tensor& x) { return x.slice(0, 0, 3); }},
      {"unflatten", [](const Tensor& x) { return x.unflatten(0, {3}); }},
      {"split", [](const Tensor& x) { return x.split(3)[0]; }},
      {"chunk", [](const Tensor& x) { return x.chunk(1)[0]; }},
      {"meshgrid", [](const Tensor& x) { return meshgrid(std::span(&x, 1))[0]; }},
      {"index by ...", [](const Tensor& x) { return Tensor(x.index({"..."})); }},
      {"index by :", [](const Tensor& x) { return Tensor(x.index({indexing::Slice()})); }},
      {"index by nothing", [](const Tensor& x) { return Tensor(x.index({})); }},
  };
  const Case kSame[] = {
      {"flatten", [](const Tensor& x) { return x.flatten(); }},
      {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
      {"to dtype", [](const Tensor& x) { return x.to(x.dtype()); }},
      {"to device", [](const Tensor& x) { return x.to(x.device()); }},
      {"cpu", [](const Tensor& x) { return x.cpu(); }},
  };
  const Case kNew[] = {
      {"clone", [](const Tensor& x) { return x.clone(); }},
      {"repeat", [](const Tensor& x) { return x.repeat({1}); }},
      {"tile", [](const Tensor& x) { return x.tile({1}); }},
      {"repeat_interleave", [](const Tensor& x) { return x.repeat_interleave(1); }},
      {"roll", [](const Tensor& x) { return x.roll({0}, {0}); }},
      {"roll of all", [](const Tensor& x) { return x.roll({3}); }},
      {"flip", [](const Tensor& x) { return x.flip(Dims{}); }},
      {"pad", [](const Tensor& x) { return pad(x, {0, 0}); }},
      {"cat", [](const Tensor& x) { return cat({x}); }},
      {"take", [](const Tensor& x) { return x.take(arange(3)); }},
      {"masked_select", [](const Tensor& x) { return x.masked_select(x > -1.0); }},
  };
  for (const bool is_trained : {false, true}) {
    const Tensor x = tensor({1.0, 2.0, 3.0}, {.requires_grad = is_trained});
    for (const Case& each : kViews) {
      const Tensor y = each.run(x);
      EXPECT_TRUE(y.impl()->base == Ref<TensorImpl>(x.impl())) << each.name;
      EXPECT_EQ(y.is_leaf(), !is_trained) << each.name;
    }
    for (const Case& each : kSame) EXPECT_TRUE(each.run(x).is_same(x)) << each.name;
    for (const Case& each : kNew) {
      const Tensor y = each.run(x);
      EXPECT_FALSE(y.impl()->base) << each.name;
      EXPECT_NE(y.storage(), x.storage()) << each.name;
    }
  }
}

// What an operation makes as a view of a tensor of its own is no view for its user.
TEST(View, OfATemporaryIsNone) {
  const Tensor line = tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
  const Tensor matrix = line * ones({3, 3});
  const Tensor one = line[0];
  const Case kCases[] = {
      {"dot", [&](const Tensor& x) { return line.dot(x); }},
      {"mv", [&](const Tensor& x) { return matrix.mv(x); }},
      {"vector times matrix", [&](const Tensor& x) { return x.matmul(matrix); }},
      {"batch times vector", [&](const Tensor& x) { return matrix.expand({2, 3, 3}).matmul(x); }},
      {"repeat", [](const Tensor& x) { return x.repeat({2, 2}); }},
      {"tile", [](const Tensor& x) { return x.tile({2, 2}); }},
      {"roll", [](const Tensor& x) { return x.roll({1}); }},
      {"reshape that copies", [&](const Tensor&) { return matrix.t().reshape({9}); }},
      {"flatten that copies", [&](const Tensor&) { return matrix.t().flatten(); }},
      {"repeat_interleave", [](const Tensor& x) { return x.repeat_interleave(2); }},
      {"kthvalue", [](const Tensor& x) { return x.kthvalue(2).first; }},
      {"softmax of a number", [&](const Tensor&) { return softmax(one, 0); }},
      {"cumsum of a number", [&](const Tensor&) { return one.cumsum(0); }},
      {"cumprod of a number", [&](const Tensor&) { return one.cumprod(0); }},
      {"sort of a number", [&](const Tensor&) { return one.sort().first; }},
      {"topk of a number", [&](const Tensor&) { return one.topk(1, 0).first; }},
      {"masked_scatter of a number",
       [&](const Tensor& x) { return one.masked_scatter(tensor(true), x); }},
  };
  for (const Case& each : kCases) {
    Tensor y = each.run(line);
    ASSERT_TRUE(y.requires_grad()) << each.name;
    EXPECT_NE(y.storage(), line.storage()) << each.name;
    EXPECT_NO_THROW(y.detach_()) << each.name;
    Tensor unrecorded;
    {
      const NoGradGuard no_grad;
      unrecorded = each.run(line);
    }
    EXPECT_NO_THROW(unrecorded.mul_(one)) << each.name;
    EXPECT_TRUE(unrecorded.requires_grad()) << each.name;
  }
}

TEST(View, OfADiagonalIsWrittenAndHasGradients) {
  Tensor x = zeros({2, 3, 3});
  x.diagonal(0, 1, 2).fill_(1);
  x.diagonal(1, -2, -1).copy_(tensor({{2.0, 3.0}, {4.0, 5.0}}));
  x[1].diagonal(-2).fill_(6);
  EXPECT_EQ(values<int>(x), (Ints{1, 2, 0, 0, 1, 3, 0, 0, 1, 1, 4, 0, 0, 1, 5, 6, 0, 1}));
  EXPECT_EQ(values<int>(x.diagonal(0, 2, 1)), (Ints{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(x.diagonal(3, 1, 2).sizes(), (Shape{2, 0}));
  EXPECT_EQ(x.diagonal(-7, 1, 2).sizes(), (Shape{2, 0}));
  EXPECT_NE(x[0].diag().storage(), x.storage());

  const Tensor w = tensor({1.0, 2.0}, {.requires_grad = true});
  Tensor y = zeros({2, 2});
  Tensor diagonal = y.diagonal();
  diagonal.add_(w);
  (y * tensor({{3.0, 5.0}, {7.0, 9.0}})).sum().backward();
  EXPECT_EQ(values<int>(w.grad()), (Ints{3, 9}));
  w.zero_grad();
  const Tensor wide = w.unsqueeze(1).expand({2, 2});
  wide.diagonal().mul(tensor({2.0, 3.0})).sum().backward();
  EXPECT_EQ(values<int>(w.grad()), (Ints{2, 3}));
}

TEST(View, OfOnePixelEachIsACopy) {
  const Tensor x = ones({1, 1, 2, 2});
  pixel_shuffle(x, 1).fill_(3);
  pixel_unshuffle(x, 1).fill_(3);
  channel_shuffle(x, 1).fill_(3);
  EXPECT_EQ(values<int>(x), (Ints{1, 1, 1, 1}));
}

// Indexing by an integer in a tensor is indexing by the integer, as in PyTorch.
TEST(View, ByATensorOfOneIntegerIsThatOfTheInteger) {
  Tensor x = arange(24).to(DType::kF32).view({2, 3, 4});
  Tensor part = x.index({tensor(1)});
  EXPECT_EQ(values<int>(part), values<int>(x[1]));
  part.fill_(0);
  EXPECT_EQ(x[1].sum().item<int>(), 0);
  const Tensor among = x.index({indexing::Slice(), tensor({0, 2}), tensor(-1)});
  EXPECT_EQ(among.sizes(), (Shape{2, 2}));
  EXPECT_EQ(values<int>(among), (Ints{3, 11, 0, 0}));
  const Tensor apart = x.index({tensor({0, 0, 1}), indexing::Slice(), tensor(2)});
  EXPECT_EQ(apart.sizes(), (Shape{3, 3}));
  x.index_put_({tensor(0), tensor(1)}, 7);
  EXPECT_EQ(values<int>(x[0]), (Ints{0, 1, 2, 3, 7, 7, 7, 7, 8, 9, 10, 11}));
  EXPECT_ERROR(x.index({tensor(2)}), kIndex,
               "index: index 2 is out of range for dimension 0 of size 2");
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
