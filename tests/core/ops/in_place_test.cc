// Operations in place: what they write, what they refuse, and what they allocate.
#include <gtest/gtest.h>

#include "core/memory/allocator.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Numbers = std::vector<double>;

TEST(InPlace, WritesThroughTheHandleAndKeepsItsDtype) {
  Tensor x = ones({2, 2});
  Tensor row = x[1];
  row.add_(tensor({1, 2}));
  EXPECT_EQ(values<double>(x), (Numbers{1, 1, 2, 3}));
  x.mul_(tensor(2.0, {.dtype = DType::kF64})).div_(4).sub_(ones({2}));
  EXPECT_EQ(x.dtype(), DType::kF32);
  EXPECT_EQ(values<double>(x), (Numbers{-0.5, -0.5, 0, 0.5}));
  x.add_(x, 3);
  EXPECT_EQ(values<double>(x), (Numbers{-2, -2, 0, 2}));
  EXPECT_ERROR(x.add_(ones({3, 2, 2})), kShape,
               "add_: a result of shape [3, 2, 2] does not fit into [2, 2]");
  Tensor whole = ones({2}, {.dtype = DType::kI64});
  EXPECT_ERROR(whole.mul_(0.5), kDType,
               "mul_: a result of dtype float32 cannot be written into a tensor of int64");
}

TEST(InPlace, AddScalesInThePromotedDtype) {
  const auto u8 = tensor({200, 100}, {.dtype = DType::kU8});
  EXPECT_EQ(values<double>(zeros({2}).add_(u8, 2)), (Numbers{400, 200}));
  EXPECT_EQ(values<double>(zeros({2}, {.dtype = DType::kI16}).add_(u8, 2)), (Numbers{400, 200}));
  EXPECT_EQ(values<double>(u8.clone().add_(u8, -1)), (Numbers{0, 0}));
  // Every bit of a large integer counts.
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(tensor({3}).add_(tensor({1}), odd).item<std::int64_t>(), odd + 3);
  // float16 is rounded once, behind the sum.
  const auto f16 = [](double x) { return tensor({x}, {.dtype = DType::kF16}); };
  EXPECT_EQ(f16(-16384).add_(f16(0.25), 131072).item<double>(), 16384);
  EXPECT_EQ(f16(0).add_(tensor({1e6}), 1e-5).item<double>(), 10);
  EXPECT_ERROR(zeros({2}, {.dtype = DType::kI64}).add_(u8, 1.5), kDType,
               "add_: alpha is 1.5 and the result int64, wanted a whole number");
  EXPECT_ERROR(tensor({true}).add_(tensor({true}), 2), kDType,
               "add: bool is not supported; wanted a number");
}

// An addition in place is one pass over its operands, whatever its factor.
TEST(InPlace, AddMakesNoTemporary) {
  const Tensor y = ones({1 << 20});
  Tensor x = ones({1 << 20});
  memory::release_cached();
  x.add_(y).add_(y, -1);  // small blocks for handles
  const std::uint64_t before = memory::statistics().system_allocations;
  x.add_(y, 0.5).add_(y, 3).add_(y).add_(x, -1.0);
  EXPECT_EQ(memory::statistics().system_allocations, before);
  EXPECT_EQ(x.at<float>({7}), 0);
}

// Before it is rounded to the operand's dtype, which would be infinite.
TEST(InPlace, AddsGradientIsScaledInTheGradientsDtype) {
  const Tensor w = tensor({1.0, 2.0}, {.dtype = DType::kF16}).requires_grad_();
  Tensor x = zeros({3, 2});
  x.add_(w, 1e-4);
  x.backward(full({3, 2}, 1e5));
  EXPECT_EQ(w.grad().dtype(), DType::kF16);
  EXPECT_EQ(values<double>(w.grad()), (Numbers{30, 30}));
}

TEST(InPlace, ReadsAnOverlappingOperandAsItWasBefore) {
  Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}});
  x.add_(x.t());
  EXPECT_EQ(values<double>(x), (Numbers{2, 5, 5, 8}));
  x.mul_(x[0]);  // a row of what is written
  EXPECT_EQ(values<double>(x), (Numbers{4, 25, 10, 40}));
  x.sub_(x[0][0]);
  EXPECT_EQ(values<double>(x), (Numbers{0, 21, 6, 36}));
  x.copy_(x.t());
  EXPECT_EQ(values<double>(x), (Numbers{0, 6, 21, 36}));
  Tensor row = arange(5).to(DType::kF32);
  row.slice(0, 1, 5).copy_(row.slice(0, 0, 4));
  EXPECT_EQ(values<double>(row), (Numbers{0, 0, 1, 2, 3}));
  row.slice(0, 1, 5).add_(row.slice(0, 0, 4));
  EXPECT_EQ(values<double>(row), (Numbers{0, 0, 1, 3, 5}));
}

TEST(InPlace, RefusesExpandedTensorsIfADoubleWriteWouldShow) {
  Tensor x = zeros({1, 2});
  Tensor wide = x.expand({3, 2});
  EXPECT_ERROR(wide.copy_(ones({3, 2})), kInvalidArgument,
               "copy_: a tensor of shape [3, 2] and strides [0, 1] was to be changed in place, but "
               "it is expanded: several of its elements are one in memory; clone() it first");
  EXPECT_THROW(wide.add_(1), Error);
  EXPECT_THROW(wide.sub_(ones({2})), Error);
  EXPECT_THROW(wide.mul_(2), Error);
  EXPECT_THROW(wide.div_(2), Error);
  EXPECT_THROW(relu_(wide), Error);
  EXPECT_EQ(x.version(), 0U);
  EXPECT_EQ(values<double>(x), (Numbers{0, 0}));
  wide.fill_(4);  // PyTorch allows it: all writes of one element write the same
  EXPECT_EQ(values<double>(x), (Numbers{4, 4}));
  x.expand({1, 2}).add_(1);  // nothing is repeated
  wide.slice(0, 0, 0).add_(1);
  EXPECT_EQ(values<double>(x), (Numbers{5, 5}));
}

TEST(InPlace, RefusesUndefinedOperands) {
  Tensor x = ones({2});
  EXPECT_ERROR(x.add_(Tensor()), kInvalidArgument, "add_: the operand is an undefined tensor");
  EXPECT_ERROR(x.div_(Tensor()), kInvalidArgument, "div_: the operand is an undefined tensor");
}

// Forms that write the result of another operation.
TEST(WrittenResults, KeepDTypeShapeAndStorage) {
  Tensor x = tensor({1.0, -2.0, 3.0});
  const Tensor same = x;
  EXPECT_TRUE(x.lt_(0).is_same(same));
  EXPECT_EQ(x.dtype(), DType::kF32);
  EXPECT_EQ(values<float>(x), (std::vector<float>{0, 1, 0}));
  EXPECT_ERROR(tensor({1, 2}).pow_(tensor({0.5, 2.0})), kDType,
               "pow_: a result of dtype float32 cannot be written into a tensor of int64");
  EXPECT_ERROR(tensor({1.0}).hypot_(zeros({3})), kShape,
               "hypot_: a result of shape [3] does not fit into [1]");
  EXPECT_ERROR(zeros({2}).requires_grad_().pow_(2), kInvalidArgument,
               "pow_: a leaf that requires gradients was to be changed in place; do it under a "
               "NoGradGuard, or on detach()");
}

TEST(WrittenResults, AreRecordedThroughViews) {
  const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}).requires_grad_();
  Tensor y = x * 1;
  y.slice(0, 1, 3).pow_(2);
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{1, 4, 6, 1}));
}

}  // namespace
}  // namespace dl
