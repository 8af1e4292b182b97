#include "core/autograd/function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <any>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/autograd/engine.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/logic/logic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "core/tensor/print.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using autograd::AutogradContext;
using autograd::TensorList;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

Tensor argument(std::initializer_list<float> numbers) {
  return tensor(numbers, {.requires_grad = true});
}

// k x w; the gradient of x is ten times what it should be, so that it is seen to be this one.
struct ScaledProduct : autograd::Function<ScaledProduct> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double k, const Tensor& w) {
    ctx->save_for_backward({x, w});
    ctx->saved_data["k"] = k;
    EXPECT_FALSE(is_grad_enabled());
    return x * w * k;
  }
  static TensorList backward(AutogradContext* ctx, TensorList grads) {
    const TensorList saved = ctx->get_saved_variables();
    const double k = 10 * std::any_cast<double>(ctx->saved_data["k"]);
    EXPECT_FALSE(ctx->needs_input_grad(1));
    const Tensor to_w = ctx->needs_input_grad(2) ? grads[0] * saved[0] * k : Tensor();
    return {grads[0] * saved[1] * k, Tensor(), to_w};
  }
};

TEST(CustomFunction, HasTheGradientThatItGives) {
  const Tensor x = argument({1, 2});
  const Tensor w = argument({3, 4});
  const Tensor y = ScaledProduct::apply(x, 2.0, w);
  EXPECT_EQ(values<float>(y.detach()), (Floats{6, 16}));
  EXPECT_THAT(y.str(), HasSubstr("grad_fn=<ScaledProductBackward>"));
  sum(y).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{60, 80}));
  EXPECT_EQ(values<float>(w.grad()), (Floats{20, 40}));
  EXPECT_ERROR(sum(y).backward(), kInvalidArgument,
               "backward: the graph was freed by an earlier backward pass, at ScaledProduct; give "
               "the earlier one retain_graph = true, or compute the result again");
}

TEST(CustomFunction, IsToldWhichGradientsAreNeeded) {
  const Tensor x = argument({1});
  const Tensor y = ScaledProduct::apply(x, 1.0, tensor({3.0}));
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 30);
  const Tensor w = argument({5});
  const Tensor z = ScaledProduct::apply(x * 1, 1.0, w);
  EXPECT_EQ(autograd::grad({z}, {w})[0].item<float>(), 10);
}

TEST(CustomFunction, OfConstantsAndWithoutRecordingHasNoHistory) {
  EXPECT_FALSE(ScaledProduct::apply(tensor({1.0}), 2.0, tensor({1.0})).requires_grad());
  const Tensor x = argument({1});
  const NoGradGuard guard;
  EXPECT_FALSE(ScaledProduct::apply(x, 2.0, x).requires_grad());
}

TEST(CustomFunction, NoticesThatASavedTensorWasChanged) {
  const Tensor x = argument({1});
  Tensor w = tensor({3.0});
  const Tensor y = ScaledProduct::apply(x, 2.0, w);
  w.fill_(0);
  EXPECT_ERROR(y.backward(), kInvalidArgument,
               "ScaledProduct: backward needs a tensor of shape [1] and dtype float32 that was "
               "changed in place: it is at version 1, version 0 was saved; change a clone of it, "
               "or change it after backward");
}

// Smallest and largest part of a list, and how long it is.
struct SplitSum : autograd::Function<SplitSum> {
  static TensorList forward(AutogradContext* ctx, const TensorList& parts, bool materialize) {
    ctx->set_materialize_grads(materialize);
    ctx->saved_data["defined"] = std::string();
    Tensor total = zeros({2});
    for (const Tensor& part : parts) total = total + part;
    const Tensor count = tensor({static_cast<double>(parts.size())});
    ctx->mark_non_differentiable({count});
    ctx->save_for_backward({total});
    return {total, total * 2, count, tensor({1, 2})};
  }
  static TensorList backward(AutogradContext* ctx, TensorList grads) {
    std::string seen;
    for (const Tensor& grad : grads) seen += grad.defined() ? 'd' : '-';
    last_seen = seen;
    EXPECT_EQ(values<float>(ctx->get_saved_variables()[0]), (Floats{4, 6}));
    Tensor grad = zeros({2});
    if (grads[0].defined()) grad = grad + grads[0];
    if (grads[1].defined()) grad = grad + grads[1] * 2;
    return {grad, grad, Tensor()};
  }
  static inline std::string last_seen;
};

TEST(CustomFunction, TakesAndReturnsLists) {
  const Tensor a = argument({1, 2});
  const Tensor b = argument({3, 4});
  const TensorList y = SplitSum::apply(TensorList{a, b}, true);
  ASSERT_EQ(y.size(), 4U);
  EXPECT_TRUE(y[1].requires_grad());
  EXPECT_FALSE(y[2].requires_grad());
  EXPECT_FALSE(y[3].requires_grad());
  sum(y[1]).backward();
  EXPECT_EQ(values<float>(a.grad()), (Floats{2, 2}));
  EXPECT_EQ(values<float>(b.grad()), (Floats{2, 2}));
  EXPECT_EQ(SplitSum::last_seen, "dddd");
  const TensorList z = SplitSum::apply(TensorList{a, b}, false);
  sum(z[0]).backward();
  EXPECT_EQ(SplitSum::last_seen, "d---");
  EXPECT_EQ(values<float>(a.grad()), (Floats{3, 3}));
}

struct Doubled : autograd::Function<Doubled> {
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    x.mul_(2);
    ctx->mark_dirty({x});
    ctx->save_for_backward({x});
    return x;
  }
  static TensorList backward(AutogradContext* ctx, TensorList grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};

// The sum of all tensors that it is given, whatever they come in.
struct SumOfAll : autograd::Function<SumOfAll> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, std::span<const Tensor> many,
                        const std::optional<Tensor>& maybe, std::string_view /*text*/,
                        std::array<std::reference_wrapper<const Tensor>, 1> wrapped) {
    Tensor result = x + wrapped[0].get();
    for (const Tensor& each : many) result = result + each;
    if (maybe) result = result + *maybe;
    ctx->saved_data["tensors"] = 2 + many.size();
    return result;
  }
  static TensorList backward(AutogradContext* ctx, TensorList grads) {
    const auto first = std::any_cast<std::size_t>(ctx->saved_data["tensors"]);
    TensorList result(first + 2);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (ctx->needs_input_grad(i)) result[i] = grads[0] * (static_cast<double>(i) + 1);
    }
    return result;
  }
};

TEST(CustomFunction, FindsTensorsInRangesOptionalsAndReferences) {
  const Tensor x = argument({1});
  const Tensor a = argument({10});
  const Tensor b = argument({100});
  const Tensor c = argument({1000});
  const Tensor d = argument({10000});
  const std::array<Tensor, 2> many{a, b};
  const std::array<std::reference_wrapper<const Tensor>, 1> wrapped{d};
  // x, a, b, c, the text, d
  Tensor y = SumOfAll::apply(x, std::span(many), std::optional(c), "text", wrapped);
  EXPECT_EQ(y.detach().item<float>(), 11111);
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 1);
  EXPECT_EQ(a.grad().item<float>(), 2);
  EXPECT_EQ(b.grad().item<float>(), 3);
  EXPECT_EQ(c.grad().item<float>(), 4);
  EXPECT_EQ(d.grad().item<float>(), 6);
  // An empty optional is one argument, without a gradient; an empty range is none.
  y = SumOfAll::apply(x.detach(), std::span<const Tensor>(), std::optional<Tensor>(), "", wrapped);
  y.backward();
  EXPECT_EQ(d.grad().item<float>(), 6 + 4);
}

struct Tripled : autograd::Function<Tripled> {
  static Tensor forward(AutogradContext* /*ctx*/, const Tensor& x) { return x * 3; }
  static TensorList backward(AutogradContext* /*ctx*/, TensorList grads) { return {grads[0] * 3}; }
};

TEST(CustomFunction, TakesAnIndexedTensor) {
  const Tensor x = argument({1, 2, 3});
  sum(Tripled::apply(x.index({indexing::Slice(1, 3)}))).backward();
  EXPECT_EQ(values<float>(x.grad()), (Floats{0, 3, 3}));
}

struct OwnClass {
  Tensor constant;
};
template <typename T>
constexpr bool kIsRefused = detail::holds<T>() == detail::Holds::kUnknown;
static_assert(kIsRefused<Tensor*>);
static_assert(kIsRefused<std::shared_ptr<const Tensor>>);
static_assert(kIsRefused<std::pair<std::string, Tensor>>);
static_assert(kIsRefused<std::map<std::string, Tensor>>);
static_assert(kIsRefused<std::tuple<int, TensorList>>);
static_assert(kIsRefused<std::variant<int, std::optional<Tensor>>>);
static_assert(kIsRefused<std::vector<std::tuple<Tensor>>>);
static_assert(!kIsRefused<OwnClass> && !kIsRefused<std::filesystem::path> && !kIsRefused<double*>);
static_assert(!kIsRefused<std::vector<bool>> && !kIsRefused<std::map<std::string, std::any>>);

TEST(CustomFunction, MayChangeItsArgumentInPlace) {
  const Tensor x = argument({1, 2});
  const Tensor y = x * 1;
  const Tensor z = Doubled::apply(y);
  EXPECT_TRUE(z.is_same(y));
  sum(y).backward();  // by y's new history
  EXPECT_EQ(values<float>(x.grad()), (Floats{2, 4}));
  EXPECT_ERROR(Doubled::apply(argument({1})), kInvalidArgument,
               "Doubled: a leaf that requires gradients was to be changed in place; do it under a "
               "NoGradGuard, or on detach()");
}

struct HandedOn : autograd::Function<HandedOn> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x; }
  static TensorList backward(AutogradContext*, TensorList grads) { return {grads[0] * 3}; }
};

TEST(CustomFunction, ThatReturnsItsArgumentLeavesThatItsHistory) {
  const Tensor x = argument({1});
  const Tensor y = HandedOn::apply(x);
  EXPECT_FALSE(y.is_same(x));
  EXPECT_TRUE(x.is_leaf());
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 3);
}

// Returns what a test tells it to.
struct Faulty : autograd::Function<Faulty> {
  static Tensor forward(AutogradContext*, const Tensor& x, int) { return x * 1; }
  static TensorList backward(AutogradContext*, TensorList) { return results; }
  static inline TensorList results;
};

TEST(CustomFunction, GradientsAreChecked) {
  const Tensor x = argument({1, 2});
  const Tensor y = sum(Faulty::apply(x, 1));
  const auto run = [&](TensorList results) {
    Faulty::results = std::move(results);
    y.backward({}, {.retain_graph = true});
  };
  EXPECT_ERROR(run({ones({2})}), kInvalidArgument,
               "Faulty: backward returned 1 gradients, wanted 2: one for each argument of "
               "forward(), undefined for arguments that are no tensors");
  EXPECT_ERROR(run({ones({2}), ones({1})}), kInvalidArgument,
               "Faulty: backward returned a gradient for argument 1, which is no tensor");
  EXPECT_ERROR(run({ones({3}), {}}), kShape,
               "Faulty: backward returned a gradient of shape [3] for argument 0 of shape [2]");
  EXPECT_ERROR(run({ones({2}, {.dtype = DType::kF64}), {}}), kDType,
               "Faulty: backward returned a gradient of dtype float64 for argument 0 of dtype "
               "float32");
  EXPECT_FALSE(x.grad().defined());
  run({ones({2}), {}});
  EXPECT_EQ(values<float>(x.grad()), (Floats{1, 1}));
  run({{}, {}});  // no gradient
  EXPECT_EQ(values<float>(x.grad()), (Floats{1, 1}));
  Faulty::results.clear();
}

struct Marked : autograd::Function<Marked> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->mark_dirty({x});
    EXPECT_ERROR(ctx->needs_input_grad(1), kIndex,
                 "Marked: needs_input_grad: argument 1 was asked for, forward() has 1");
    EXPECT_TRUE(ctx->needs_input_grad(0));
    return x * 2;
  }
  static TensorList backward(AutogradContext*, TensorList grads) { return grads; }
};

struct MarkedAndReturned : autograd::Function<MarkedAndReturned> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->mark_dirty({x});
    return x;
  }
  static TensorList backward(AutogradContext*, TensorList grads) { return grads; }
};

TEST(CustomFunction, RefusesAChangedView) {
  const Tensor whole = argument({1, 2}) * 1;
  EXPECT_ERROR(MarkedAndReturned::apply(whole.slice(0, 0, 1)), kNotImplemented,
               "MarkedAndReturned: mark_dirty was given a view, whose base would not hear of the "
               "change; apply the function to a tensor of its own memory (x.clone())");
}

struct FirstRow : autograd::Function<FirstRow> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x[0]; }
  static TensorList backward(AutogradContext*, TensorList grads) {
    return {stack({grads[0], zeros_like(grads[0])})};
  }
};

TEST(CustomFunction, RefusesAWriteIntoAViewThatItReturned) {
  const auto text = [](const char* op) {
    return std::string(op) +
           ": a view that forward() of a custom Function returned was to be changed in place, and "
           "gradients would then pass by the function's backward(); return a clone() of the view "
           "from forward(), or change a clone()";
  };
  const Tensor x = ones({2, 3}, {.requires_grad = true}) * 1;
  Tensor row = FirstRow::apply(x);
  EXPECT_ERROR(row.mul_(2), kInvalidArgument, text("mul_"));
  EXPECT_ERROR(row[0].zero_(), kInvalidArgument, text("zero_"));
  Tensor changed = row.clone();
  sum(changed.mul_(2)).backward();
  const Tensor constant = ones({2, 3});
  row = FirstRow::apply(constant);
  row.mul_(2);
  EXPECT_EQ(constant[0][0].item<float>(), 2);
  Tensor held;
  {
    const NoGradGuard no_grad;
    held = FirstRow::apply(x);
  }
  EXPECT_ERROR(held.mul_(2), kInvalidArgument,
               "mul_: a view that was made under a NoGradGuard was to be changed in place without "
               "one, and its base requires gradients, which would not know of it; do it under a "
               "NoGradGuard, or on detach()");
}

struct WithIndices : autograd::Function<WithIndices> {
  static TensorList forward(AutogradContext* ctx, const Tensor& x, bool materialize) {
    ctx->set_materialize_grads(materialize);
    return {x * 2, arange(2), x > 0, Tensor()};
  }
  static TensorList backward(AutogradContext*, TensorList grads) {
    seen = grads;
    return {grads[0], Tensor()};
  }
  static inline TensorList seen;
};

TEST(CustomFunction, GetsZerosForOutputsOfIntegers) {
  sum(WithIndices::apply(argument({1, 2}), true)[0]).backward();
  const TensorList seen = std::move(WithIndices::seen);
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[1].str(), "tensor([0, 0])");
  EXPECT_EQ(seen[2].dtype(), DType::kBool);
  EXPECT_EQ(seen[2].sizes(), (Shape{2}));
  EXPECT_FALSE(seen[3].defined());
  sum(WithIndices::apply(argument({1, 2}), false)[0]).backward();
  EXPECT_FALSE(WithIndices::seen[1].defined());
  WithIndices::seen.clear();
}

TEST(CustomFunction, RefusesAChangedArgumentThatItDoesNotReturn) {
  EXPECT_ERROR(Marked::apply(argument({1})), kInvalidArgument,
               "Marked: mark_dirty was given a tensor that is not both an argument of forward() "
               "and one of its results");
}

}  // namespace
}  // namespace dl
