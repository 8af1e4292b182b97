// What an exception in one rank's backward() does to the other ranks.
#include <gmock/gmock.h>

#include <barrier>
#include <functional>
#include <future>
#include <vector>

#include "collectives/solo/solo_group.h"
#include "core/autograd/engine.h"
#include "core/autograd/graph/leaf.h"
#include "core/autograd/record.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/parallel/distributed.h"
#include "tests/collectives/ranks.h"

namespace dl::nn::parallel {
namespace {

using collectives::ProcessGroup;
using collectives::testing::run_ranks;
using collectives::testing::Thrown;
using collectives::testing::thrown_by;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kMistake = "rank 0's own mistake";

[[noreturn]] void make_mistake() {
  throw Error(ErrorKind::kInvalidArgument, kMistake);
}

// y = x first last; last's gradient is final first, and each has a bucket of its own.
struct TwoWeights : Module {
  Tensor forward(const Tensor& x) override {
    hidden = mul(x, first);
    return mul(hidden, last);
  }
  Tensor hidden;
  Tensor& first = register_parameter("first", ones({40}));
  Tensor& last = register_parameter("last", ones({40}));
};

// A function of the user's whose backward throws.
struct MistakenBackward final : Node {
  std::string_view name() const noexcept override { return "mistaken"; }
  void backward(BackwardContext&) override { make_mistake(); }
};

Tensor mistaken(const Tensor& x) {
  const Tensor y = x.detach().clone();
  record<MistakenBackward>(y, x);
  return y;
}

// Runs a backward pass that throws.
struct Mistake {
  const char* name;
  void (*run)(TwoWeights& net, const Tensor& output);
};

Tensor throwing_hook(const Tensor&) {
  make_mistake();
}

const Mistake kMistakes[] = {
    {"InAHookOfTheLoss",
     [](TwoWeights&, const Tensor& output) {
       const Tensor loss = sum(output);
       loss.register_hook(throwing_hook);
       loss.backward();
     }},
    {"InAHookInTheMiddle",
     [](TwoWeights& net, const Tensor& output) {
       net.hidden.register_hook(throwing_hook);
       sum(output).backward();
     }},
    {"InAHookOfTheLastParameter",
     [](TwoWeights& net, const Tensor& output) {
       net.first.register_hook(throwing_hook);
       sum(output).backward();
     }},
    {"InAFunctionOfTheUser",
     [](TwoWeights&, const Tensor& output) { sum(mistaken(output)).backward(); }},
    {"WhenAGradientIsReady",
     [](TwoWeights& net, const Tensor& output) {
       on_grad_ready(net.last, make_mistake);
       sum(output).backward();
     }},
    {"AfterTheLastGradient",
     [](TwoWeights& net, const Tensor& output) {
       // The first to end the pass, before DDP does.
       const Tensor loss = sum(output);
       loss.register_hook([](const Tensor&) {
         on_backward_end(make_mistake);
         return Tensor();
       });
       loss.backward();
       static_cast<void>(net);
     }},
    {"BecauseItCreatesAGraph",
     [](TwoWeights&, const Tensor& output) { sum(output).backward({}, {.create_graph = true}); }},
    {"InAnotherRootOfThePass",
     [](TwoWeights&, const Tensor& output) {
       const Tensor other = mul(ones({1}, {.requires_grad = true}), 2.0);
       other.register_hook(throwing_hook);
       backward(std::vector<Tensor>{sum(output), other}, {});
     }},
};

// Errors that backward() finds before it runs anything.
const Mistake kRefusals[] = {
    {"AGradientIsMissing", [](TwoWeights&, const Tensor& output) { output.backward(); }},
    {"AGradientDoesNotFit", [](TwoWeights&, const Tensor& output) { output.backward(ones({3})); }},
    {"TheSecondRootHasNoHistory",
     [](TwoWeights&, const Tensor& output) {
       backward(std::vector<Tensor>{sum(output), ones({1})}, {});
     }},
    {"TheFirstRootHasNoHistory",
     [](TwoWeights&, const Tensor& output) {
       backward(std::vector<Tensor>{ones({1}), sum(output)}, {});
     }},
    {"TheGraphWasFreed",
     [](TwoWeights&, const Tensor& output) {
       const Tensor other = ones({1}, {.requires_grad = true});
       const Tensor freed = mul(other, other);
       freed.backward();
       // The walk over the graph comes to what was freed before it comes to the parameters.
       backward(std::vector<Tensor>{freed, sum(output)}, {});
     }},
};

class DdpMistake : public ::testing::TestWithParam<Mistake> {};
INSTANTIATE_TEST_SUITE_P(Thrown, DdpMistake, ::testing::ValuesIn(kMistakes),
                         [](const auto& mistake) { return mistake.param.name; });
INSTANTIATE_TEST_SUITE_P(Refused, DdpMistake, ::testing::ValuesIn(kRefusals),
                         [](const auto& mistake) { return mistake.param.name; });

struct Rank {
  explicit Rank(ProcessGroup& group, DistributedDataParallelOptions options = kSmallBuckets)
      : ddp(net, Ref<ProcessGroup>(&group), options), optimizer(net.parameters(), {.lr = 0.1}) {}

  static constexpr DistributedDataParallelOptions kSmallBuckets{.first_bucket_mb = 1e-5,
                                                                .bucket_cap_mb = 1e-5};
  void step() {
    optimizer.zero_grad();
    sum(ddp(ones({40}))).backward();
    optimizer.step();
  }
  // What the rank that made the mistake hears of everything that it does from then on.
  void expect_over(const std::string& cause = "the last backward pass did not end") {
    for (const Thrown& later :
         {thrown_by([&] { optimizer.step(); }), thrown_by([&] { ddp(ones({40})); }),
          thrown_by([&] { sum(net.forward(ones({40}))).backward(); })}) {
      EXPECT_THAT(later.text, HasSubstr("DistributedDataParallel: " + cause));
    }
  }

  TwoWeights net;
  DistributedDataParallel ddp;
  optim::SGD optimizer;
};

// Runs `body` on every rank when all of them have taken a step.
void after_one_step(int size, const std::function<void(Rank& rank, bool is_first)>& body,
                    DistributedDataParallelOptions options = Rank::kSmallBuckets) {
  std::barrier stepped(size);
  run_ranks(size, [&](ProcessGroup& group) {
    Rank rank(group, options);
    rank.step();
    stepped.arrive_and_wait();
    body(rank, group.rank() == 0);
  });
}

// What a rank is told that made no mistake itself.
void expect_told(const Thrown& error) {
  EXPECT_THAT(error.kind, AnyOf(ErrorKind::kAborted, ErrorKind::kPeerFailed));
  EXPECT_THAT(error.text, AllOf(HasSubstr("by rank 0"), HasSubstr("backward pass did not end")));
}

TEST_P(DdpMistake, OfOneRankIsEveryRanksErrorThoughThatRankGoesOn) {
  after_one_step(3, [](Rank& rank, bool is_first) {
    if (!is_first) {
      const Thrown error = thrown_by([&] {
        rank.step();  // rank 0 may have sent all of this pass before its mistake
        rank.step();
      });
      expect_told(error);
      EXPECT_EQ(thrown_by([&] { rank.optimizer.step(); }).text, error.text);
      return;
    }
    const Tensor output = rank.ddp(ones({40}));
    std::string cause;
    try {
      GetParam().run(rank.net, output);
    } catch (const Error& error) {
      cause = error.what();
    }
    EXPECT_NE(cause, "");
    rank.expect_over();
    EXPECT_THAT(thrown_by([&] { rank.ddp(ones({40})); }).text, HasSubstr(cause));
  });
}

TEST(DdpBackwardError, ReachesWaitingRanksWhileItsOwnRankIsBusy) {
  std::promise<void> heard;
  after_one_step(2, [&](Rank& rank, bool is_first) {
    if (is_first) {
      const Tensor loss = sum(rank.ddp(ones({40})));
      loss.register_hook(throwing_hook);
      EXPECT_EQ(thrown_by([&] { loss.backward(); }).text, kMistake);
      heard.get_future().wait();  // the model, its wrapper and the group are left alone
    } else {
      const Thrown error = thrown_by([&] { rank.step(); });
      heard.set_value();
      expect_told(error);
      EXPECT_THAT(error.text, HasSubstr(kMistake));
    }
  });
}

TEST(DdpBackwardError, OfEveryRankIsEachRanksOwn) {
  after_one_step(3, [](Rank& rank, bool) {
    const Tensor loss = sum(rank.ddp(ones({40})));
    loss.register_hook(throwing_hook);
    EXPECT_EQ(thrown_by([&] { loss.backward(); }).text, kMistake);
    rank.expect_over();
  });
}

TEST(DdpBackwardError, WithoutSynchronisingIsEveryRanksErrorToo) {
  after_one_step(2, [](Rank& rank, bool is_first) {
    const auto micro_batches = [&] {
      {
        const NoSync guard = rank.ddp.no_sync();
        const Tensor loss = sum(rank.ddp(ones({40})));
        if (is_first) loss.register_hook(throwing_hook);
        loss.backward();
      }
      rank.step();
    };
    const Thrown error = thrown_by(micro_batches);
    if (is_first) {
      EXPECT_EQ(error.text, kMistake);
      rank.expect_over();
    } else {
      expect_told(error);
    }
  });
}

TEST(DdpBackwardError, WithUnusedParametersIsEveryRanksErrorToo) {
  const auto body = [](Rank& rank, bool is_first) {
    const Tensor loss = sum(mul(rank.net.first, 2.0));
    if (is_first) loss.register_hook(throwing_hook);
    const Thrown error = thrown_by([&] { loss.backward(); });
    if (is_first) {
      EXPECT_EQ(error.text, kMistake);
      rank.expect_over();
    } else {
      expect_told(error);
    }
  };
  after_one_step(2, body, {.find_unused_parameters = true});
}

TEST(DdpBackwardError, ThatIsNoStdExceptionIsToldAsOne) {
  after_one_step(2, [](Rank& rank, bool is_first) {
    const Tensor loss = sum(rank.ddp(ones({40})));
    if (is_first) {
      loss.register_hook([](const Tensor&) -> Tensor { throw 7; });
      EXPECT_THROW(loss.backward(), int);
      rank.expect_over();
    } else {
      const Thrown error = thrown_by([&] { loss.backward(); });
      expect_told(error);
      EXPECT_THAT(error.text, HasSubstr("an exception that is not a std::exception"));
    }
  });
}

TEST(DdpBackwardError, OfAnotherModelIsNoErrorOfThisOne) {
  after_one_step(2, [](Rank& rank, bool is_first) {
    if (is_first) {
      const Tensor other = mul(ones({1}, {.requires_grad = true}), 2.0);
      other.register_hook(throwing_hook);
      EXPECT_EQ(thrown_by([&] { other.backward(); }).text, kMistake);
    }
    rank.step();
  });
}

TEST(DdpBackwardError, AForwardWithoutABackwardIsNone) {
  after_one_step(2, [](Rank& rank, bool is_first) {
    if (is_first) rank.ddp(ones({40}));
    rank.step();
    EXPECT_EQ(rank.net.first.grad().at<float>({0}), rank.net.last.grad().at<float>({0}));
  });
}

// Backward passes inside of others.

Tensor nested_pass(TwoWeights& net) {
  const EnableGradGuard enabled;
  sum(net.forward(full({40}, 3.0))).backward();
  return {};
}

TEST(DdpNested, APassInsideAnotherModelsIsOneOfItsOwn) {
  run_ranks(2, [](ProcessGroup& group) {
    Rank rank(group);
    for (int i = 0; i < 2; ++i) {
      rank.optimizer.zero_grad();
      const Tensor other = mul(ones({1}, {.requires_grad = true}), 2.0);
      float seen = 0;
      other.register_hook([&](const Tensor&) {
        const EnableGradGuard enabled;
        sum(rank.net.forward(full({40}, group.rank() + 1.0))).backward();
        seen = rank.net.first.grad().at<float>({0});
        return Tensor();
      });
      other.backward();
      EXPECT_EQ(seen, 1.5f);  // it is averaged when the inner pass is over
      EXPECT_EQ(rank.net.first.grad().at<float>({0}), 1.5f);
    }
    rank.step();
  });
}

// The inner pass comes before, between and after the gradients of the outer one.
class DdpNestedIn : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Places, DdpNestedIn, ::testing::Values(0, 1, 2));

TEST_P(DdpNestedIn, APassOfTheSameModelIsAnErrorOnEveryRank) {
  after_one_step(2, [](Rank& rank, bool is_first) {
    const Tensor loss = sum(rank.ddp(ones({40})));
    if (is_first) {
      const auto hook = [&](const Tensor&) { return nested_pass(rank.net); };
      const Tensor place[] = {loss, rank.net.hidden, rank.net.first};
      place[GetParam()].register_hook(hook);
      const Thrown error = thrown_by([&] { loss.backward(); });
      EXPECT_THAT(error.text, HasSubstr("DistributedDataParallel: a backward pass inside another"));
      rank.expect_over("a backward pass inside another");
    } else {
      expect_told(thrown_by([&] { loss.backward(); }));
    }
  });
}

TEST(DdpNested, ANoSyncPassDoesNotTouchGradientsInReduction) {
  after_one_step(2, [](Rank& rank, bool is_first) {
    const Tensor loss = sum(rank.ddp(ones({40})));
    if (is_first) {
      rank.net.hidden.register_hook([&](const Tensor&) {
        const NoSync guard = rank.ddp.no_sync();
        return nested_pass(rank.net);
      });
      const Thrown error = thrown_by([&] { loss.backward(); });
      EXPECT_THAT(error.text, HasSubstr("DistributedDataParallel: a backward pass inside another"));
      rank.expect_over("a backward pass inside another");
    } else {
      expect_told(thrown_by([&] { loss.backward(); }));
    }
  });
}

TEST(DdpNested, RefusesTheModelsCallInItsOwnBackward) {
  after_one_step(2, [](Rank& rank, bool) {
    const Tensor loss = sum(rank.ddp(ones({40})));
    rank.net.hidden.register_hook([&](const Tensor&) {
      EXPECT_THAT(thrown_by([&] { rank.ddp(ones({40})); }).text,
                  HasSubstr("in the middle of a backward pass"));
      return Tensor();
    });
    loss.backward();
    rank.step();
  });
}

}  // namespace
}  // namespace dl::nn::parallel
