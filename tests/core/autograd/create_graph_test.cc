// Passes with create_graph: gradients that have a history, and gradients of them. The derivatives
// of each operation are checked by gradgradcheck, in tests/core/ops.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/engine.h"
#include "core/autograd/function.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/conv/conv.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl {
namespace {

using autograd::AutogradContext;
using autograd::TensorList;
using Doubles = std::vector<double>;

constexpr autograd::GradOptions kCreateGraph{.create_graph = true};

Tensor double_leaf(std::initializer_list<double> numbers) {
  return tensor(numbers, {.dtype = DType::kF64, .requires_grad = true});
}

// The gradient of the sum of y, with a history.
Tensor grad_of(const Tensor& y, const Tensor& x) {
  return autograd::grad({sum(y)}, {x}, kCreateGraph)[0];
}

TEST(CreateGraph, GivesDerivativesOfEachOrder) {
  const Tensor x = double_leaf({0.7});
  Tensor y = exp(sin(x)) * pow(x, 4.0);
  std::vector<double> got;
  for (int order = 0; order < 3; ++order) {
    y = grad_of(y, x);
    got.push_back(y.item<double>());
  }
  // u and v hold e^sin(x), x^4 and their derivatives: (u v)' = u' v + u v', and so on.
  const double s = std::sin(0.7);
  const double c = std::cos(0.7);
  const double u[] = {std::exp(s), std::exp(s) * c, std::exp(s) * (c * c - s),
                      std::exp(s) * c * (c * c - 3 * s - 1)};
  const double v[] = {std::pow(0.7, 4), 4 * std::pow(0.7, 3), 12 * 0.7 * 0.7, 24 * 0.7};
  EXPECT_NEAR(got[0], u[1] * v[0] + u[0] * v[1], 1e-12);
  EXPECT_NEAR(got[1], u[2] * v[0] + 2 * u[1] * v[1] + u[0] * v[2], 1e-12);
  EXPECT_NEAR(got[2], u[3] * v[0] + 3 * u[2] * v[1] + 3 * u[1] * v[2] + u[0] * v[3], 1e-12);
}

TEST(CreateGraph, OfALinearFunctionIsAConstant) {
  const Tensor x = double_leaf({1, 2});
  EXPECT_FALSE(grad_of(x * 3, x).requires_grad());
  EXPECT_TRUE(grad_of(x * x, x).requires_grad());
}

TEST(CreateGraph, KeepsTheGraphUnlessToldNotTo) {
  const Tensor x = double_leaf({3});
  const Tensor y = x * x;
  EXPECT_EQ(grad_of(y, x).item<double>(), 6);
  EXPECT_EQ(grad_of(y, x).item<double>(), 6);
  autograd::grad({y}, {x}, {.retain_graph = false, .create_graph = true});
  EXPECT_THROW(grad_of(y, x), Error);
}

TEST(CreateGraph, GivesLeavesGradientsWithAHistory) {
  const Tensor x = double_leaf({3});
  (x * x * x).backward({}, {.create_graph = true});
  EXPECT_EQ(x.grad().item<double>(), 27);
  EXPECT_NE(x.grad().str().find("grad_fn="), std::string::npos);
  // It is added to, not overwritten: the tensor from before keeps its value.
  const Tensor first = x.grad();
  (x * x).backward({}, {.create_graph = true});
  EXPECT_EQ(first.item<double>(), 27);
  EXPECT_EQ(x.grad().item<double>(), 33);
  EXPECT_EQ(autograd::grad({x.grad()}, {x})[0].item<double>(), 18 + 2);
  x.zero_grad(/*set_to_none=*/false);
  EXPECT_FALSE(x.grad().requires_grad());
  EXPECT_EQ(x.grad().item<double>(), 0);
}

TEST(CreateGraph, DifferentiatesTheGivenGradient) {
  const Tensor x = double_leaf({2, 3});
  const Tensor v = double_leaf({5, 7});
  const Tensor g = autograd::grad({x * x}, {x}, {.grad_outputs = {v}, .create_graph = true})[0];
  EXPECT_EQ(values<double>(autograd::grad({sum(g)}, {v}, {.retain_graph = true})[0]),
            (Doubles{4, 6}));
  EXPECT_EQ(values<double>(autograd::grad({sum(g)}, {x})[0]), (Doubles{10, 14}));
  // An ordinary pass takes its values.
  (x * x).backward(v);
  EXPECT_EQ(values<double>(x.grad()), (Doubles{20, 42}));
  EXPECT_FALSE(x.grad().requires_grad());
  EXPECT_FALSE(v.grad().defined());
}

TEST(CreateGraph, HooksSeeGradientsWithAHistory) {
  const Tensor x = double_leaf({3});
  const Tensor h = x * x;
  h.retain_grad();
  h.register_hook([](const Tensor& g) { return g * g; });
  const Tensor g = grad_of(h * h, x);  // (2 h)^2 2 x = 8 x^5
  EXPECT_EQ(g.item<double>(), 8 * 243);
  // The hook sees the gradients of the second pass, too, as in PyTorch: 432, by way of 2 h.
  EXPECT_EQ(autograd::grad({g}, {x})[0].item<double>(), 8 * 81 + 432 * 432 * 6);
}

// Whether the memory of a result is freed after `use`, without a reset of gradients.
template <typename Use>
bool frees(const Use& use) {
  Ref<Storage> storage;
  {
    const Tensor x = double_leaf({1, 2});
    const Tensor h = x * 2;
    storage = h.storage();
    use(x, h);
  }
  return storage->use_count() == 1;
}

TEST(CreateGraph, MakesNoCircleOfOwners) {
  EXPECT_TRUE(frees([](const Tensor& x, const Tensor& h) {
    const Tensor y = softmax(tanh(h) * h, 0);
    const Tensor g = grad_of(y * y, x);
    autograd::grad({sum(g * g)}, {x}, kCreateGraph);
  }));
  EXPECT_TRUE(frees([](const Tensor& x, const Tensor& h) {
    const Tensor w = double_leaf({3, 4}).view({1, 2});
    const Tensor y = linear(h.view({1, 2}), w, {}, {.activation = Activation::kRelu});
    grad_of(y * y, x).sum().backward();
  }));
  // The circle that PyTorch warns of: x owns its gradient, whose history leads to x.
  EXPECT_TRUE(frees([](const Tensor& x, const Tensor& h) {
    sum(h * h).backward({}, {.create_graph = true});
    x.zero_grad();
  }));
}

TEST(CreateGraph, RefusesAChangedTensor) {
  const Tensor x = double_leaf({1, 2});
  Tensor h = x * 1;
  const Tensor y = h * h;
  h.add_(1);
  EXPECT_THROW(grad_of(y, x), Error);
  const Tensor g = grad_of(x * x * x, x);
  const NoGradGuard no_grad;
  Tensor(x).add_(1);
  EXPECT_THROW(autograd::grad({sum(g)}, {x}), Error);
}

TEST(CreateGraph, RefusesOperationsByName) {
  const Tensor x = ones({1, 2}, {.dtype = DType::kF64, .requires_grad = true});
  const Tensor loss = linear_cross_entropy(x, ones({2, 2}, {.dtype = DType::kF64}), tensor({1}));
  EXPECT_ERROR(grad_of(loss, x), kNotImplemented,
               "create_graph: gradients of gradients of linear_cross_entropy are not recorded");
  EXPECT_EQ(values<double>(autograd::grad({loss}, {x})[0]), (Doubles{0, 0}));
  const Tensor y = double_leaf({0.5});
  EXPECT_NEAR(grad_of(grad_of(lgamma(y), y), y).item<double>(), 4.934802200544679, 1e-8);
  const Tensor slope = grad_of(digamma(y), y);
  EXPECT_ERROR(grad_of(slope, y), kNotImplemented,
               "create_graph: gradients of gradients of digamma are not recorded");
}

TEST(CreateGraph, RefusesFixedMemoryOfALeaf) {
  const Tensor x = double_leaf({1, 2});
  set_grad_destination(x, zeros({2}, {.dtype = DType::kF64}));
  EXPECT_ERROR(sum(x * x).backward({}, {.create_graph = true}), kNotImplemented,
               "backward: create_graph cannot write a gradient with a history into fixed memory, "
               "as DistributedDataParallel sets it for a leaf of shape [2]; use autograd::grad()");
  EXPECT_EQ(values<double>(grad_of(x * x, x)), (Doubles{2, 4}));
}

// A branch that is not taken may overflow; the derivative must not be NaN.
TEST(CreateGraph, IsFiniteWhereExponentialsOverflow) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
             [](const Tensor& x) { return softplus(x); }, [](const Tensor& x) { return elu(x); },
             [](const Tensor& x) { return celu(x); }, [](const Tensor& x) { return selu(x); },
             [](const Tensor& x) { return silu(x); }, [](const Tensor& x) { return mish(x); },
             [](const Tensor& x) { return sigmoid(x); }, [](const Tensor& x) { return gelu(x); },
             [](const Tensor& x) { return logsigmoid(x); },
             [](const Tensor& x) {
               return binary_cross_entropy_with_logits(x, full_like(x.detach(), 0.3),
                                                       {.reduction = Reduction::kSum});
             }}) {
      const Tensor x = tensor({-1000.0, -95.0, 95.0, 1000.0}, {.dtype = dtype}).requires_grad_();
      const Tensor second = autograd::grad({sum(grad_of(f(x), x))}, {x}, {.allow_unused = true})[0];
      for (const double number : values<double>(second)) EXPECT_NEAR(number, 0, 1e-30);
    }
  }
}

TEST(CreateGraph, OfShortFloatsIsComputedInFloat32) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor x = tensor({-1.5, 0.25, 2.0}, {.dtype = dtype}).requires_grad_();
    const Tensor exact = x.detach().to(DType::kF64).requires_grad_();
    const Tensor got = autograd::grad({sum(grad_of(gelu(x), x))}, {x})[0];
    const Tensor wanted = autograd::grad({sum(grad_of(gelu(exact), exact))}, {exact})[0];
    EXPECT_EQ(got.dtype(), dtype);
    expect_near(got, values<double>(wanted), 0.01);
  }
}

TEST(CreateGraph, WorksWithAutocast) {
  const Tensor x = ones({2, 4}, {.requires_grad = true});
  const Tensor w = full({4, 4}, 0.5, {.requires_grad = true});
  Tensor y;
  {
    const autocast low(DeviceType::kCPU, {.dtype = DType::kBF16});
    y = square(linear(x, w)).to(DType::kF32);
  }
  const Tensor g = grad_of(y, x);
  EXPECT_EQ(g.dtype(), DType::kF32);
  // y = (x w^T)^2, so g = 2 (x w^T) w.
  expect_near(g, Doubles(8, 8), 0.02);
  sum(g).backward();
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  expect_near(w.grad(), Doubles(16, 16), 0.02);
}

// A function that saves its argument, and one that saves its result.
struct RecordedCube : autograd::Function<RecordedCube> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static TensorList backward(AutogradContext* ctx, TensorList grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * x * x * 3};
  }
};

struct Exponential : autograd::Function<Exponential> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    Tensor y = exp(x);
    ctx->save_for_backward({y});
    return y;
  }
  static TensorList backward(AutogradContext* ctx, TensorList grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};

struct Once : autograd::Function<Once> {
  static constexpr bool kOnceDifferentiable = true;
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static TensorList backward(AutogradContext*, TensorList grads) {
    return {full({1}, 2 * grads[0].item<double>(), {.dtype = DType::kF64})};
  }
};

TEST(CreateGraph, RecordsCustomFunctions) {
  const Tensor x = double_leaf({2});
  const Tensor second = grad_of(grad_of(RecordedCube::apply(x), x), x);
  EXPECT_EQ(second.item<double>(), 12);
  EXPECT_EQ(grad_of(second, x).item<double>(), 6);
  Tensor y = Exponential::apply(x * 3.0);
  for (int order = 1; order <= 3; ++order) {
    y = grad_of(y, x);
    EXPECT_NEAR(y.item<double>(), std::pow(3, order) * std::exp(6), 1e-9);
  }
}

TEST(CreateGraph, RefusesAFunctionThatIsOnceDifferentiable) {
  const Tensor x = double_leaf({2});
  EXPECT_EQ(autograd::grad({Once::apply(x)}, {x})[0].item<double>(), 2);
  EXPECT_ERROR(grad_of(Once::apply(x), x), kNotImplemented,
               "create_graph: gradients of gradients of Once are not recorded");
}

Tensor array(const parity::Arrays& arrays, const std::string& name, const Shape& shape) {
  const std::vector<double> numbers = arrays.get<double>(name);
  Tensor result = empty(shape, {.dtype = DType::kF64});
  std::copy(numbers.begin(), numbers.end(), result.data<double>());
  return result;
}

// Wasserstein loss of a critic with the gradient penalty of Gulrajani et al. 2017.
TEST(CreateGraph, AGradientPenaltyIsPyTorchs) {
  const parity::Arrays arrays("create_graph");
  const Shape shapes[] = {{4, 1, 3, 3}, {4}, {6, 4, 3, 3}, {6}, {1, 24}, {1}};
  std::vector<Tensor> p;
  for (const Shape& shape : shapes) {
    p.push_back(array(arrays, "penalty.p" + std::to_string(p.size()), shape).requires_grad_());
  }
  const auto critic = [&](const Tensor& images) {
    Tensor h = leaky_relu(conv2d(images, p[0], p[1], {.stride = 2, .padding = 1}), 0.2);
    h = leaky_relu(conv2d(h, p[2], p[3], {.stride = 2, .padding = 1}), 0.2);
    return linear(h.flatten(1), p[4], p[5]);
  };
  const Tensor real = array(arrays, "penalty.real", {3, 1, 8, 8});
  const Tensor fake = array(arrays, "penalty.fake", {3, 1, 8, 8});
  const Tensor mixed = lerp(real, fake, 0.3).requires_grad_();
  const Tensor slope = grad_of(critic(mixed), mixed);
  const Tensor penalty = mean(square(norm(slope.flatten(1), 2, {1}) - 1.0));
  const Tensor loss = mean(critic(fake)) - mean(critic(real)) + penalty * 10.0;
  loss.backward();
  expect_near(penalty.detach(), arrays.get<double>("penalty.penalty"), 1e-12);
  expect_near(loss.detach(), arrays.get<double>("penalty.loss"), 1e-12);
  for (std::size_t i = 0; i < p.size(); ++i) {
    expect_near(p[i].grad(), arrays.get<double>("penalty.g" + std::to_string(i)), 1e-11);
  }
}

TEST(CreateGraph, AHessianTimesAVectorIsPyTorchs) {
  const parity::Arrays arrays("create_graph");
  const Shape shapes[] = {{5, 4}, {5}, {3, 5}, {3}};
  std::vector<Tensor> p;
  std::vector<Tensor> v;
  for (const Shape& shape : shapes) {
    const std::string number = std::to_string(p.size());
    p.push_back(array(arrays, "hessian.p" + number, shape).requires_grad_());
    v.push_back(array(arrays, "hessian.v" + number, shape));
  }
  const Tensor x = array(arrays, "hessian.x", {6, 4});
  const Tensor h = softplus(tanh(linear(x, p[0], p[1])));
  const Tensor loss = cross_entropy(linear(h, p[2], p[3]), tensor({0, 2, 1, 1, 0, 2}));
  const std::vector<Tensor> grads = autograd::grad({loss}, p, kCreateGraph);
  Tensor along = zeros({}, {.dtype = DType::kF64});
  for (std::size_t i = 0; i < p.size(); ++i) along = along + sum(grads[i] * v[i]);
  const std::vector<Tensor> products = autograd::grad({along}, p);
  for (std::size_t i = 0; i < p.size(); ++i) {
    expect_near(products[i], arrays.get<double>("hessian.hv" + std::to_string(i)), 1e-12);
  }
}

}  // namespace
}  // namespace dl
