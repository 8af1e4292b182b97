#include "core/autograd/graph/leaf.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <vector>

#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/record.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl {
namespace {

Tensor leaf_of(std::initializer_list<float> numbers) {
  return tensor(numbers, {.requires_grad = true});
}

TEST(Leaf, TellsWhenItsGradientIsFinal) {
  const Tensor x = leaf_of({1});
  const Tensor w = leaf_of({2});
  std::vector<std::string> events;
  const std::uint64_t id = on_grad_ready(x, [&] {
    events.push_back("x " + std::to_string(static_cast<int>(x.grad().item<float>())));
  });
  on_grad_ready(w, [&] { events.push_back("w"); });
  const Tensor y = x * 3;
  const Tensor z = y * w + x;  // x is used first and last
  z.backward();
  EXPECT_EQ(events, (std::vector<std::string>{"w", "x 7"}));
  remove_grad_ready(x, id);
  events.clear();
  (x * w).backward();
  EXPECT_EQ(events, (std::vector<std::string>{"w"}));
  EXPECT_ERROR(on_grad_ready(tensor({1.0}), [] {}), kInvalidArgument,
               "on_grad_ready: a leaf that requires gradients was wanted");
}

TEST(Leaf, GradientHasTheLeafsLayout) {
  const Tensor x =
      arange(24).to(DType::kF32).view({1, 2, 3, 4}).contiguous(MemoryFormat::kChannelsLast);
  const Tensor images = x.detach().requires_grad_();
  images.mul(x).backward(x);
  EXPECT_EQ(images.grad().strides(), images.strides());
  EXPECT_EQ(values<float>(images.grad()), values<float>(x.mul(x)));

  const Tensor used_twice = x.detach().requires_grad_();
  used_twice.mul(x).add(used_twice).backward(x.contiguous());
  EXPECT_EQ(used_twice.grad().strides(), used_twice.strides());
  EXPECT_EQ(values<float>(used_twice.grad()), values<float>(x.mul(x).add(x)));

  // A gradient that lies otherwise is copied, and so is one for a leaf with gaps.
  const Tensor transposed = arange(6).to(DType::kF32).view({2, 3}).t().requires_grad_();
  transposed.sum().backward();
  EXPECT_EQ(transposed.grad().strides(), transposed.strides());
  Tensor with_gaps = arange(6).to(DType::kF32).view({2, 3}).narrow(1, 0, 2).detach();
  with_gaps.requires_grad_();
  with_gaps.mul(2).backward(ones({2, 2}));
  EXPECT_TRUE(with_gaps.grad().is_contiguous());
}

// A node that has no gradient for its input.
struct SilentBackward final : Node {
  std::string_view name() const noexcept override { return "silent"; }
  void backward(BackwardContext&) override {}
};

TEST(Leaf, AnAssignmentToAMissingGradientNamesSetGrad) {
  const Tensor p = ones({2}, {.requires_grad = true});
  const std::string text =
      "operator=: the tensor on the left is undefined, so that nothing can be written into it; to "
      "give a parameter p a gradient, call p.set_grad(g)";
  EXPECT_ERROR(p.grad() = ones({2}), kInvalidArgument, text);
  EXPECT_ERROR(p.grad() = 1.0, kInvalidArgument, text);
  p.set_grad(ones({2}));
  p.grad() = full({2}, 3.0);
  EXPECT_EQ(p.grad().at<float>({1}), 3.0F);
}

TEST(Leaf, IsToldEvenIfNothingFlowedBack) {
  const Tensor x = leaf_of({1});
  int calls = 0;
  on_grad_ready(x, [&] {
    ++calls;
    EXPECT_FALSE(x.grad().defined());
  });
  const Tensor y = x.detach().clone();
  record<SilentBackward>(y, x);
  y.backward();
  EXPECT_EQ(calls, 1);
}

TEST(Leaf, GradientOfADestinationKeepsItsAddress) {
  const Tensor bucket = full({4}, 99.0);
  const Tensor x = leaf_of({1, 2});
  (x * 5).backward(ones({2}));
  set_grad_destination(x, bucket.slice(0, 1, 3));
  EXPECT_EQ(values<float>(bucket), (std::vector<float>{99, 5, 5, 99}));
  const void* const address = x.grad().data_ptr();
  EXPECT_EQ(address, bucket.data<float>() + 1);
  (x * 2).backward(ones({2}));
  EXPECT_EQ(values<float>(bucket), (std::vector<float>{99, 7, 7, 99}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(values<float>(bucket), (std::vector<float>{99, 7, 7, 99}));  // undefined, not touched
  (x * 3).backward(ones({2}));
  EXPECT_EQ(values<float>(bucket), (std::vector<float>{99, 3, 3, 99}));
  EXPECT_EQ(x.grad().data_ptr(), address);
  x.set_grad(tensor({8.0, 9.0}));
  EXPECT_EQ(values<float>(bucket), (std::vector<float>{99, 8, 9, 99}));
  EXPECT_ERROR(set_grad_destination(x, bucket), kShape,
               "set_grad_destination: a gradient of shape [4] for a leaf of shape [2]");
  set_grad_destination(x, {});
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{8, 9}));
}

// What the leaf hears of passes that end with an exception.
struct Failures {
  explicit Failures(const Tensor& x) {
    on_grad_ready(
        x, [] {},
        [this](const std::exception_ptr& error) {
          try {
            std::rethrow_exception(error);
          } catch (const std::exception& known) {
            texts.emplace_back(known.what());
          }
        });
  }
  std::vector<std::string> texts;
};

Tensor stopping_hook(const Tensor&) {
  throw Error(ErrorKind::kAborted, "stop");
}

TEST(Leaf, IsToldOfAnExceptionFromAnySource) {
  const Tensor x = leaf_of({1, 2});
  const Tensor unused = leaf_of({1, 2});
  const Failures of_x(x);
  const Failures of_unused(unused);
  const Tensor y = x * 2;
  const Tensor at_start = sum(y);
  at_start.register_hook(stopping_hook);
  EXPECT_ERROR(at_start.backward(), kAborted, "stop");
  on_grad_ready(x, [] { stopping_hook({}); });
  EXPECT_ERROR(sum(y).backward(), kAborted, "stop");
  const Tensor late = leaf_of({1});
  on_grad_ready(late, [] { on_backward_end([] { stopping_hook({}); }); });
  EXPECT_ERROR(sum(y * late).backward(), kAborted, "stop");
  EXPECT_EQ(of_x.texts, (std::vector<std::string>(3, "stop")));
  EXPECT_TRUE(of_unused.texts.empty());
}

TEST(Leaf, IsToldOfAPassThatCouldNotBegin) {
  const Tensor x = leaf_of({1, 2});
  const Failures failures(x);
  const Tensor freed = leaf_of({3}) * leaf_of({4});
  freed.backward();
  EXPECT_THROW((x * 2).backward(), Error);
  EXPECT_THROW(backward(std::vector<Tensor>{freed, sum(x)}, {}), Error);
  EXPECT_THROW(backward(std::vector<Tensor>{sum(x), freed}, {}), Error);
  EXPECT_THROW(backward(std::vector<Tensor>{tensor({1.0}), sum(x)}, {}), Error);
  EXPECT_THROW(backward(std::vector<Tensor>{Tensor(), sum(x)}, {}), Error);
  EXPECT_THROW(backward(std::vector<Tensor>{sum(x)}, std::vector<Tensor>(2)), Error);
  EXPECT_EQ(failures.texts.size(), 6U);
  const Tensor square = x * x;
  square.backward(ones({2}));
  EXPECT_THROW(square.backward(ones({2})), Error);
  EXPECT_EQ(failures.texts.back(),
            "backward: the graph was freed by an earlier backward pass, at mul; give the earlier "
            "one retain_graph = true, or compute the result again");
  EXPECT_EQ(failures.texts.size(), 7U);
}

TEST(Leaf, ACallbacksExceptionIsDropped) {
  const Tensor x = leaf_of({1});
  const Failures before(x);
  on_grad_ready(
      x, [] {}, [](const std::exception_ptr&) { throw Error(ErrorKind::kIo, "another"); });
  const Tensor y = x * 2;
  y.register_hook(stopping_hook);
  EXPECT_ERROR(y.backward(), kAborted, "stop");
  EXPECT_EQ(before.texts.size(), 1U);
}

TEST(Leaf, IsNotToldOfAPassInsideAnotherThatDoesNotUseIt) {
  const Tensor x = leaf_of({1});
  const Failures failures(x);
  const Tensor other = leaf_of({5});
  const Failures of_other(other);
  const Tensor y = x * 2;
  y.register_hook([&](const Tensor&) {
    const EnableGradGuard enabled;
    const Tensor z = other * 2;
    z.register_hook(stopping_hook);
    EXPECT_ERROR(z.backward(), kAborted, "stop");
    return Tensor();
  });
  y.backward();
  EXPECT_TRUE(failures.texts.empty());
  EXPECT_EQ(of_other.texts.size(), 1U);
}

// A node that computes its leaf's gradient in the engine's target.
struct InTargetBackward final : Node {
  std::string_view name() const noexcept override { return "in_target"; }
  void backward(BackwardContext& context) override {
    GradTarget target = context.target(0);
    if (!target.memory.defined()) {
      context.give(0, context.grad_output().clone());
      return;
    }
    if (target.accumulate) {
      target.memory.add_(context.grad_output());
    } else {
      target.memory.copy_(context.grad_output());
    }
    context.gave_in_target(0);
    ++*used;
  }
  int* used = nullptr;
};

Tensor in_target(const Tensor& x, int* used) {
  Tensor y = x.detach().clone();
  if (auto* node = record<InTargetBackward>(y, x)) node->used = used;
  return y;
}

TEST(Leaf, ANodeMayComputeTheGradientInItsDestination) {
  const Tensor bucket = zeros({2});
  const Tensor x = leaf_of({1, 2});
  int used = 0;
  set_grad_destination(x, bucket);
  const Tensor y = in_target(x, &used) + in_target(x, &used) + x * 10;
  y.backward(ones({2}));
  EXPECT_EQ(used, 2);
  EXPECT_EQ(values<float>(bucket), (std::vector<float>{12, 12}));
  set_grad_destination(x, {});
  x.zero_grad();
  in_target(x, &used).backward(ones({2}));
  EXPECT_EQ(used, 2);  // no memory yet: the node gave a tensor
  in_target(x, &used).backward(ones({2}));
  EXPECT_EQ(used, 3);  // now there is a gradient to add to
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{2, 2}));
  x.register_hook([](const Tensor& grad) { return grad * 0; });
  in_target(x, &used).backward(ones({2}));
  EXPECT_EQ(used, 3);  // a hook must see the gradient first
  EXPECT_EQ(values<float>(x.grad()), (std::vector<float>{2, 2}));
}

TEST(Leaf, AGradientThatIsComputedInPlaceIsFinalBeforeItsNodeEnds) {
  const Tensor bucket = zeros({2});
  const Tensor x = leaf_of({1, 2});
  set_grad_destination(x, bucket);
  int used = 0;
  std::vector<int> used_before;
  on_grad_ready(x, [&] { used_before.push_back(used); });
  in_target(x, &used).backward(ones({2}));
  EXPECT_EQ(used_before, std::vector{0});

  // Another use is to come, or has come and waits to be added: not before all of it is there.
  x.zero_grad();
  used = 0;
  used_before.clear();
  std::vector<float> final_values;
  on_grad_ready(x, [&] { final_values.push_back(bucket.at<float>({0})); });
  (in_target(x, &used) + in_target(x, &used)).backward(ones({2}));
  (in_target(x, &used) + x * 10).backward(ones({2}));
  (x * 10 + in_target(x, &used)).backward(ones({2}));
  EXPECT_EQ(used_before, (std::vector{1, 3, 4}));
  EXPECT_EQ(final_values, (std::vector<float>{2, 13, 24}));
}

}  // namespace
}  // namespace dl
