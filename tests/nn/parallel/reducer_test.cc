// What DDP asks of a group, and when: with a group whose operations end when the test says so.
#include "nn/parallel/reducer/reducer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <memory>
#include <new>

#include "core/autograd/engine.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/parallel/items_of.h"
#include "tests/nn/parallel/scripted_group.h"

namespace dl::nn::parallel {
namespace {

using collectives::ReduceOp;
using collectives::testing::ScriptedGroup;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::SizeIs;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

// Every gradient in a bucket of its own.
constexpr BucketCaps kOneEach{.first = 1, .others = 1};

// y = x w0 w1 w2 ..., so that the last weight's gradient is ready first.
struct Chain {
  explicit Chain(std::size_t count, std::int64_t elements = 4) {
    for (std::size_t i = 0; i < count; ++i) {
      weights.push_back({fmt::format("w{}", i),
                         full({elements}, 2.0, {.dtype = DType::kF32, .requires_grad = true})});
    }
  }
  Tensor loss(std::size_t used = 100, double x = 1) const {
    Tensor y = full(weights[0].tensor.sizes(), x, {.dtype = DType::kF32});
    for (std::size_t i = 0; i < std::min(used, weights.size()); ++i) {
      y = mul(y, weights[i].tensor);
      outputs.push_back(y);
    }
    return sum(y);
  }
  void zero_grad() const {
    for (const NamedTensor& w : weights) w.tensor.zero_grad();
  }
  StateDict weights;
  mutable std::vector<Tensor> outputs;
};

std::vector<std::size_t> counts_of(const ScriptedGroup& group) {
  std::vector<std::size_t> counts;
  for (const auto& call : group.all_reduces) counts.push_back(call.count);
  return counts;
}

struct ReducerTest : ::testing::Test {
  Ref<ScriptedGroup> group = make_ref<ScriptedGroup>();
};

TEST_F(ReducerTest, AveragesEachBucketOnceAPass) {
  const Chain chain(3);
  Reducer reducer(chain.weights, group, {});
  chain.loss().backward();
  ASSERT_THAT(group->all_reduces, SizeIs(1));
  EXPECT_EQ(group->all_reduces[0].op, ReduceOp::kAvg);
  EXPECT_EQ(group->all_reduces[0].dtype, DType::kF32);
  EXPECT_EQ(group->all_reduces[0].count, 48u);
  EXPECT_EQ(reducer.last_step().bytes, 192u);
  for (const NamedTensor& w : chain.weights) EXPECT_EQ(w.tensor.grad().at<float>({3}), 4.f);
}

TEST_F(ReducerTest, StartsABucketWhileBackwardGoesOn) {
  const Chain chain(3);
  Reducer reducer(chain.weights, group, {.caps = kOneEach});
  const Tensor loss = chain.loss();
  std::vector<std::size_t> started;
  for (const Tensor& y : chain.outputs) {
    y.register_hook([&](const Tensor&) {
      started.push_back(group->all_reduces.size());
      return Tensor();
    });
  }
  loss.backward();
  EXPECT_THAT(started, ElementsAre(0, 1, 2));
  EXPECT_THAT(group->all_reduces, SizeIs(3));
}

TEST_F(ReducerTest, StartsBucketsInOrderWhateverIsReadyFirst) {
  Chain chain(2);
  chain.weights[1].tensor = full({20}, 1.0, {.dtype = DType::kF32, .requires_grad = true});
  // Registered first, used first: its gradient is ready last, but its bucket is the second.
  const Tensor loss =
      add(sum(mul(chain.weights[1].tensor, 1.0)), sum(mul(chain.weights[0].tensor, 1.0)));
  Reducer reducer(chain.weights, group, {.caps = kOneEach});
  loss.backward();
  EXPECT_THAT(counts_of(*group), ElementsAre(32, 16));
}

TEST_F(ReducerTest, RebuildsItsBucketsOnceInReadyOrder) {
  Chain chain(3);
  std::swap(chain.weights[0], chain.weights[2]);  // registered in the order of readiness
  Reducer reducer(chain.weights, group, {.caps = kOneEach});
  std::swap(chain.weights[0], chain.weights[2]);
  EXPECT_THAT(items_of(reducer.plan()),
              ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
  chain.loss().backward();
  EXPECT_THAT(items_of(reducer.plan()),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  for (const NamedTensor& w : chain.weights) EXPECT_EQ(w.tensor.grad().at<float>({0}), 4.f);

  // Another order afterwards changes nothing.
  std::swap(chain.weights[0], chain.weights[2]);
  chain.loss().backward();
  EXPECT_THAT(items_of(reducer.plan()),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST_F(ReducerTest, KeepsGradientsAtTheirAddressAfterTheRebuild) {
  const Chain chain(3);
  Reducer reducer(chain.weights, group, {});
  chain.loss().backward();
  std::vector<void*> addresses;
  for (const NamedTensor& w : chain.weights) addresses.push_back(w.tensor.grad().data_ptr());
  chain.zero_grad();
  chain.loss().backward();
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor grad = chain.weights[i].tensor.grad();
    EXPECT_EQ(grad.data_ptr(), addresses[i]);
    EXPECT_EQ(grad.storage(), chain.weights[0].tensor.grad().storage());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(grad.data_ptr()) % kBucketAlignment, 0u);
    EXPECT_EQ(grad.at<float>({0}), 4.f);
  }
}

TEST_F(ReducerTest, KeepsDtypesInBucketsOfTheirOwn) {
  Chain chain(1);
  chain.weights.push_back({"d", full({3}, 1.0, {.dtype = DType::kF64, .requires_grad = true})});
  Reducer reducer(chain.weights, group, {});
  backward(std::vector<Tensor>{chain.loss(1), sum(mul(chain.weights[1].tensor, 3.0))}, {});
  ASSERT_THAT(group->all_reduces, SizeIs(2));
  EXPECT_EQ(group->all_reduces[0].dtype, DType::kF64);
  EXPECT_EQ(group->all_reduces[1].dtype, DType::kF32);
  EXPECT_EQ(chain.weights[1].tensor.grad().at<double>({2}), 3.0);
}

TEST_F(ReducerTest, OnlyAccumulatesWhilePaused) {
  const Chain chain(2);
  Reducer reducer(chain.weights, group, {});
  reducer.pause();
  chain.loss().backward();
  EXPECT_THAT(group->all_reduces, IsEmpty());
  reducer.resume();
  chain.loss().backward();
  EXPECT_THAT(group->all_reduces, SizeIs(1));
  EXPECT_EQ(chain.weights[0].tensor.grad().at<float>({0}), 4.f);  // 2 + 2
  EXPECT_EQ(reducer.total().steps, 1);
}

TEST_F(ReducerTest, AsksAGroupOfOneForNothing) {
  group = make_ref<ScriptedGroup>(1);
  const Chain chain(3);
  Reducer reducer(chain.weights, group, {.find_unused_parameters = true});
  chain.loss(2).backward();
  EXPECT_THAT(group->all_reduces, IsEmpty());
  EXPECT_EQ(chain.weights[0].tensor.grad().at<float>({0}), 2.f);
  EXPECT_FALSE(chain.weights[2].tensor.grad().defined());
  EXPECT_EQ(reducer.last_step().hidden(), 1);
}

TEST_F(ReducerTest, RefusesAPassThatLeavesAParameterOutAndSaysWhich) {
  const Chain chain(3);
  Reducer reducer(chain.weights, group, {});
  EXPECT_THAT([&] { chain.loss(2).backward(); },
              ThrowsMessage<Error>(HasSubstr(
                  "backward gave no gradient to 1 of 3 parameters on rank 0: w2; the loss must "
                  "depend on every parameter. Set find_unused_parameters = true")));
  EXPECT_THAT(group->aborts, ElementsAre(HasSubstr("w2")));
}

TEST_F(ReducerTest, NamesTheFirstOfManyUnusedParameters) {
  const Chain chain(12);
  Reducer reducer(chain.weights, group, {});
  EXPECT_THAT([&] { chain.loss(1).backward(); },
              ThrowsMessage<Error>(HasSubstr("w1, w2, w3, w4, w5, w6, w7, w8 and 3 more;")));
}

TEST_F(ReducerTest, LeavesTheGradientOfWhatNoRankUsedAsItWas) {
  const Chain chain(3);
  Reducer reducer(chain.weights, group, {.find_unused_parameters = true});
  chain.loss(2).backward();
  EXPECT_FALSE(chain.weights[2].tensor.grad().defined());
  EXPECT_EQ(chain.weights[1].tensor.grad().at<float>({0}), 2.f);

  const Tensor kept = full({4}, 7.0, {.dtype = DType::kF32});
  chain.weights[2].tensor.set_grad(kept);
  chain.loss(2).backward();
  EXPECT_EQ(chain.weights[2].tensor.grad().at<float>({0}), 7.f);
}

TEST_F(ReducerTest, LetsUnusedParametersComeLastInTheRebuiltBuckets) {
  const Chain chain(3);
  Reducer reducer(chain.weights, group, {.caps = kOneEach, .find_unused_parameters = true});
  chain.loss(2).backward();
  EXPECT_THAT(items_of(reducer.plan()),
              ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(2)));
}

TEST_F(ReducerTest, BackwardThrowsAnAllReducesErrorEverAfter) {
  const Chain chain(2);
  Reducer reducer(chain.weights, group, {.caps = kOneEach});
  group->at_wait = [&] {
    group->all_reduces.back().work->fail(Error(ErrorKind::kPeerFailed, "rank 1 is gone"));
  };
  const auto fails = ThrowsMessage<Error>(HasSubstr("rank 1 is gone"));
  EXPECT_THAT([&] { chain.loss().backward(); }, fails);
  EXPECT_THAT([&] { chain.loss().backward(); }, fails);
  EXPECT_THAT([&] { reducer.check(); }, fails);
}

TEST_F(ReducerTest, NoStepIsTakenWithGradientsThatWereNotAveraged) {
  const Chain chain(2);
  optim::SGD optimizer({chain.weights[0].tensor, chain.weights[1].tensor}, {.lr = 0.5});
  {
    Reducer reducer(chain.weights, group, {});
    chain.loss().backward();
    optimizer.step();
    EXPECT_EQ(chain.weights[0].tensor.at<float>({0}), 1.F);
    group->at_wait = [&] {
      group->all_reduces.back().work->fail(Error(ErrorKind::kPeerFailed, "rank 1 is gone"));
    };
    const auto fails = ThrowsMessage<Error>(HasSubstr("rank 1 is gone"));
    EXPECT_THAT([&] { chain.loss().backward(); }, fails);
    EXPECT_THAT([&] { optimizer.step(); }, fails);
  }
  optimizer.step();  // there are no gradients any more
  EXPECT_EQ(chain.weights[0].tensor.at<float>({0}), 1.F);
  chain.loss().backward();
  optimizer.step();
  EXPECT_EQ(chain.weights[0].tensor.at<float>({0}), 0.5F);
}

void leave_backward_in_the_middle(const Chain& chain) {
  const Tensor loss = chain.loss();
  chain.outputs[0].register_hook(
      [](const Tensor&) -> Tensor { throw Error(ErrorKind::kInvalidArgument, "the user's own"); });
  EXPECT_THAT([&] { loss.backward(); }, ThrowsMessage<Error>(HasSubstr("the user's own")));
}

TEST_F(ReducerTest, TellsTheOthersOnceAndAtOnceThatAPassDidNotEnd) {
  const Chain chain(2);
  Reducer reducer(chain.weights, group, {});
  leave_backward_in_the_middle(chain);
  EXPECT_THAT(group->aborts, ElementsAre("DistributedDataParallel: the last backward pass did not "
                                         "end: the user's own"));
  EXPECT_THAT([&] { reducer.check(); },
              ThrowsMessage<Error>(StrEq(
                  "DistributedDataParallel: the last backward pass did not end: the user's own; "
                  "the gradients are not averaged, and the other ranks have been told: end the "
                  "program after an error in backward")));
  EXPECT_THAT(group->aborts, SizeIs(1));
}

TEST_F(ReducerTest, NoticesAnUnfinishedPassAlsoInTheNextBackward) {
  const Chain chain(2);
  Reducer reducer(chain.weights, group, {});
  leave_backward_in_the_middle(chain);
  EXPECT_THAT([&] { chain.loss().backward(); },
              ThrowsMessage<Error>(HasSubstr("the last backward pass did not end")));
}

TEST_F(ReducerTest, DestroyedInTheMiddleOfAPassIsAnErrorOnEveryRank) {
  const Chain chain(2);
  auto reducer = std::make_unique<Reducer>(chain.weights, group, ReducerOptions{});
  const Tensor loss = chain.loss();
  chain.outputs[0].register_hook([&](const Tensor&) {
    reducer = nullptr;
    return Tensor();
  });
  const auto destroyed = HasSubstr("destroyed in the middle of a backward pass");
  EXPECT_THAT([&] { loss.backward(); }, ThrowsMessage<Error>(destroyed));
  EXPECT_THAT(group->aborts, ElementsAre(destroyed));
}

TEST_F(ReducerTest, AGroupsErrorIsNotReportedBack) {
  const Chain chain(2);
  Reducer reducer(chain.weights, group, {});
  group->failed = std::make_exception_ptr(Error(ErrorKind::kPeerFailed, "rank 1 is gone"));
  group->at_wait = [&] { std::rethrow_exception(group->failed); };
  EXPECT_THAT([&] { chain.loss().backward(); }, ThrowsMessage<Error>(HasSubstr("rank 1 is gone")));
  EXPECT_THAT(group->aborts, IsEmpty());
}

TEST_F(ReducerTest, ItsOwnErrorInAPassIsReported) {
  const Chain chain(2);
  Reducer reducer(chain.weights, group, {});
  group->at_wait = [] { throw std::bad_alloc(); };
  EXPECT_THROW(chain.loss().backward(), std::bad_alloc);
  EXPECT_THAT(group->aborts, ElementsAre(HasSubstr("did not end: std::bad_alloc")));
  EXPECT_THROW(reducer.check(), std::bad_alloc);
}

TEST_F(ReducerTest, LeavesAPlainModelBehind) {
  const Chain chain(2);
  {
    Reducer reducer(chain.weights, group, {});
    chain.loss().backward();
  }
  EXPECT_EQ(chain.weights[0].tensor.grad().at<float>({0}), 2.f);
  chain.loss().backward();
  EXPECT_EQ(chain.weights[0].tensor.grad().at<float>({0}), 4.f);
  EXPECT_THAT(group->all_reduces, SizeIs(1));
}

TEST_F(ReducerTest, MeasuresWhatBackwardWaitedFor) {
  const Chain chain(2);
  Reducer reducer(chain.weights, group, {});
  group->at_wait = [] {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2)) {
    }
  };
  chain.loss().backward();
  EXPECT_GE(reducer.last_step().exposed, std::chrono::milliseconds(2));
  EXPECT_GE(reducer.last_step().communication, std::chrono::milliseconds(2));
  EXPECT_LT(reducer.last_step().hidden(), 1);
  EXPECT_EQ(reducer.total().steps, 1);
}

}  // namespace
}  // namespace dl::nn::parallel
