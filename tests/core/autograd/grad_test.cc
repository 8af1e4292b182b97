// autograd::grad(), kept gradients, removable hooks, the modes of a thread, anomaly mode.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "core/autograd/anomaly.h"
#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/graph/leaf.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/conv/conv.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/linear.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "core/tensor/print.h"
#include "tests/core/support.h"

// Not in an unnamed namespace: the linker tells programs the names of such functions only.
namespace dl::forward_calls {
__attribute__((noinline)) Tensor root_of(const Tensor& x) {
  Tensor y = sqrt(x);
  return y.clone();
}
}  // namespace dl::forward_calls

namespace dl {
namespace {

using ::testing::HasSubstr;
using Floats = std::vector<float>;

Tensor grad_leaf(std::initializer_list<float> numbers) {
  return tensor(numbers, {.requires_grad = true});
}

TEST(Grad, ReturnsGradientsOfLeavesAndOfResults) {
  const Tensor x = grad_leaf({1, 2});
  const Tensor w = grad_leaf({3, 4});
  const Tensor h = x * w;
  const Tensor y = sum(h * h);
  const std::vector<Tensor> grads = autograd::grad({y}, {x, h, w});
  ASSERT_EQ(grads.size(), 3U);
  EXPECT_EQ(values<float>(grads[0]), (Floats{18, 64}));
  EXPECT_EQ(values<float>(grads[1]), (Floats{6, 16}));
  EXPECT_EQ(values<float>(grads[2]), (Floats{6, 32}));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Grad, LeavesGradAndCallbacksOfLeavesAlone) {
  const Tensor x = grad_leaf({1, 2});
  const Tensor w = grad_leaf({3, 4});
  int calls = 0;
  for (const Tensor& leaf : {x, w}) {
    on_grad_ready(leaf, [&] { ++calls; }, [&](const std::exception_ptr&) { ++calls; });
  }
  sum(x * w).backward();
  EXPECT_EQ(calls, 2);
  const Tensor y = sum(x * w);
  autograd::grad({y}, {x}, {.retain_graph = true});
  autograd::grad({y}, {x, w}, {.retain_graph = true});
  w.register_hook([](const Tensor&) -> Tensor { throw Error(ErrorKind::kAborted, "stop"); });
  EXPECT_ERROR(autograd::grad({y}, {w}), kAborted, "stop");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 4}));
}

TEST(Grad, RunsOnlyWhatLeadsToItsInputs) {
  const Tensor x = grad_leaf({1, 2});
  const Tensor h = x * 3;
  const Tensor other = x * 5;
  int runs = 0;
  other.register_hook([&](const Tensor&) {
    ++runs;
    return Tensor();
  });
  const Tensor y = sum(h * other);
  EXPECT_EQ(values<float>(autograd::grad({y}, {h}, {.retain_graph = true})[0]), (Floats{5, 10}));
  EXPECT_EQ(runs, 0);
  autograd::grad({y}, {x});
  EXPECT_EQ(runs, 1);
}

TEST(Grad, FreesOnlyWhatItRan) {
  const Tensor x = grad_leaf({2});
  const Tensor h = x * x;
  const Tensor y = h * h;
  EXPECT_EQ(autograd::grad({y}, {h})[0].item<float>(), 8);
  EXPECT_EQ(autograd::grad({h * 2}, {x})[0].item<float>(), 8);  // x * x is there still
  EXPECT_ERROR(autograd::grad({y}, {h}), kInvalidArgument,
               "autograd::grad: the graph was freed by an earlier backward pass, at mul; give the "
               "earlier one retain_graph = true, or compute the result again");
}

TEST(Grad, TakesWeightsOfSeveralOutputs) {
  const Tensor x = grad_leaf({1, 2});
  const Tensor y = x * 2;
  const Tensor z = x * x;
  const std::vector<Tensor> grads =
      autograd::grad({y, z}, {x, y}, {.grad_outputs = {tensor({1.0, 10.0}), tensor({1.0, 100.0})}});
  EXPECT_EQ(values<float>(grads[0]), (Floats{4, 420}));
  EXPECT_EQ(values<float>(grads[1]), (Floats{1, 10}));  // y is an output itself
}

TEST(Grad, OfAFusedProducerIsThatBeforeTheActivation) {
  const Tensor x = tensor({{1.0, -1.0}});
  const Tensor w = tensor({{1.0, 0.0}, {0.0, 1.0}}, {.requires_grad = true});
  const Tensor h = linear(x, w, Tensor(), {.activation = Activation::kRelu});
  const Tensor y = sum(linear(h, w, Tensor(), {}));
  EXPECT_EQ(values<float>(autograd::grad({y}, {h, w})[0]), (Floats{1, 1}));
}

TEST(Grad, RefusesUnusedInputs) {
  const Tensor x = grad_leaf({1});
  const Tensor other = grad_leaf({1});
  const Tensor y = x * 2;
  EXPECT_ERROR(autograd::grad({y}, {x, other}, {.retain_graph = true}), kInvalidArgument,
               "autograd::grad: input 1 was not used to compute the outputs; with allow_unused = "
               "true its gradient is an undefined tensor");
  const std::vector<Tensor> grads = autograd::grad({y}, {other, x}, {.allow_unused = true});
  EXPECT_FALSE(grads[0].defined());
  EXPECT_EQ(grads[1].item<float>(), 2);
}

TEST(Grad, RefusesWhatItCannotDo) {
  const Tensor x = grad_leaf({1, 2});
  const Tensor y = x * 2;
  EXPECT_ERROR(autograd::grad({y}, {x}), kShape,
               "autograd::grad: the gradient may be left out for a tensor of one element only, the "
               "shape is [2]; sum() or mean() it, or give a gradient");
  EXPECT_ERROR(autograd::grad({y}, {ones({2})}), kInvalidArgument,
               "autograd::grad: input 0 requires no gradients, so nothing was recorded of it");
  EXPECT_ERROR(autograd::grad({y}, {x}, {.grad_outputs = {ones({2}), ones({2})}}), kInvalidArgument,
               "autograd::grad: 2 gradients for 1 tensors");
  EXPECT_ERROR(autograd::grad({y}, {Tensor()}), kInvalidArgument,
               "autograd::grad: input 0 is undefined");
}

// PyTorch's results: the hooks of an input have run if the pass ends there.
TEST(Grad, RunsHooksAsPyTorchDoes) {
  const Tensor x = grad_leaf({1});
  const Tensor h = x * 2;
  h.register_hook([](const Tensor& g) { return g * 10; });
  const Tensor y = h * 3;
  const std::vector<Tensor> both = autograd::grad({y}, {h, x}, {.retain_graph = true});
  EXPECT_EQ(both[0].item<float>(), 3);
  EXPECT_EQ(both[1].item<float>(), 60);
  EXPECT_EQ(autograd::grad({y}, {h}, {.retain_graph = true})[0].item<float>(), 30);
  h.retain_grad();
  x.register_hook([](const Tensor& g) { return g + 1; });
  EXPECT_EQ(autograd::grad({y}, {x}, {.retain_graph = true})[0].item<float>(), 61);
  EXPECT_EQ(h.grad().item<float>(), 30);
  y.backward();
  EXPECT_EQ(h.grad().item<float>(), 60);
  EXPECT_EQ(x.grad().item<float>(), 61);
}

TEST(RetainGrad, KeepsTheGradientOfAResult) {
  const Tensor x = grad_leaf({1, 2});
  const Tensor h = x * 2;
  EXPECT_FALSE(h.retains_grad());
  h.retain_grad();
  EXPECT_TRUE(h.retains_grad());
  h.register_hook([](const Tensor& g) { return g * 10; });  // later, and seen all the same
  const Tensor seed = tensor({1.0, 3.0});
  h.backward(seed, {.retain_graph = true});
  EXPECT_EQ(values<float>(h.grad()), (Floats{10, 30}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{20, 60}));
  const Tensor first = h.grad();
  h.backward(seed);
  EXPECT_EQ(values<float>(h.grad()), (Floats{20, 60}));
  EXPECT_EQ(values<float>(first), (Floats{10, 30}));
  h.zero_grad(false);
  EXPECT_EQ(values<float>(h.grad()), (Floats{0, 0}));
  h.zero_grad();
  EXPECT_FALSE(h.grad().defined());
}

TEST(RetainGrad, FollowsAnOperationInPlace) {
  const Tensor x = grad_leaf({1, 1});
  Tensor h = x * 1;
  h.retain_grad();
  h.mul_(3);
  sum(h).backward();
  EXPECT_EQ(values<float>(h.grad()), (Floats{1, 1}));
  EXPECT_EQ(values<float>(x.grad()), (Floats{3, 3}));
}

TEST(RetainGrad, OfLeavesDoesNothingAndOfConstantsIsRefused) {
  const Tensor x = grad_leaf({1});
  x.retain_grad();
  EXPECT_FALSE(x.retains_grad());
  EXPECT_ERROR(ones({1}).retain_grad(), kInvalidArgument,
               "retain_grad: the tensor requires no gradients, there would be none to keep");
  EXPECT_FALSE((x * 2).grad().defined());
}

TEST(HookHandle, RemovesItsHookOnly) {
  const Tensor x = grad_leaf({1});
  Tensor y = x * 2;
  std::vector<int> calls;
  const auto noting = [&](int id) {
    return [&calls, id](const Tensor&) {
      calls.push_back(id);
      return Tensor();
    };
  };
  HookHandle of_leaf = x.register_hook(noting(1));
  HookHandle first = y.register_hook(noting(2));
  y.register_hook(noting(3));
  y.backward({}, {.retain_graph = true});
  EXPECT_EQ(calls, (std::vector{2, 3, 1}));
  calls.clear();
  first.remove();
  first.remove();
  of_leaf.remove();
  y.backward();
  EXPECT_EQ(calls, std::vector{3});
  HookHandle late = y.register_hook(noting(4));
  y = Tensor();
  late.remove();  // the tensor is gone
  HookHandle().remove();
}

TEST(HookHandle, MayBeUsedByAHook) {
  const Tensor x = grad_leaf({1});
  const Tensor y = x * 2;
  int calls = 0;
  HookHandle self;
  HookHandle next;
  self = y.register_hook([&](const Tensor&) {
    ++calls;
    self.remove();
    next.remove();
    return Tensor();
  });
  next = y.register_hook([&](const Tensor&) {
    calls += 10;
    return Tensor();
  });
  y.backward({}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(calls, 1);
}

TEST(GradModes, AreOfTheirThreadAndNest) {
  const Tensor x = grad_leaf({1});
  EXPECT_TRUE(is_grad_enabled());
  EXPECT_TRUE(set_grad_enabled(false));
  EXPECT_FALSE((x * 2).requires_grad());
  std::thread([] { EXPECT_TRUE(is_grad_enabled()); }).join();
  {
    const AutoGradMode on(true);
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_FALSE(set_grad_enabled(true));
  {
    const InferenceMode inference;
    EXPECT_TRUE(is_inference_mode_enabled());
    const EnableGradGuard changes_nothing;
    EXPECT_FALSE(is_grad_enabled());
    EXPECT_FALSE((x * 2).requires_grad());
    const InferenceMode off(false);
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_FALSE(is_inference_mode_enabled());
  EXPECT_TRUE(is_grad_enabled());
}

TEST(Detach, InPlaceMakesALeaf) {
  const Tensor x = grad_leaf({1, 2});
  Tensor y = x * 2;
  y.detach_();
  EXPECT_TRUE(y.is_leaf());
  EXPECT_FALSE(y.requires_grad());
  y.requires_grad_();
  sum(y * 3).backward();
  EXPECT_EQ(values<float>(y.grad()), (Floats{3, 3}));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(y.detach_().requires_grad());
  EXPECT_ERROR((x * 2)[0].detach_(), kInvalidArgument,
               "detach_: a view was to be made a leaf, but its base would still have the history; "
               "use detach()");
}

TEST(Anomaly, NamesTheOperationThatMadeNaN) {
  const Tensor x = grad_leaf({0, 1});
  const autograd::AnomalyMode anomaly;
  const Tensor y = sum(forward_calls::root_of(x) * 0);  // infinity times 0
  ::testing::internal::CaptureStderr();
  EXPECT_ERROR(y.backward(), kInvalidArgument,
               "SqrtBackward0: backward made NaN in the gradient of input 0, in 1 of 2 elements");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("Error detected in SqrtBackward0. Its forward call, the innermost "
                              "function first:\n    #0 "));
  EXPECT_THAT(text, HasSubstr("dl::forward_calls::root_of(dl::Tensor const&)\n"));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Anomaly, NamesTheOperationWhoseBackwardThrows) {
  const Tensor x = grad_leaf({1});
  Tensor y;
  {
    const autograd::AnomalyMode anomaly({.check_nan = false});
    Tensor w = tensor({2.0});
    y = x * w;
    w.fill_(0);
    ::testing::internal::CaptureStderr();
    EXPECT_THROW(y.backward(), Error);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("Error detected in MulBackward0"));
    (forward_calls::root_of(x) * std::nan("")).backward();  // NaN is not looked for
  }
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(y.backward(), Error);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Anomaly, SaysSoIfTheForwardCallIsNotKnown) {
  const Tensor x = grad_leaf({0});
  const Tensor y = sqrt(x) * 0;
  EXPECT_FALSE(autograd::is_anomaly_enabled());
  autograd::set_detect_anomaly(true);
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(y.backward(), Error);
  autograd::set_detect_anomaly(false);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "Error detected in SqrtBackward0. Its forward call was not in anomaly mode, so it is "
            "not known.\n");
}

TEST(Anomaly, LooksAtGradientsThatAreComputedInTheirPlace) {
  const Tensor w = tensor({{1.0}}, {.requires_grad = true});
  const autograd::AnomalyMode anomaly;
  const Tensor x = tensor({{1.0}});
  sum(linear(x, w, Tensor(), {})).backward();
  ::testing::internal::CaptureStderr();
  EXPECT_ERROR(sum(linear(x * std::nan(""), w, Tensor(), {})).backward(), kInvalidArgument,
               "MmBackward0: backward made NaN in the gradient of input 1, in 1 of 1 elements");
  ::testing::internal::GetCapturedStderr();
}

TEST(Anomaly, DoesNotBlameAnOperationForTheNaNOfAnEarlierPass) {
  const Tensor w = tensor({{1.0}}, {.requires_grad = true});
  const Tensor kernel = ones({1, 1, 1, 1}).requires_grad_();
  w.set_grad(full_like(w, std::nan("")));
  kernel.set_grad(full_like(kernel, std::nan("")));
  const autograd::AnomalyMode anomaly;
  sum(linear(tensor({{1.0}}), w, Tensor(), {})).backward();
  sum(conv2d(ones({1, 1, 2, 2}), kernel, Tensor(), {})).backward();
  EXPECT_TRUE(std::isnan(w.grad().item<double>()));
  EXPECT_TRUE(std::isnan(kernel.grad().item<double>()));
}

TEST(Anomaly, KeepsTheErrorIfStderrTakesNothing) {
  const autograd::AnomalyMode anomaly;
  const Tensor y = sqrt(grad_leaf({0})) * 0;
  std::fflush(stderr);
  const int before = ::dup(STDERR_FILENO);
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(before, 0);
  ASSERT_GE(full, 0);
  ::dup2(full, STDERR_FILENO);
  std::string text;
  try {
    y.backward();
  } catch (const std::exception& error) {
    text = error.what();
  }
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(full);
  std::clearerr(stderr);
  EXPECT_THAT(text, HasSubstr("SqrtBackward0: backward made NaN in the gradient of input 0"));
}

}  // namespace
}  // namespace dl
