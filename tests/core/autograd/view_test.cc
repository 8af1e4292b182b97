// Views of tensors that are changed in place afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// 1, 2, 3, ...
Tensor counted(const Shape& shape, MemoryFormat format = MemoryFormat::kContiguous) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return arange(1, count + 1, 1, {.dtype = DType::kF32}).view(shape).clone(format).detach();
}

Tensor trained(const Shape& shape) {
  Tensor w = counted(shape);
  w.requires_grad_();
  return w;
}

Tensor weighted_sum(const Tensor& view) {
  return sum(mul(view, counted(view.sizes())));
}

using MakeView = std::function<Tensor(const Tensor&)>;

struct Kind {
  const char* name;
  MakeView make;
};

// Views of a tensor [2, 3, 4, 1].
const Kind kKinds[] = {
    {"select", [](const Tensor& a) { return a.select(1, 2); }},
    {"index", [](const Tensor& a) { return a[1]; }},
    {"slice", [](const Tensor& a) { return a.slice(2, 1, 4, 2); }},
    {"empty_slice", [](const Tensor& a) { return a.slice(2, 3, 3); }},
    {"narrow", [](const Tensor& a) { return a.narrow(1, 1, 2); }},
    {"transpose", [](const Tensor& a) { return a.transpose(0, 2); }},
    {"permute", [](const Tensor& a) { return a.permute({3, 2, 0, 1}); }},
    {"view", [](const Tensor& a) { return a.view({6, 4}); }},
    {"reshape", [](const Tensor& a) { return a.reshape({3, 8}); }},
    {"flatten", [](const Tensor& a) { return a.flatten(1); }},
    {"expand", [](const Tensor& a) { return a.expand({5, 2, 3, 4, 7}); }},
    {"squeeze", [](const Tensor& a) { return a.squeeze(); }},
    {"squeeze_dim", [](const Tensor& a) { return a.squeeze(3); }},
    {"unsqueeze", [](const Tensor& a) { return a.unsqueeze(1); }},
    {"t_of_select", [](const Tensor& a) { return a[0].squeeze(2).t(); }},
    {"slice_of_expand", [](const Tensor& a) { return a.expand({2, 3, 4, 6}).slice(3, 1, 6, 2); }},
    {"number", [](const Tensor& a) { return a[1][2][3][0]; }},
};

struct Change {
  const char* name;
  std::function<void(Tensor& base, const Tensor& w)> run;
};

const Change kChanges[] = {
    {"add_", [](Tensor& a, const Tensor& w) { a.add_(w); }},
    {"add_scaled", [](Tensor& a, const Tensor& w) { a.add_(w, 3); }},
    {"sub_", [](Tensor& a, const Tensor& w) { a.sub_(w); }},
    {"mul_", [](Tensor& a, const Tensor& w) { a.mul_(w); }},
    {"div_", [](Tensor& a, const Tensor& w) { a.div_(w); }},
    {"copy_", [](Tensor& a, const Tensor& w) { a.copy_(w); }},
    {"relu_",
     [](Tensor& a, const Tensor& w) {
       a.add_(w);
       relu_(a);
     }},
    {"fill_",
     [](Tensor& a, const Tensor& w) {
       a.add_(w);
       a.fill_(2);
     }},
};

// The gradients that a view made before a change brings, or one made after it.
std::vector<float> gradients(bool before, bool is_recorded, const MakeView& make,
                             const Change& change) {
  const Shape shape{2, 3, 4, 1};
  const Tensor w = trained(shape);
  const Tensor x = trained(shape);
  Tensor base = is_recorded ? mul(x, 2.0) : counted(shape);
  Tensor view = make(base);
  change.run(base, w);
  if (!before) view = make(base);
  EXPECT_TRUE(view.requires_grad());
  EXPECT_FALSE(view.is_leaf());
  weighted_sum(view).backward();
  std::vector<float> result = values<float>(view.detach());
  for (const Tensor& leaf : {w, x}) {
    if (!leaf.grad().defined()) continue;
    const std::vector<float> grad = values<float>(leaf.grad());
    result.insert(result.end(), grad.begin(), grad.end());
  }
  return result;
}

TEST(ChangedView, HasTheGradientOfAViewMadeAfterTheChange) {
  for (const Kind& kind : kKinds) {
    for (const Change& change : kChanges) {
      for (const bool is_recorded : {false, true}) {
        EXPECT_EQ(gradients(true, is_recorded, kind.make, change),
                  gradients(false, is_recorded, kind.make, change))
            << kind.name << " before " << change.name;
      }
    }
  }
}

// One more view, at random.
Tensor random_view(const Tensor& a, std::mt19937& random) {
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  if (a.dim() == 0) return a.unsqueeze(0);
  const std::int64_t d = below(a.dim());
  switch (below(8)) {
    case 0:
      return a.size(d) > 0 ? a.select(d, below(a.size(d))) : a;
    case 1: {
      const std::int64_t start = below(a.size(d) + 1);
      return a.slice(d, start, start + below(a.size(d) + 1), 1 + below(2));
    }
    case 2:
      return a.transpose(d, below(a.dim()));
    case 3:
      return a.dim() < 5 ? a.unsqueeze(d) : a;
    case 4:
      return a.squeeze(d);
    case 5: {
      Shape shape = a.sizes();
      for (std::int64_t& size : shape) size = size == 1 ? 2 : size;
      return a.expand(shape);
    }
    default:
      return view_strides(a.sizes(), a.strides(), {a.numel()}) ? a.flatten() : a;
  }
}

TEST(ChangedView, OfViewsOfViewsHasItToo) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const MakeView make = [seed](const Tensor& base) {
      std::mt19937 random(seed);
      Tensor view = base;
      for (unsigned length = 1 + seed % 5; length > 0; --length) view = random_view(view, random);
      return view.unsqueeze(0);
    };
    const Change& change = kChanges[seed % std::size(kChanges)];
    EXPECT_EQ(gradients(true, seed % 2 == 0, make, change),
              gradients(false, seed % 2 == 0, make, change))
        << "seed " << seed << ", " << change.name;
  }
}

// PyTorch refuses to write into one of several views.
TEST(ChangedView, MayBeAPieceOfSeveral) {
  const struct {
    const char* name;
    std::function<std::vector<Tensor>(const Tensor&)> pieces;
  } kRows[] = {{"split", [](const Tensor& x) { return x.split(2); }},
               {"chunk", [](const Tensor& x) { return x.chunk(2); }},
               {"unbind", [](const Tensor& x) { return x.view({2, 2}).unbind(); }}};
  for (const auto& [name, pieces] : kRows) {
    const Tensor w = trained({4});
    const Tensor x = mul(w, 1);
    std::vector<Tensor> parts = pieces(x);
    parts[1].mul_(parts[1]);  // x is w0, w1, w2^2, w3^2
    parts[0].mul_(3);
    add(weighted_sum(x), sum(parts[1])).backward();
    // Weights 1, 2, 3 and 4 of x, and 1 more of the second piece.
    EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{3, 6, (3 + 1) * 2 * 3, (4 + 1) * 2 * 4}))
        << name;
  }
}

TEST(ChangedView, AsStridedIsAConstant) {
  const Tensor w = trained({4});
  EXPECT_TRUE(w.view({2, 2}).requires_grad());
  EXPECT_FALSE(as_strided(w, {2, 2}, {2, 1}, 0).requires_grad());
}

TEST(ChangedView, OfAChannelsLastTensorHasItToo) {
  const Tensor w = trained({2, 3, 4, 5});
  Tensor base = counted({2, 3, 4, 5}, MemoryFormat::kChannelsLast);
  const Tensor view = base.select(2, 1);
  base.add_(w);
  weighted_sum(view).backward();
  const std::vector<float> grad = values<float>(w.grad());
  w.zero_grad();
  weighted_sum(base.select(2, 1)).backward();
  EXPECT_EQ(grad, values<float>(w.grad()));
}

TEST(ChangedView, FollowsItsBaseThroughSeveralChanges) {
  const Tensor w = trained({2, 2});
  Tensor base = zeros({2, 2});
  const Tensor row = base[0];
  EXPECT_FALSE(row.requires_grad());
  EXPECT_TRUE(row.is_leaf());
  base.add_(w);
  const Tensor first = sum(row);
  base.mul_(10);
  const Tensor second = sum(row);
  add(first, second).backward();
  EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{11, 11, 0, 0}));
}

TEST(ChangedView, LivesLongerThanItsBase) {
  const Tensor w = trained({2});
  Tensor row;
  {
    Tensor base = zeros({2, 2});
    row = base[1];
    base.add_(w);
  }
  sum(row).backward();
  EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{1, 1}));
}

TEST(ChangedView, IsARootOfBackwardAndHasHooks) {
  const Tensor w = trained({2, 2});
  Tensor base = zeros({2, 2});
  const Tensor row = base[1];
  base.add_(w);
  int calls = 0;
  row.register_hook([&](const Tensor& grad) {
    ++calls;
    return mul(grad, 2.0);
  });
  row.backward(ones({2}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{0, 0, 2, 2}));
  EXPECT_THAT(row.str(), HasSubstr("grad_fn=<AsStridedBackward0>"));
}

TEST(ChangedView, AnOperandOfTheNextChange) {
  const Tensor w = trained({2});
  Tensor base = zeros({2});
  const Tensor all = base.view({2});
  base.add_(w);
  base.add_(all);  // 2 w
  base.mul_(all);  // 4 w^2
  sum(all).backward();
  EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{8, 16}));
}

TEST(ChangedView, MayBeWrittenItself) {
  const Tensor w = trained({2, 2});
  Tensor base = zeros({2, 2});
  Tensor row = base[0];
  row.fill_(3);  // nothing is recorded yet
  base.add_(w);
  row.zero_();
  sum(base).backward();
  EXPECT_EQ(values<float>(base[0].detach()), (std::vector<float>{0, 0}));
  EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{0, 0, 1, 1}));
}

TEST(ChangedView, HasNoHistoryIfTheChangeIsNotRecorded) {
  Tensor base = trained({2, 2});
  const Tensor row = base[0];
  const Tensor plain = zeros({2});
  const Tensor of_plain = plain.view({2});
  {
    const NoGradGuard no_grad;
    base.add_(1);
    const_cast<Tensor&>(plain).add_(sum(base));
  }
  EXPECT_FALSE(of_plain.requires_grad());
  sum(mul(row, row)).backward();
  EXPECT_EQ(values<float>(base.grad()), (std::vector<float>{4, 6, 0, 0}));
}

TEST(ChangedView, OfADetachedTensorStaysAConstant) {
  const Tensor w = trained({2, 2});
  Tensor base = zeros({2, 2});
  const Tensor detached = base.detach();
  const Tensor row = detached[0];
  const Tensor of_row = base[0].detach();
  base.add_(w);
  for (const Tensor& each : {detached, row, of_row}) {
    EXPECT_FALSE(each.requires_grad());
    EXPECT_TRUE(each.is_leaf());
    EXPECT_FALSE(sum(each).requires_grad());
  }
  EXPECT_FALSE(row.view({2, 1}).requires_grad());
}

TEST(ChangedView, MadeWithoutGradientsIsRefused) {
  const Tensor w = trained({2, 2});
  for (const bool is_recorded : {false, true}) {
    Tensor base = is_recorded ? mul(w, 2.0) : zeros({2, 2});
    Tensor row;
    {
      const NoGradGuard no_grad;
      row = base[0];
    }
    EXPECT_FALSE(sum(row).requires_grad());
    const Tensor of_row = row.view({2, 1});
    base.add_(w);
    const auto refused = HasSubstr("made under a NoGradGuard, and its base was changed in place");
    EXPECT_THAT([&] { sum(row); }, ThrowsMessage<Error>(refused));
    EXPECT_THAT([&] { sum(of_row); }, ThrowsMessage<Error>(refused));
    EXPECT_THAT([&] { row.view({2, 1}); }, ThrowsMessage<Error>(refused));
    EXPECT_THAT([&] { sum(row).backward(); }, ThrowsMessage<Error>(refused));
    EXPECT_THAT(row.str(), HasSubstr("grad_fn=<Invalid>"));
    EXPECT_FALSE(sum(row.detach()).requires_grad());
    const NoGradGuard no_grad;
    EXPECT_EQ(sum(row).item<float>(), is_recorded ? 9.F : 3.F);
  }
}

TEST(ChangedView, MadeUnderNoGradIsNotWrittenInPlace) {
  Tensor base = mul(trained({2, 2}), 2.0);
  Tensor row;
  {
    const NoGradGuard no_grad;
    row = base[0];
    row.fill_(1);
  }
  EXPECT_THAT([&] { row.zero_(); },
              ThrowsMessage<Error>(HasSubstr("zero_: a view that was made under a NoGradGuard")));
  row.detach().zero_();
}

TEST(ChangedView, LeafKeepsItsGradientUntilTheChangeIsRecorded) {
  const Tensor w = trained({4});
  Tensor flat = zeros({4});
  Tensor part = flat.slice(0, 0, 2);
  part.requires_grad_();
  const Tensor of_part = part.view({2, 1});
  {
    const NoGradGuard no_grad;
    flat.fill_(5);
  }
  sum(mul(of_part, part.view({2, 1}))).backward();
  EXPECT_EQ(values<float>(part.grad()), (std::vector<float>{10, 10}));
  flat.add_(w);
  add(sum(part), sum(of_part)).backward();
  EXPECT_EQ(values<float>(part.grad()), (std::vector<float>{10, 10}));
  EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{2, 2, 0, 0}));
}

TEST(ChangedView, TellsTheLeavesOfItsBaseIfBackwardFails) {
  const Tensor w = trained({2, 2});
  Tensor base = zeros({2, 2});
  const Tensor row = base[0];
  base.add_(w);
  int told = 0;
  on_grad_ready(w, [] {}, [&](const std::exception_ptr&) { ++told; });
  EXPECT_THROW(row.backward(), Error);  // two elements, and no gradient is given
  EXPECT_EQ(told, 1);
}

TEST(ChangedView, MakesNoCircleOfOwners) {
  Ref<Storage> storage;
  {
    const Tensor w = trained({2});
    Tensor state = zeros({2});
    storage = state.storage();
    for (int i = 0; i < 3; ++i) {
      const Tensor view = state.view({2});
      state.add_(mul(view, w));  // mul keeps the view for backward
    }
  }
  EXPECT_EQ(storage->use_count(), 1U);
}

TEST(Overwritten, GivesItsInputsZeros) {
  const Tensor w = trained({2});
  const std::pair<const char*, std::function<void(Tensor&)>> writes[] = {
      {"zero_", [](Tensor& y) { y.zero_(); }},
      {"fill_", [](Tensor& y) { y.fill_(3); }},
      {"copy_", [](Tensor& y) { y.copy_(ones({2})); }},
      {"copy_ of what is trained", [&](Tensor& y) { y.copy_(w); }},
      {"copy_ of a number", [](Tensor& y) { y.copy_(ones({})); }},
      {"mul_", [](Tensor& y) { y.mul_(0); }},
      {"fill_ and more",
       [](Tensor& y) {
         y.zero_();
         y.add_(1);
       }},
  };
  for (const auto& [name, write] : writes) {
    const Tensor x = trained({2});
    Tensor y = mul(x, 2.0);
    write(y);
    sum(y).backward();
    ASSERT_TRUE(x.grad().defined()) << name;
    EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{0, 0})) << name;
  }
  EXPECT_EQ(values<float>(w.grad()), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace dl
