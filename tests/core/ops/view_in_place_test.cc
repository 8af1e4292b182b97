#include <gtest/gtest.h>

#include <functional>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/product.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Floats = std::vector<float>;

TEST(ViewInPlace, ChangesTheShapeForAllHandles) {
  Tensor x = arange(6).view({2, 3});
  const Tensor handle = x;
  const Tensor view = x[0];
  const Tensor detached = x.detach();
  EXPECT_TRUE(x.unsqueeze_(0).is_same(handle));
  EXPECT_EQ(handle.sizes(), (Shape{1, 2, 3}));
  EXPECT_EQ(handle.strides(), (Strides{6, 3, 1}));
  x.squeeze_().t_();
  EXPECT_EQ(values<int>(handle), (std::vector<int>{0, 3, 1, 4, 2, 5}));
  EXPECT_FALSE(x.is_contiguous());
  x.transpose_(0, -1);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(x.unsqueeze_(-1).squeeze_(0).sizes(), (Shape{2, 3, 1}));
  EXPECT_EQ(x.squeeze_(2).sizes(), (Shape{2, 3}));
  EXPECT_EQ(view.sizes(), (Shape{3}));
  EXPECT_EQ(detached.sizes(), (Shape{2, 3}));
  x.t_().at<std::int64_t>({2, 1}) = 50;
  EXPECT_EQ(detached.at<std::int64_t>({1, 2}), 50);
}

TEST(ViewInPlace, RefusesWhatTheViewRefuses) {
  Tensor x = zeros({2, 3, 4});
  EXPECT_ERROR(x.t_(), kShape, "t: at most 2 dimensions were wanted, the shape is [2, 3, 4]");
  EXPECT_THROW(x.unsqueeze_(4), Error);
  EXPECT_THROW(x.squeeze_(3), Error);
  EXPECT_EQ(x.sizes(), (Shape{2, 3, 4}));
  Tensor none;
  EXPECT_ERROR(
      none.unsqueeze_(0), kInvalidArgument,
      "unsqueeze_: the tensor is undefined (default constructed, or moved from); assign a value "
      "first, or ask defined()");
}

// The gradient of w in sum(weights * form(2 w)).
Floats gradient(const std::function<void(Tensor&)>& form) {
  const Tensor w = arange(6).to(DType::kF32).view({2, 3}).requires_grad_();
  Tensor y = w * 2;
  form(y);
  const Tensor weights = arange(6).to(DType::kF32).view(y.sizes());
  (y * weights).sum().backward();
  return values<float>(w.grad());
}

TEST(ViewInPlace, SendsTheGradientThroughTheView) {
  const Floats straight{0, 2, 4, 6, 8, 10};
  const Floats turned{0, 4, 8, 2, 6, 10};
  EXPECT_EQ(gradient([](Tensor& y) { y.unsqueeze_(1); }), straight);
  EXPECT_EQ(gradient([](Tensor& y) { y.unsqueeze_(0).squeeze_(); }), straight);
  EXPECT_EQ(gradient([](Tensor& y) { y.t_(); }), turned);
  EXPECT_EQ(gradient([](Tensor& y) { y.transpose_(0, 1).unsqueeze_(2).squeeze_(2); }), turned);
  EXPECT_EQ(gradient([](Tensor& y) {  // the elements stay, so the step is part of the history
              const NoGradGuard no_grad;
              y.t_();
            }),
            turned);
}

TEST(ViewInPlace, LeavesSavedTensorsAndViewsAsTheyWere) {
  const Tensor w = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
  Tensor x = tensor({{5., 6.}, {7., 8.}});
  const Tensor y = matmul(w, x);
  x.t_();
  y.sum().backward();
  EXPECT_EQ(values<float>(w.grad()), (Floats{11, 15, 11, 15}));

  Tensor h = w * 2;
  const Tensor row = h[0];
  h.t_();
  h.mul_(tensor({{1.}, {10.}}));  // the columns of what row shows
  EXPECT_EQ(values<float>(row.detach()), (Floats{2, 40}));
  w.zero_grad();
  row.sum().backward();
  EXPECT_EQ(values<float>(w.grad()), (Floats{2, 20, 0, 0}));
}

TEST(ViewInPlace, OfAViewKeepsItOnItsBase) {
  const Tensor w = tensor({{1., 2., 3.}, {4., 5., 6.}}).requires_grad_();
  Tensor h = w * 1;
  Tensor rows = h.slice(0, 0, 2);
  rows.t_();
  rows[0].mul_(10);
  EXPECT_EQ(values<float>(h.detach()), (Floats{10, 2, 3, 40, 5, 6}));
  (h.sum() + rows.sum()).backward();
  EXPECT_EQ(values<float>(w.grad()), (Floats{20, 2, 2, 20, 2, 2}));
}

TEST(ViewInPlace, MovesARetainedGradientAlong) {
  const Tensor w = tensor({1., 2.}).requires_grad_();
  Tensor y = w * 3;
  y.retain_grad();
  y.unsqueeze_(0);
  (y * tensor({{4., 5.}})).sum().backward();
  EXPECT_EQ(y.grad().sizes(), (Shape{1, 2}));
  EXPECT_EQ(values<float>(y.grad()), (Floats{4, 5}));
  EXPECT_ERROR(y.squeeze_(), kInvalidArgument,
               "squeeze_: a tensor of shape [1, 2] that has a gradient was to change its shape; "
               "call zero_grad() before, or take a view");
  y.zero_grad();
  EXPECT_EQ(y.squeeze_().sizes(), (Shape{2}));
}

TEST(ViewInPlace, RefusesALeafThatRequiresGradients) {
  Tensor w = zeros({2, 2}).requires_grad_();
  const auto turn = [&] { w.t_(); };
  constexpr const char* kText =
      "t_: a leaf of shape [2, 2] that requires gradients was to change its shape, which its "
      "gradient and the state of optimizers have; take a view, or change the shape before "
      "requires_grad_()";
  EXPECT_ERROR(turn(), kInvalidArgument, kText);
  const NoGradGuard no_grad;
  EXPECT_ERROR(turn(), kInvalidArgument, kText);
  w.requires_grad_(false).unsqueeze_(0);
  w.requires_grad_().set_grad(ones({1, 2, 2}));
  EXPECT_EQ(w.grad().sizes(), (Shape{1, 2, 2}));
}

TEST(ViewInPlace, RefusesAResultUnderAnInferenceMode) {
  const Tensor w = zeros({2, 2}).requires_grad_();
  Tensor y = w * 2;
  const InferenceMode inference;
  EXPECT_THROW(y.t_(), Error);
  Tensor plain = zeros({1, 2});
  EXPECT_EQ(plain.squeeze_().sizes(), (Shape{2}));
}

TEST(ViewInPlace, IsPrintedAsInPyTorch) {
  const Tensor w = tensor({1., 2.}).requires_grad_();
  Tensor y = w * 1;
  EXPECT_EQ(y.unsqueeze_(0).str(), "tensor([[1., 2.]], grad_fn=<UnsqueezeBackward1>)");
  EXPECT_EQ(y.t_().str(), "tensor([[1.],\n        [2.]], grad_fn=<TBackward1>)");
  EXPECT_EQ(y.transpose_(0, 1).str(), "tensor([[1., 2.]], grad_fn=<TransposeBackward1>)");
  EXPECT_EQ(y.squeeze_(0).str(), "tensor([1., 2.], grad_fn=<SqueezeBackward4>)");
  EXPECT_EQ(y.squeeze_().str(), "tensor([1., 2.], grad_fn=<SqueezeBackward3>)");
}

}  // namespace
}  // namespace dl
