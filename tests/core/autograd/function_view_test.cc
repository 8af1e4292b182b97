// Results of custom functions that share memory with arguments, or with each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <any>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd/engine.h"
#include "core/autograd/function.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using autograd::AutogradContext;
using autograd::TensorList;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

// Returns what a test wants of its first argument; the gradient of the argument is minus the sum of
// those of the results, in the argument's shape.
struct Negated : autograd::Function<Negated> {
  using Made = std::function<TensorList(AutogradContext*, const Tensor&)>;
  static TensorList forward(AutogradContext* ctx, const Tensor& x, const Tensor& /*other*/,
                            const Made& made) {
    ctx->saved_data["shape"] = x.sizes();
    return made(ctx, x);
  }
  static TensorList backward(AutogradContext* ctx, TensorList grads) {
    Tensor total = zeros(std::any_cast<Shape>(ctx->saved_data["shape"]));
    for (const Tensor& grad : grads) total = total - grad.reshape(total.sizes());
    return {total, ctx->needs_input_grad(1) ? total : Tensor(), Tensor()};
  }
};
TensorList negated(const Tensor& x, Negated::Made made, const Tensor& other = {}) {
  return Negated::apply(x, other, made);
}
Tensor negated_one(const Tensor& x, std::function<Tensor(const Tensor&)> made,
                   const Tensor& other = {}) {
  return negated(
      x, [&](AutogradContext*, const Tensor& each) { return TensorList{made(each)}; }, other)[0];
}

struct Return {
  const char* name;
  std::function<Tensor(const Tensor&)> made;
};
// What forward() may return of its argument's memory.
const std::vector<Return>& kinds_of_return() {
  static const std::vector<Return> kinds{
      {"the argument", [](const Tensor& x) { return x; }},
      {"a view", [](const Tensor& x) { return x.view({-1}); }},
      {"a view of a view", [](const Tensor& x) { return x.t().t(); }},
      {"its detach()", [](const Tensor& x) { return x.detach(); }},
      {"a view of its detach()", [](const Tensor& x) { return x.detach().view({-1}); }},
      {"a recorded view",
       [](const Tensor& x) {
         const EnableGradGuard recorded;
         return x.view({-1});
       }},
  };
  return kinds;
}
Tensor trained() {
  return ones({1, 2}, {.requires_grad = true});
}
constexpr const char* kAdvice = "return a clone() of the view from forward(), or change a clone()";

TEST(FunctionView, KeepsItsBackwardAfterWritesWithoutRecording) {
  for (const Return& kind : kinds_of_return()) {
    SCOPED_TRACE(kind.name);
    const Tensor x = trained();
    const Tensor h = x * 2;
    const Tensor y = negated_one(h, kind.made);
    const Tensor z = y.view({2, 1});
    {
      const NoGradGuard no_grad;
      Tensor(h).mul_(1);
      Tensor(y).mul_(1);
    }
    h.detach().add_(1);
    y.detach().add_(1);
    EXPECT_THAT(y.str(), HasSubstr("grad_fn=<NegatedBackward>"));
    sum(y).backward({}, {.retain_graph = true});
    EXPECT_EQ(values<float>(x.grad()), (Floats{-2, -2}));
    sum(z).backward({}, {.retain_graph = true});
    EXPECT_EQ(values<float>(x.grad()), (Floats{-4, -4}));
    sum(h).backward();
    EXPECT_EQ(values<float>(x.grad()), (Floats{-2, -2}));
  }
}

TEST(FunctionView, KeepsItsBackwardAfterALeafMoved) {
  for (const Return& kind : kinds_of_return()) {
    SCOPED_TRACE(kind.name);
    Tensor w = trained();
    const Tensor y = negated_one(w, kind.made);
    const Tensor of_view = negated_one(w.view({2}), kind.made);
    {
      const NoGradGuard no_grad;
      w.sub_(0.5);
    }
    sum(y).backward();
    sum(of_view).backward();
    EXPECT_EQ(values<float>(w.grad()), (Floats{-2, -2}));
  }
}

TEST(FunctionView, RefusesRecordedWrites) {
  for (const Return& kind : kinds_of_return()) {
    SCOPED_TRACE(kind.name);
    const Tensor x = trained();
    const Tensor h = x * 2;
    Tensor y = negated_one(h, kind.made);
    EXPECT_ERROR(y.mul_(3), kInvalidArgument,
                 std::string("mul_: a view that forward() of a custom Function returned was to be "
                             "changed in place, and gradients would then pass by the function's "
                             "backward(); ") +
                     kAdvice);
    EXPECT_ERROR(y.mul_(x.reshape(y.sizes())), kInvalidArgument,
                 std::string("mul_: a view that forward() of a custom Function returned was to be "
                             "changed in place, and gradients would then pass by the function's "
                             "backward(); ") +
                     kAdvice);
    sum(h).backward();
    EXPECT_EQ(values<float>(x.grad()), (Floats{2, 2}));
    EXPECT_EQ(values<float>(h), (Floats{2, 2}));
  }
}

TEST(FunctionView, RefusesToBeUsedAfterARecordedWriteIntoItsBase) {
  for (const Return& kind : kinds_of_return()) {
    SCOPED_TRACE(kind.name);
    const Tensor x = trained();
    Tensor h = x * 2;
    const Tensor y = negated_one(h, kind.made);
    h.mul_(3);
    EXPECT_ERROR(sum(y).backward(), kInvalidArgument,
                 "a view of shape " + y.sizes().str() +
                     " was returned by forward() of a custom Function, and its base was changed in "
                     "place since by an operation that is recorded for backward: its gradient "
                     "would be lost; return a clone() from forward(), or change a clone()");
    EXPECT_THAT(y.str(), HasSubstr("grad_fn=<Invalid>"));
    sum(h).backward();
    EXPECT_EQ(values<float>(x.grad()), (Floats{6, 6}));
  }
}

TEST(FunctionView, OfAConstantRefusesToBeUsedAfterAWrite) {
  for (const Return& kind : kinds_of_return()) {
    SCOPED_TRACE(kind.name);
    const Tensor w = trained();
    Tensor constant = ones({1, 2});
    const Tensor y = negated_one(constant, kind.made, w);
    sum(y).backward({}, {.retain_graph = true});
    EXPECT_EQ(values<float>(w.grad()), (Floats{-1, -1}));
    constant.mul_(3);
    EXPECT_ERROR(sum(y).backward(), kInvalidArgument,
                 "a view of shape " + y.sizes().str() +
                     " was returned by forward() of a custom Function, and its memory was changed "
                     "in place since, which backward() of the function does not know; return a "
                     "clone() from forward(), or change a clone()");
  }
}

TEST(FunctionView, OfMemoryMadeInsideIsAnOrdinaryTensor) {
  const auto made = [](const Tensor& x) { return (x * 3).view({-1}); };
  const Tensor x = trained();
  Tensor y = negated_one(x, made);
  y.detach().fill_(1);
  sum(y).backward({}, {.retain_graph = true});
  EXPECT_EQ(values<float>(x.grad()), (Floats{-1, -1}));
  y.mul_(5);
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{-6, -6}));
  x.zero_grad();
  y = negated_one(x, [](const Tensor& each) {
    const EnableGradGuard recorded;
    return (each * 3).view({-1});
  });
  sum(y.mul_(5)).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{-5, -5}));
}

TEST(FunctionView, OfACapturedLeafKeepsItsBackward) {
  Tensor w = trained();
  const Tensor x = trained();
  for (const Return& kind : kinds_of_return()) {
    if (kind.name == std::string("its detach()")) continue;
    if (kind.name == std::string("a view of its detach()")) continue;
    SCOPED_TRACE(kind.name);
    Tensor y = negated_one(x, [&](const Tensor&) { return kind.made(w); });
    EXPECT_THROW(y.mul_(2), Error);
    {
      const NoGradGuard no_grad;
      w.add_(1);
    }
    x.zero_grad();
    sum(y).backward();
    EXPECT_EQ(values<float>(x.grad()), (Floats{-1, -1}));
    EXPECT_FALSE(w.grad().defined());
    EXPECT_TRUE(w.is_leaf());
  }
}

// Pairs of results that share their memory, which forward() made.
TEST(FunctionView, SeesAWriteIntoAResultThatSharesItsMemory) {
  const std::vector<std::pair<const char*, std::function<TensorList(const Tensor&)>>> pairs{
      {"twice the same", [](const Tensor& b) { return TensorList{b, b}; }},
      {"a view", [](const Tensor& b) { return TensorList{b, b.view({-1})}; }},
      {"a view first", [](const Tensor& b) { return TensorList{b.view({-1}), b}; }},
      {"detach()", [](const Tensor& b) { return TensorList{b, b.detach()}; }},
      {"detach() first", [](const Tensor& b) { return TensorList{b.detach(), b.t()}; }},
      {"recorded",
       [](const Tensor& b) {
         const EnableGradGuard recorded;
         const Tensor result = b.clone().requires_grad_() * 1;
         return TensorList{result, result.view({-1})};
       }},
  };
  for (const auto& [name, made] : pairs) {
    SCOPED_TRACE(name);
    const Tensor x = trained();
    const auto apply = [&] {
      return negated(x, [&](AutogradContext*, const Tensor& each) { return made(each * 3); });
    };
    TensorList both = apply();
    (sum(both[0]) + 10 * sum(both[1])).backward();
    EXPECT_EQ(values<float>(x.grad()), (Floats{-11, -11}));
    both[0].detach().mul_(1);
    {
      const NoGradGuard no_grad;
      both[1].mul_(1);
    }
    both = apply();
    int refused = 0;  // one of them may be written, and then the other is not used any more
    for (const std::size_t written : {0U, 1U}) {
      try {
        both[written].mul_(2);
      } catch (const Error& error) {
        ++refused;
        EXPECT_THAT(error.what(), HasSubstr(kAdvice));
        continue;
      }
      x.zero_grad();
      sum(both[written]).backward();
      EXPECT_EQ(values<float>(x.grad()), (Floats{-2, -2}));
      EXPECT_THROW(sum(both[1 - written]).backward(), Error);
    }
    EXPECT_GE(refused, 1);
  }
}

TEST(FunctionView, RefusesWritesIntoPartsOfOneBuffer) {
  const Tensor x = ones({2, 2}, {.requires_grad = true});
  const auto parts = [](AutogradContext*, const Tensor& each) {
    const Tensor all = each * 3;
    return TensorList{all, all[0].view({1, 2}).expand({2, 2}), all[1].view({1, 2}).expand({2, 2})};
  };
  TensorList y = negated(x, parts);
  EXPECT_THROW(y[1].mul_(2), Error);
  sum(y[2]).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{-1, -1, -1, -1}));
}

TEST(FunctionView, OfAChangedArgumentShowsItsNewValues) {
  const Tensor x = trained();
  const Tensor h = x * 2;
  const Tensor before = h.view({-1});
  const Tensor y = negated_one(h, [](const Tensor& each) { return each.view({-1}); });
  const TensorList both = negated(h, [](AutogradContext* ctx, const Tensor& each) {
    Tensor(each).mul_(5);
    ctx->mark_dirty({each});
    return TensorList{each, each.view({-1}), each};
  });
  EXPECT_TRUE(both[0].is_same(h));
  EXPECT_FALSE(both[2].is_same(h));
  EXPECT_EQ(values<float>(both[1].detach()), (Floats{10, 10}));
  (sum(both[0]) + 10 * sum(both[1]) + 100 * sum(both[2])).backward({}, {.retain_graph = true});
  EXPECT_EQ(values<float>(x.grad()), (Floats{-222, -222}));
  x.zero_grad();
  sum(before).backward({}, {.retain_graph = true});  // by the history of h now
  EXPECT_EQ(values<float>(x.grad()), (Floats{-2, -2}));
  EXPECT_THROW(sum(y).backward(), Error);
}

TEST(FunctionView, RefusesAChangedArgumentThatIsToBeAConstant) {
  const Tensor x = trained();
  const auto changed = [](AutogradContext* ctx, const Tensor& each) {
    Tensor(each).mul_(5);
    ctx->mark_dirty({each});
    ctx->mark_non_differentiable({each});
    return TensorList{each};
  };
  EXPECT_ERROR(negated(x * 2, changed), kInvalidArgument,
               "Negated: mark_dirty and mark_non_differentiable were given the same argument, "
               "which would keep the gradient of its old values; return a clone() of it as the "
               "constant");
  EXPECT_FALSE(negated(ones({1, 2}), changed, x)[0].requires_grad());
}

TEST(FunctionView, ThatIsAConstantHasNoHistory) {
  const Tensor x = trained();
  const auto constant = [](AutogradContext* ctx, const Tensor& each) {
    ctx->mark_non_differentiable({each});
    return TensorList{each, each * 2};
  };
  const TensorList y = negated(x, constant);
  EXPECT_FALSE(y[0].requires_grad());
  EXPECT_FALSE(y[0].is_same(x));
  sum(y[1]).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{-1, -1}));
}

TEST(FunctionView, MadeUnderANoGradGuardIsAViewToo) {
  const Tensor x = trained();
  Tensor h = x * 2;
  Tensor y;
  {
    const NoGradGuard no_grad;
    y = negated_one(h, [](const Tensor& each) { return each; });
    y.mul_(2);
  }
  EXPECT_FALSE(y.requires_grad());
  EXPECT_ERROR(y.mul_(2), kInvalidArgument,
               "mul_: a view that was made under a NoGradGuard was to be changed in place without "
               "one, and its base requires gradients, which would not know of it; do it under a "
               "NoGradGuard, or on detach()");
}

}  // namespace
}  // namespace dl
