// What owns what in a graph: no write in place makes a circle of owners, which would never be
// freed.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "core/autograd/function.h"
#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/linear.h"
#include "core/ops/logic/logic.h"
#include "core/ops/norm/norm.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

using Graph = std::function<void(Tensor& x, const Tensor& w)>;

// Whether the memory of x is freed after `graph` ran, without a backward pass. `make` gives x of w.
bool frees(const std::function<Tensor(const Tensor& w)>& make, const Graph& graph) {
  Ref<Storage> storage;
  {
    const Tensor w = full({4, 4}, 0.5, {.requires_grad = true});
    Tensor x = make(w);
    storage = x.storage();
    graph(x, w);
  }
  return storage->use_count() == 1;
}

Tensor result(const Tensor& w) {
  return w * 2;
}

// A constant, which becomes a result when a result is written into it.
Tensor constant(const Tensor& w) {
  return full(w.sizes(), 2.0);
}

struct Cube : autograd::Function<Cube> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static autograd::TensorList backward(autograd::AutogradContext* ctx, autograd::TensorList grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * x * x * 3};
  }
};

// Each saves x and then writes into x what depends on that.
const std::pair<const char*, Graph> kWrites[] = {
    {"mul_ by its square", [](Tensor& x, const Tensor& w) { x.mul_((x * w).square()); }},
    {"add_ of a product", [](Tensor& x, const Tensor& w) { x.add_(x * w); }},
    {"sub_ of a product", [](Tensor& x, const Tensor& w) { x.sub_(w * x); }},
    {"div_ by a quotient", [](Tensor& x, const Tensor& w) { x.div_(w / x); }},
    {"copy_ of its power", [](Tensor& x, const Tensor& w) { x.copy_(pow(x, w)); }},
    {"copy_ of its maximum", [](Tensor& x, const Tensor& w) { x.copy_(maximum(x, w)); }},
    {"copy_ of a product of matrices", [](Tensor& x, const Tensor& w) { x.copy_(matmul(x, w)); }},
    {"copy_ of a norm", [](Tensor& x, const Tensor& w) { x.copy_(layer_norm(x * w, {4}) * x); }},
    {"copy_ of a softmax", [](Tensor& x, const Tensor& w) { x.copy_(softmax(x * w, 1) * x); }},
    {"addcmul_", [](Tensor& x, const Tensor& w) { x.addcmul_(x * w, x); }},
    {"atan2_", [](Tensor& x, const Tensor& w) { x.atan2_(x * w); }},
    {"exp_ after a product",
     [](Tensor& x, const Tensor& w) {
       x.mul_(x * w);
       x.exp_();
     }},
    {"a row of it",
     [](Tensor& x, const Tensor& w) {
       Tensor row = x[0];
       row.mul_((row * w[1]).square());
     }},
    {"a part of a view of it",
     [](Tensor& x, const Tensor& w) {
       const Tensor flat = x.view({16});
       flat.slice(0, 0, 4).mul_(flat.slice(0, 4, 8) * w[0]);
     }},
    {"its view, saved before",
     [](Tensor& x, const Tensor& w) {
       const Tensor view = x.t();
       x.add_(view * w);
     }},
    {"index_put_", [](Tensor& x, const Tensor& w) { x.index({0}) = (x * w)[1]; }},
    {"scatter_add_",
     [](Tensor& x, const Tensor& w) {
       x.scatter_add_(0, zeros({4, 4}, {.dtype = DType::kI64}), x * w);
     }},
    {"masked_fill_", [](Tensor& x, const Tensor& w) { x.masked_fill_(gt(x, 0), sum(x * w)); }},
    {"a function of the user's", [](Tensor& x, const Tensor& w) { x.mul_(Cube::apply(x) * w); }},
    {"as often as one likes",
     [](Tensor& x, const Tensor& w) {
       for (int i = 0; i < 3; ++i) x.mul_((x * w).square());
     }},
};

TEST(Ownership, AWriteIntoAResultMakesNoCircle) {
  for (const auto& [name, graph] : kWrites) EXPECT_TRUE(frees(result, graph)) << name;
}

TEST(Ownership, AWriteIntoAConstantMakesNoCircle) {
  for (const auto& [name, graph] : kWrites) EXPECT_TRUE(frees(constant, graph)) << name;
}

TEST(Ownership, AWriteIntoALeafThatIsFrozenNowMakesNoCircle) {
  const auto leaf = [](const Tensor& w) { return full(w.sizes(), 2.0, {.requires_grad = true}); };
  EXPECT_TRUE(frees(leaf, [](Tensor& x, const Tensor& w) {
    const Tensor y = x.square() * w;
    x.requires_grad_(false);
    x.mul_(y);
  }));
}

TEST(Ownership, AGradientHasNoHistory) {
  const auto leaf = [](const Tensor& w) { return full(w.sizes(), 2.0, {.requires_grad = true}); };
  EXPECT_TRUE(frees(leaf, [](Tensor& x, const Tensor&) { x.set_grad(x.square()); }));
  const Tensor x = full({2}, 3.0, {.requires_grad = true});
  x.set_grad(x.square());
  EXPECT_FALSE(x.grad().requires_grad());
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{9, 9}));
}

// What is saved is the memory, so that a write is still noticed.
TEST(Ownership, AWriteIntoASavedTensorIsNoticed) {
  const Tensor w = full({2}, 3.0, {.requires_grad = true});
  Tensor x = w * 2;
  const Tensor y = x.square();
  x.mul_(y);
  EXPECT_THROW(sum(y).backward(), Error);
}

}  // namespace
}  // namespace dl
