#include "core/autograd/engine.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/autograd/record.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/base/sanitizers.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Floats = std::vector<float>;

Tensor leaf(std::initializer_list<float> numbers) {
  return tensor(numbers, {.requires_grad = true});
}

TEST(Backward, FollowsAChainToItsLeaf) {
  const Tensor x = leaf({1, 2, 3});
  sum(mul(x, x)).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{2, 4, 6}));
}

TEST(Backward, AddsUpWhatComesBackOnSeveralPaths) {
  const Tensor x = leaf({2});
  const Tensor y = x * x;          // 4
  const Tensor z = y + y * x + x;  // x^2 + x^3 + x
  z.backward();
  EXPECT_EQ(x.grad().item<float>(), 2 * 2 + 3 * 4 + 1);
}

TEST(Backward, GathersOverPassesUntilZeroed) {
  const Tensor x = leaf({1});
  for (int i = 0; i < 3; ++i) (x * 2).backward();
  EXPECT_EQ(x.grad().item<float>(), 6);
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  (x * 2).backward();
  EXPECT_EQ(x.grad().item<float>(), 2);
  const Tensor held = x.grad();
  x.zero_grad(/*set_to_none=*/false);
  EXPECT_TRUE(x.grad().is_same(held));
  EXPECT_EQ(held.item<float>(), 0);
}

TEST(Backward, TakesAGradientForSeveralElements) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 3;
  y.backward(tensor({1.0, 10.0}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 30}));
}

TEST(Backward, OfSeveralRootsSumsThem) {
  const Tensor x = leaf({3});
  const Tensor y = x * 2;
  const Tensor z = y * x;  // y is a root and inside z's graph
  const std::vector<Tensor> roots{y, z};
  backward(roots, {});
  EXPECT_EQ(x.grad().item<float>(), 2 + 12);
}

TEST(Backward, LeafGradientsAreNeverShared) {
  const Tensor a = leaf({1, 2});
  const Tensor b = leaf({3, 4});
  sum(a + b).backward();
  a.grad().zero_();
  EXPECT_EQ(values<float>(b.grad()), (Floats{1, 1}));
}

TEST(Backward, NoGradGuardStopsRecordingOnItsThreadOnly) {
  const Tensor x = leaf({1});
  const NoGradGuard guard;
  EXPECT_FALSE((x * 2).requires_grad());
  std::thread([&] { EXPECT_TRUE((x * 2).requires_grad()); }).join();
  const EnableGradGuard enabled;
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST(Backward, RefusesWhatHasNoHistory) {
  EXPECT_ERROR(tensor({1.0}).backward(), kInvalidArgument,
               "backward: the tensor requires no gradients: nothing it was computed from does, or "
               "it was computed under a NoGradGuard");
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR((x * 2).backward(), kShape,
               "backward: the gradient may be left out for a tensor of one element only, the shape "
               "is [2]; sum() or mean() it, or give a gradient");
  EXPECT_ERROR((x * 2).backward(ones({3})), kShape,
               "backward: a gradient of shape [3] for a tensor of shape [2]");
  EXPECT_ERROR((x * 2).backward(ones({2}, {.dtype = DType::kF64})), kDType,
               "backward: a gradient of dtype float64 for a tensor of dtype float32");
}

TEST(Backward, TheSecondPassNeedsARetainedGraph) {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  y.backward({}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 12);
  EXPECT_ERROR(
      y.backward(), kInvalidArgument,
      "backward: the graph was freed by an earlier backward pass, at mul; give the earlier "
      "one retain_graph = true, or compute the result again");
}

TEST(Backward, NoticesThatASavedTensorWasChanged) {
  const Tensor x = leaf({1, 2});
  Tensor w = tensor({3.0, 4.0});
  const Tensor y = x * w;
  w.fill_(0);
  EXPECT_ERROR(y.backward(ones({2})), kInvalidArgument,
               "mul: backward needs a tensor of shape [2] and dtype float32 that was changed in "
               "place: it is at version 1, version 0 was saved; change a clone of it, or change it "
               "after backward");
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, NoticesAChangedOutputToo) {
  const Tensor x = leaf({1, 2});
  Tensor y = relu(x);
  y.mul_(2);
  EXPECT_THROW(sum(y).backward(), Error);
}

TEST(InPlace, IsRecordedOnResults) {
  const Tensor x = leaf({1, -2});
  Tensor y = x * 3;
  y.add_(x);
  y.mul_(tensor({2.0, 5.0}));
  relu_(y);
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{8, 0}));
}

TEST(InPlace, IsRefusedOnLeavesThatRequireGradients) {
  Tensor x = leaf({1});
  EXPECT_ERROR(x.add_(1), kInvalidArgument,
               "add_: a leaf that requires gradients was to be changed in place; do it under a "
               "NoGradGuard, or on detach()");
  const NoGradGuard guard;
  x.add_(1);
  EXPECT_EQ(x.item<float>(), 2);
}

TEST(InPlace, OnAViewChangesTheHistoryOfItsBase) {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.requires_grad = true});
  Tensor a = x * 1;
  Tensor row = a[0];
  const Tensor column = a.select(1, 0);  // another view, which follows
  row.mul_(2);
  row[1].mul_(10);  // a view of a view
  sum(a * a).backward({}, {.retain_graph = true});
  EXPECT_EQ(values<float>(a.detach()), (Floats{2, 40, 3, 4}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{8, 1600, 6, 8}));
  x.zero_grad();
  sum(row).backward({}, {.retain_graph = true});
  EXPECT_EQ(values<float>(x.grad()), (Floats{2, 20, 0, 0}));
  x.zero_grad();
  sum(column).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{2, 0, 1, 0}));
}

TEST(InPlace, OnAViewTakesGradientsToWhatIsWritten) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor w = leaf({5, 6});
  Tensor a = zeros({3});  // no history before
  a.slice(0, 0, 2).add_(w);
  Tensor b = x * 1;
  b.slice(0, 0, 3, 2).copy_(w);
  b.view({3, 1}).t().slice(1, 1, 2).fill_(7);
  const Tensor factors = tensor({1.0, 10.0, 100.0});
  sum((a + b) * factors).backward();
  EXPECT_EQ(values<float>(b.detach()), (Floats{5, 7, 6}));
  EXPECT_EQ(values<float>(w.grad()), (Floats{2, 110}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{0, 0, 0}));
  EXPECT_EQ(a.is_leaf(), false);
}

TEST(InPlace, IsRefusedOnViewsOfLeavesAndOfConstants) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(x[0].mul_(2), kInvalidArgument,
               "mul_: a view of a leaf was to be changed in place, and the view or the leaf "
               "requires gradients; do it under a NoGradGuard, or on detach()");
  Tensor y = x * 2;
  Tensor constant;
  {
    const NoGradGuard guard;
    constant = y[0];
  }
  EXPECT_ERROR(constant.add_(x[0]), kInvalidArgument,
               "add_: a view that was made under a NoGradGuard was to be changed in place in an "
               "operation that is recorded for backward; make the view outside of the guard");
  const Tensor wide = ones({2}).expand({2, 2}).detach();
  EXPECT_ERROR(wide[0].mul_(x), kInvalidArgument,
               "mul_: a view was to be changed in place in an operation that is recorded for "
               "backward, but its base, of shape [2, 2] and strides [0, 1], has several "
               "elements that are one in memory; clone() the view");
  EXPECT_EQ(values<float>(wide), (Floats{1, 1, 1, 1}));
  EXPECT_EQ(values<float>(y), (Floats{2, 4}));
}

TEST(InPlace, OfATensorWithItsOwnViewsHasTheRightGradient) {
  const Tensor x = leaf({2, 3});
  Tensor y = x * 1;
  y.mul_(y);  // x^2
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{4, 6}));

  x.zero_grad();
  Tensor z = x * 1;
  z.mul_(z.detach());  // the second factor is a constant
  sum(z).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{2, 3}));

  x.zero_grad();
  Tensor q = x * 1;
  q.div_(q[0]);  // {1, x1 / x0}
  sum(q).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{-0.75, 0.5}));

  x.zero_grad();
  Tensor s = x * 1;
  s.add_(s.view({2}));  // a view made before the write
  s.copy_(s.view({2}));
  sum(s).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{2, 2}));
}

TEST(InPlace, ThatIsRefusedLeavesItsTensorAlone) {
  const Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  Tensor constant;
  {
    const NoGradGuard guard;
    constant = y.view({2});
  }
  y.mul_(3);
  EXPECT_THROW(y.add_(constant), Error);
  EXPECT_THROW(y.copy_(constant), Error);
  EXPECT_EQ(values<float>(y), (Floats{6, 12}));
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{6, 6}));
}

TEST(Hook, ThatIsNoFunctionIsRefused) {
  const Tensor x = ones({2}, {.requires_grad = true});
  EXPECT_ERROR(x.register_hook(nullptr), kInvalidArgument, "register_hook: there is no hook");
  EXPECT_ERROR(on_grad_ready(x, nullptr), kInvalidArgument, "on_grad_ready: there is no callback");
}

TEST(Hook, SeesAndReplacesGradients) {
  const Tensor x = leaf({1});
  const Tensor y = x * 2;
  float seen = 0;
  y.register_hook([&](const Tensor& grad) {
    seen = grad.item<float>();
    return grad * 10;
  });
  (y * 3).backward();
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(x.grad().item<float>(), 60);
}

TEST(Hook, ThatChangesTheShapeIsNamed) {
  const Tensor x = leaf({1, 2});
  const HookHandle of_leaf = x.register_hook([](const Tensor& grad) { return sum(grad); });
  EXPECT_ERROR(sum(x).backward(), kShape,
               "register_hook: a hook of a leaf returned a gradient of shape [] and dtype float32, "
               "wanted shape [2] and dtype float32 as it was given; return an undefined tensor to "
               "leave it");
  const Tensor y = x * 2;
  y.register_hook([](const Tensor& grad) { return grad.to(DType::kF64); });
  EXPECT_ERROR(sum(y).backward(), kShape,
               "register_hook: a hook of the result of mul returned a gradient of shape [2] and "
               "dtype float64, wanted shape [2] and dtype float32 as it was given; return an "
               "undefined tensor to leave it");
}

TEST(Hook, MayRunABackwardPassOfItsOwn) {
  const Tensor x = leaf({1});
  const Tensor other = leaf({5});
  const Tensor y = x * 2;
  y.register_hook([&](const Tensor&) {
    const EnableGradGuard enabled;
    (other * other).backward();
    return Tensor();
  });
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 2);
  EXPECT_EQ(other.grad().item<float>(), 10);
}

TEST(Hook, KnowsItsPassAndThoseAroundIt) {
  const Tensor x = leaf({1});
  const Tensor other = leaf({5});
  EXPECT_EQ(backward_pass(), 0U);
  EXPECT_FALSE(enclosing_backward_uses(x));
  const Tensor y = x * 2;
  std::uint64_t outer = 0;
  y.register_hook([&](const Tensor&) {
    outer = backward_pass();
    EXPECT_FALSE(enclosing_backward_uses(x));
    const EnableGradGuard enabled;
    const Tensor z = other * 2;
    z.register_hook([&](const Tensor&) {
      EXPECT_NE(backward_pass(), outer);
      EXPECT_TRUE(enclosing_backward_uses(x));
      EXPECT_FALSE(enclosing_backward_uses(other));
      EXPECT_FALSE(enclosing_backward_uses(Tensor()));
      return Tensor();
    });
    z.backward();
    EXPECT_EQ(backward_pass(), outer);
    return Tensor();
  });
  y.backward();
  EXPECT_NE(outer, 0U);
  EXPECT_EQ(backward_pass(), 0U);
}

TEST(Hook, OnBackwardEndRunsOnceAfterTheLastLeaf) {
  const Tensor x = leaf({1});
  int ends = 0;
  on_grad_ready(x, [&] {
    on_backward_end([&] {
      ++ends;
      EXPECT_TRUE(x.grad().defined());
    });
  });
  (x * 2).backward();
  EXPECT_EQ(ends, 1);
  EXPECT_ERROR(on_backward_end([] {}), kInvalidArgument,
               "on_backward_end: no backward pass runs on this thread");
}

TEST(Hook, MayRegisterOthersWhichRunFromTheNextPassOn) {
  const Tensor x = leaf({1});
  const Tensor y = x * 2;
  std::vector<int> calls;
  y.register_hook([&y, &calls, first = true](const Tensor&) mutable {
    for (int i = 0; first && i < 100; ++i) {
      y.register_hook([&calls, i](const Tensor&) {
        if (i == 99) calls.push_back(i);
        return Tensor();
      });
    }
    first = false;
    calls.push_back(-1);
    return Tensor();
  });
  y.backward({}, {.retain_graph = true});
  EXPECT_EQ(calls, std::vector{-1});
  y.backward();
  EXPECT_EQ(calls, (std::vector{-1, -1, 99}));
}

TEST(Hook, ACallbackMayRemoveItselfAndAddOthers) {
  const Tensor x = leaf({1});
  std::vector<std::string> events;
  std::uint64_t first = 0;
  std::uint64_t third = 0;
  first = on_grad_ready(x, [&, name = std::string("a name too long to stand in the object")] {
    remove_grad_ready(x, first);
    remove_grad_ready(x, third);
    for (int i = 0; i < 100; ++i) on_grad_ready(x, [&events] { events.emplace_back("new"); });
    events.push_back(name);
  });
  on_grad_ready(x, [&] { events.emplace_back("second"); });
  third = on_grad_ready(x, [&] { events.emplace_back("third"); });
  (x * 2).backward();
  EXPECT_EQ(events, (std::vector<std::string>{"a name too long to stand in the object", "second"}));
  events.clear();
  (x * 2).backward();
  ASSERT_EQ(events.size(), 101U);
  EXPECT_EQ(events[0], "second");
  EXPECT_EQ(events[100], "new");
}

TEST(Hook, OnBackwardEndMayBeCalledAtTheEnd) {
  const Tensor x = leaf({1});
  std::vector<std::string> events;
  on_grad_ready(x, [&] {
    on_backward_end([&events, name = std::string("a name too long to stand in the object")] {
      for (int i = 0; i < 100; ++i) on_backward_end([&events] { events.emplace_back("more"); });
      events.push_back(name);
    });
  });
  (x * 2).backward();
  ASSERT_EQ(events.size(), 101U);
  EXPECT_EQ(events[0], "a name too long to stand in the object");
}

TEST(Hook, AnExceptionEndsThePassAndTheNextOneIsClean) {
  const Tensor x = leaf({1});
  const Tensor y = x * 2;
  bool fail = true;
  y.register_hook([&](const Tensor&) -> Tensor {
    if (fail) throw Error(ErrorKind::kAborted, "stop");
    return {};
  });
  EXPECT_ERROR(y.backward({}, {.retain_graph = true}), kAborted, "stop");
  fail = false;
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 2);
}

TEST(RequiresGrad, IsForFloatingLeaves) {
  EXPECT_ERROR(tensor({1, 2}).requires_grad_(), kDType,
               "requires_grad_: only floating tensors have gradients, this one holds int64");
  const Tensor x = leaf({1});
  Tensor y = x * 2;
  EXPECT_FALSE(y.is_leaf());
  EXPECT_ERROR(y.requires_grad_(false), kInvalidArgument,
               "requires_grad_: a result was told to require no gradients, which only a leaf can; "
               "use its detach()");
  EXPECT_TRUE(y.detach().is_leaf());
  EXPECT_FALSE(y.detach().requires_grad());
}

// Sanitizers are slow; a tenth overflows their stacks all the same.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kManyNodes = 100'000;
#else
constexpr int kManyNodes = 1'000'000;
#endif

TEST(Graph, AMillionNodesNeedNoStack) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < kManyNodes; ++i) y = y + 1;
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 1);
  y = Tensor();  // and neither does freeing them
  Tensor z = x;
  for (int i = 0; i < kManyNodes; ++i) z = relu(z);  // nodes that save tensors
  z = Tensor();
}

TEST(Graph, ManyThreadsEachWithTheirOwn) {
  const Tensor shared = leaf({2});  // read by all
  std::vector<std::thread> threads;
  std::vector<float> results(4);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const Tensor x = leaf({static_cast<float>(t)});
        (x * x * shared.detach()).backward();
        results[t] = x.grad().item<float>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, (Floats{0, 4, 8, 12}));
}

}  // namespace
}  // namespace dl
