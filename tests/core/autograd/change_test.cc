// Tensors that are written in place, detached or frozen after they were used: what becomes of their
// gradients, hooks and views. All as in PyTorch, whose values these are.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/linear.h"
#include "core/ops/linear/product.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Floats = std::vector<float>;

Tensor new_leaf(std::initializer_list<float> numbers) {
  return tensor(numbers, {.requires_grad = true});
}

const BackwardOptions kKeep{.retain_graph = true};

// The names of the hooks that ran, with the gradients that they saw.
struct Log {
  std::function<Tensor(const Tensor&)> hook(const char* name) {
    return [this, name](const Tensor& grad) {
      text += name;
      for (const float each : values<float>(grad)) text += " " + std::to_string(int(each));
      text += "; ";
      return Tensor();
    };
  }
  std::string take() { return std::exchange(text, ""); }
  std::string text;
};

// When a view's history is asked for: PyTorch computes it then, from what its base is then.
enum class Look : std::uint8_t { kNever, kBefore, kAfter };
constexpr Look kLooks[] = {Look::kNever, Look::kBefore, Look::kAfter};

// The gradient of x through a view of its result, which is detached after a write.
Tensor gradient_after_detach(bool writes_view, Look look) {
  const Tensor x = new_leaf({1, 2, 3, 4});
  Tensor base = x * 3;
  Tensor view = base.slice(0, 0, 2);
  (writes_view ? view : base).mul_(5);
  if (look == Look::kBefore) static_cast<void>(view.str());
  base.detach_();
  if (look == Look::kAfter) static_cast<void>(view.str());
  EXPECT_FALSE(base.requires_grad());
  EXPECT_TRUE(base.is_leaf());
  EXPECT_TRUE(view.requires_grad());
  EXPECT_FALSE(view.is_leaf());
  sum(view).backward();
  return x.grad();
}

TEST(DetachedBase, LeavesItsWrittenViewTheHistoryOfTheWrite) {
  for (const Look look : kLooks) {
    EXPECT_EQ(values<float>(gradient_after_detach(true, look)), (Floats{15, 15, 0, 0}));
  }
}

TEST(DetachedBase, LeavesOtherViewsTheHistoryThatTheyWereAskedFor) {
  EXPECT_FALSE(gradient_after_detach(false, Look::kNever).defined());
  EXPECT_EQ(values<float>(gradient_after_detach(false, Look::kBefore)), (Floats{15, 15, 0, 0}));
  EXPECT_FALSE(gradient_after_detach(false, Look::kAfter).defined());
}

TEST(DetachedBase, LeavesAViewItsHistoryUntilTheStorageIsWritten) {
  const Tensor x = new_leaf({1, 2, 3, 4});
  Tensor base = x * 3;
  const Tensor view = base.slice(0, 0, 2);
  base.detach_().requires_grad_();
  sum(view).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 3, 0, 0}));
  EXPECT_FALSE(base.grad().defined());
  {
    const NoGradGuard no_grad;
    base.mul_(5);
  }
  sum(view).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 3, 0, 0}));
  EXPECT_EQ(values<float>(base.grad()), (Floats{1, 1, 0, 0}));
}

TEST(DetachedBase, IsALeafWhoseViewsAreNotWritten) {
  const Tensor x = new_leaf({1, 2});
  Tensor base = x * 3;
  Tensor view = base[0];
  base.detach_();
  EXPECT_ERROR(view.mul_(2), kInvalidArgument,
               "mul_: a view of a leaf was to be changed in place, and the view or the leaf "
               "requires gradients; do it under a NoGradGuard, or on detach()");
  Tensor frozen = new_leaf({1, 2});
  Tensor row = frozen[0];
  frozen.requires_grad_(false);
  EXPECT_THROW(row.mul_(2), Error);
  Tensor plain = zeros({2});
  Tensor of_plain = plain[0];
  plain.requires_grad_();
  EXPECT_THROW(of_plain.mul_(2), Error);
}

TEST(LeafView, BecomesAResultIfItsBaseIsWritten) {
  const Tensor x = new_leaf({1, 2});
  Tensor base = zeros({2});
  Tensor part = base.slice(0, 0, 1);
  part.requires_grad_();
  Tensor of_part = part.view({1, 1});
  (part * 2).backward(ones({1}));
  const Tensor before = part * 2;
  base.add_(x);
  EXPECT_FALSE(part.is_leaf());
  EXPECT_FALSE(of_part.is_leaf());
  sum(part * 4 + of_part.view({1}) * 3).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{7, 0}));
  EXPECT_EQ(values<float>(part.grad()), (Floats{2}));  // of the time when it was a leaf
  EXPECT_FALSE(part.retains_grad());
  EXPECT_ERROR(
      before.backward(ones({1})), kInvalidArgument,
      "backward: a leaf of shape [1] became a result after it was used, since it, or the tensor "
      "whose memory it shows, was changed in place; it takes no gradient");
  of_part.mul_(2);
  sum(base).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{9, 1}));
}

TEST(Frozen, TakesNoGradient) {
  Tensor x = new_leaf({1, 2});
  Log log;
  int told = 0;
  const Tensor y = x * 3;
  for (const bool detaches : {false, true}) {
    x.requires_grad_();
    x.register_hook(log.hook("x"));
    if (detaches) {
      x.detach_();
    } else {
      x.requires_grad_(false);
    }
    const std::uint64_t id =
        told == 0 ? (x.requires_grad_(), on_grad_ready(x, [&] { ++told; })) : 0;
    if (id != 0) x.requires_grad_(false);
    sum(y).backward({}, kKeep);
    EXPECT_FALSE(x.grad().defined());
  }
  EXPECT_EQ(log.take(), "x 3 3; x 3 3; x 3 3; ");  // hooks run all the same
  EXPECT_EQ(told, 2);
  const Tensor unseen = x * 5;
  x.requires_grad_();
  (y + unseen + x * 7).backward(ones({2}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{10, 10}));
  EXPECT_FALSE(unseen.requires_grad());
}

TEST(Frozen, KeepsTheGradientThatItHas) {
  Tensor x = new_leaf({1, 2});
  const Tensor y = x * 3;
  sum(y).backward({}, kKeep);
  x.requires_grad_(false);
  sum(y).backward({}, kKeep);
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 3}));
  x.add_(new_leaf({1, 1}));
  EXPECT_FALSE(x.is_leaf());
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 3}));
  EXPECT_THROW(sum(y).backward(), Error);  // x is a leaf no more
  sum(x).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 3}));
  x.detach_().requires_grad_();
  sum(x * 2).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{5, 5}));
}

TEST(Frozen, DoesNotAccumulateInItsDestination) {
  const Tensor bucket = zeros({2});
  Tensor x = new_leaf({1, 2});
  set_grad_destination(x, bucket);
  const Tensor y = x * 3;
  sum(y).backward({}, kKeep);
  x.requires_grad_(false);
  sum(y).backward();
  EXPECT_EQ(values<float>(bucket), (Floats{3, 3}));
}

TEST(SetGrad, IsForAnyTensor) {
  const Tensor x = zeros({2});
  x.set_grad(Tensor());
  EXPECT_FALSE(x.grad().defined());
  x.set_grad(ones({2}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{1, 1}));
  EXPECT_FALSE(x.requires_grad());
  const Tensor y = new_leaf({1, 2}) * 3;
  y.set_grad(ones({2}));
  EXPECT_FALSE(y.retains_grad());
  y.retain_grad();
  sum(y).backward();
  EXPECT_EQ(values<float>(y.grad()), (Floats{2, 2}));
}

TEST(RequiresGrad, OfAResultIsAlreadyTrue) {
  const Tensor x = new_leaf({1, 2});
  Tensor y = x * 3;
  EXPECT_FALSE(y.requires_grad_().is_leaf());
  EXPECT_ERROR(y.requires_grad_(false), kInvalidArgument,
               "requires_grad_: a result was told to require no gradients, which only a leaf can; "
               "use its detach()");
  Tensor view = y[0];
  y.mul_(2);
  view.requires_grad_();
  EXPECT_THROW(view.requires_grad_(false), Error);
  view.backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{6, 0}));
}

TEST(DetachInPlace, KeepsHooksAndTheRetainedGradient) {
  const Tensor x = new_leaf({1, 2});
  Log log;
  Tensor y = x * 3;
  y.register_hook(log.hook("y"));
  y.retain_grad();
  const Tensor z = y * 2;
  y.detach_();
  EXPECT_TRUE(y.retains_grad());
  y.requires_grad_();
  sum(y * 4).backward();
  EXPECT_EQ(log.take(), "y 4 4; ");
  EXPECT_EQ(values<float>(y.grad()), (Floats{4, 4}));
  sum(z).backward();
  EXPECT_EQ(log.take(), "y 2 2; ");
  EXPECT_EQ(values<float>(y.grad()), (Floats{6, 6}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{6, 6}));
}

TEST(DetachInPlace, LeavesHooksToTheHistoryIfTheTensorIsWritten) {
  const Tensor x = new_leaf({1, 2});
  Log log;
  Tensor y = x * 3;
  y.register_hook(log.hook("y"));
  const Tensor z = y * 2;
  y.detach_();
  y.mul_(new_leaf({5, 6}));
  y.register_hook(log.hook("written"));
  sum(y).backward();
  EXPECT_EQ(log.take(), "written 1 1; ");
  sum(z).backward();
  EXPECT_EQ(log.take(), "y 2 2; ");
}

struct Write {
  const char* name;
  std::function<void(Tensor& base, Tensor& view, const Tensor& w)> run;
  std::string through_view;  // the hooks that run in passes from the view, from the base, and from
  std::string through_base;  // what was computed from the view before the write
  std::string through_older;
};

// Hooks of a view and of its base, registered before a write and after it.
TEST(Hook, StaysWithTheValuesOfItsTime) {
  const std::string older = "v 7 7; b 7 7 0; ";
  const Write kWrites[] = {
      {"none", [](Tensor&, Tensor&, const Tensor&) {}, "v 3 3; v2 3 3; b 3 3 0; b2 3 3 0; ",
       "b 2 2 2; b2 2 2 2; ", "v 7 7; v2 7 7; b 7 7 0; b2 7 7 0; "},
      {"view", [](Tensor&, Tensor& v, const Tensor& w) { v.mul_(w); },
       "v2 3 3; b2 3 3 0; b 15 18 0; ", "b2 2 2 2; b 10 12 2; ", older},
      {"result into view", [](Tensor&, Tensor& v, const Tensor& w) { v.addcmul_(w, w); },
       "v2 3 3; b2 3 3 0; b 3 3 0; ", "b2 2 2 2; b 2 2 2; ", older},
      {"base", [](Tensor& b, Tensor&, const Tensor&) { b.mul_(10); },
       "v2 3 3; b2 3 3 0; b 30 30 0; ", "b2 2 2 2; b 20 20 20; ", older},
      {"another view", [](Tensor& b, Tensor&, const Tensor& w) { b.slice(0, 1, 3).mul_(w); },
       "v2 3 3; b2 3 3 0; b 3 15 0; ", "b2 2 2 2; b 2 10 12; ", older},
      {"unrecorded",
       [](Tensor& b, Tensor&, const Tensor&) {
         const NoGradGuard no_grad;
         b.mul_(10);
       },
       "v2 3 3; b 3 3 0; b2 3 3 0; ", "b 2 2 2; b2 2 2 2; ", older + "b2 7 7 0; "},
  };
  for (const Write& write : kWrites) {
    SCOPED_TRACE(write.name);
    Log log;
    const Tensor x = new_leaf({1, 2, 3});
    const Tensor w = new_leaf({5, 6});
    Tensor base = x * 2;
    base.register_hook(log.hook("b"));
    Tensor view = base.slice(0, 0, 2);
    view.register_hook(log.hook("v"));
    base.retain_grad();
    view.retain_grad();
    const Tensor earlier = view * 7;
    write.run(base, view, w);
    view.register_hook(log.hook("v2"));
    base.register_hook(log.hook("b2"));
    sum(view * 3).backward({}, kKeep);
    EXPECT_EQ(log.take(), write.through_view);
    sum(base * 2).backward({}, kKeep);
    EXPECT_EQ(log.take(), write.through_base);
    sum(earlier).backward({}, kKeep);
    EXPECT_EQ(log.take(), write.through_older);
    const bool same_view = write.name == std::string("none");
    const bool same_base = same_view || write.name == std::string("unrecorded");
    EXPECT_EQ(values<float>(view.grad()), same_view ? (Floats{10, 10}) : (Floats{3, 3}));
    EXPECT_EQ(values<float>(base.grad()), same_base ? (Floats{12, 12, 2}) : (Floats{5, 5, 2}));
  }
}

TEST(Retained, GoesWithTheTensorNotWithItsNode) {
  const Tensor x = new_leaf({1, 2});
  Tensor y = x * 3;
  y.retain_grad();
  const Tensor before = y * 2;
  y.mul_(5);
  sum(before).backward({}, kKeep);
  EXPECT_FALSE(y.grad().defined());
  sum(y).backward({}, kKeep);
  EXPECT_EQ(values<float>(y.grad()), (Floats{1, 1}));
}

// Of operands only those are needed that the wanted gradients are made of.
TEST(Operand, MayBeWrittenIfNoGradientIsMadeOfIt) {
  const Tensor x = new_leaf({1, 2});
  const Tensor constant = tensor({3.0, 4.0});
  const Tensor square = tensor({{1.0, 2.0}, {3.0, 4.0}});
  const std::function<Tensor(const Tensor&)> kUses[] = {
      [&](const Tensor& h) { return h * constant; },
      [&](const Tensor& h) { return h.dot(constant); },
      [&](const Tensor& h) { return h.matmul(square); },
      [&](const Tensor& h) { return linear(h, square, Tensor(), {}); },
      [&](const Tensor& h) { return h.lerp(constant, 0.5); },
      [&](const Tensor& h) { return addcmul(constant, h, constant); },
      [&](const Tensor& h) { return addcdiv(constant, h, constant); },
  };
  for (std::size_t i = 0; i < std::size(kUses); ++i) {
    Tensor h = x * 2;
    const Tensor y = kUses[i](h);
    h.zero_();
    EXPECT_NO_THROW(sum(y).backward()) << i;
  }
  // The first layer of a network: its weight is needed for no gradient.
  Tensor weight = square.clone().requires_grad_();
  const Tensor y = linear(constant, weight, Tensor(), {});
  {
    const NoGradGuard no_grad;
    weight.zero_();
  }
  sum(y).backward();
  EXPECT_EQ(values<float>(weight.grad()), (Floats{3, 4, 3, 4}));
}

TEST(LeafView, InTheMiddleOfAChainRefusesAWriteAndIsUntouched) {
  const Tensor a = new_leaf({1, 1, 1, 1});
  const Tensor b = a * 2;
  Tensor middle;
  {
    const NoGradGuard no_grad;
    middle = b.view({-1});
  }
  middle.requires_grad_();
  Tensor part = middle.narrow(0, 0, 2);
  EXPECT_ERROR(part.mul_(2), kInvalidArgument,
               "mul_: a view of a view was to be changed in place, and the latter is a leaf that "
               "requires gradients; do it under a NoGradGuard, or on detach()");
  EXPECT_EQ(values<float>(b), (Floats{2, 2, 2, 2}));
  EXPECT_NE(b.str().find("MulBackward0"), std::string::npos);
}

// As a parameter of DistributedDataParallel that once was a result.
TEST(RetainGrad, KeepsTheMemoryThatTheGradientIsToLieIn) {
  const Tensor a = new_leaf({1, 2});
  Tensor y = a * 2;
  y.retain_grad();
  const Tensor z = y * 3;
  y.detach_();
  y.requires_grad_();
  const Tensor memory = zeros({2});
  set_grad_destination(y, memory);
  sum(z).backward();
  EXPECT_EQ(y.grad().data_ptr(), memory.data_ptr());
  EXPECT_EQ(values<float>(memory), (Floats{3, 3}));
  y.requires_grad_(false);
  set_grad_destination(y, Tensor());  // a frozen leaf gives its memory back, too
}

TEST(MaskedScatter, WithoutDimensionsGivesBothGradients) {
  const Tensor x = tensor(1.0, {.requires_grad = true});
  const Tensor source = new_leaf({5, 6});
  masked_scatter(x, tensor(true), source).backward();
  EXPECT_EQ(x.grad().item<float>(), 0);
  EXPECT_EQ(values<float>(source.grad()), (Floats{1, 0}));
}

TEST(Index, OfTheWholeIsAViewOfItsOwn) {
  using indexing::Ellipsis;
  using indexing::Slice;
  const Tensor x = new_leaf({1, 2});
  const Tensor wholes[] = {x.index({Ellipsis}), x.index({Slice()}), x.index({}),
                           x.index({Slice(), Ellipsis}), x.index({"..."})};
  const char* const kShown[] = {"AliasBackward0", "SliceBackward0", "AliasBackward0",
                                "AliasBackward0", "AliasBackward0"};
  int calls = 0;
  for (std::size_t i = 0; i < std::size(wholes); ++i) {
    EXPECT_FALSE(wholes[i].is_same(x));
    EXPECT_EQ(wholes[i].storage(), x.storage());
    EXPECT_FALSE(wholes[i].is_leaf());
    EXPECT_NE(wholes[i].str().find(kShown[i]), std::string::npos) << wholes[i].str();
    wholes[i].register_hook([&](const Tensor&) {
      ++calls;
      return Tensor();
    });
  }
  sum(x * 2).backward();
  EXPECT_EQ(calls, 0);
  for (const Tensor& each : wholes) sum(each).backward();
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(values<float>(x.grad()), (Floats{7, 7}));

  const Tensor plain = zeros({2});
  Tensor whole = plain.index({Ellipsis});
  whole.requires_grad_();
  EXPECT_FALSE(plain.requires_grad());
  whole.detach().fill_(4);
  EXPECT_EQ(values<float>(plain), (Floats{4, 4}));
}

}  // namespace
}  // namespace dl
