// DistributedDataParallel over real sockets: ranks are threads, each with a model of its own.
#include "nn/parallel/distributed.h"

#include <gmock/gmock.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include "collectives/solo/solo_group.h"
#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/linear.h"
#include "nn/models/book.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/collectives/ranks.h"

namespace dl::nn::parallel {
namespace {

using collectives::ProcessGroup;
using collectives::testing::run_ranks;
using collectives::testing::Thrown;
using collectives::testing::thrown_by;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kSteps = 8;
constexpr std::int64_t kBatch = 24;  // of all ranks: 1, 2, 3 and 4 divide it

// Initial weights come from the process's one generator.
template <typename Make>
auto seeded(std::uint64_t seed, const Make& make) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  manual_seed(seed);
  return make();
}

Sequential mlp(std::uint64_t seed) {
  return seeded(seed, [] { return models::mlp(); });
}

struct Batches {
  std::vector<Tensor> x, y;
};
Batches batches() {
  return seeded(5, [] {
    Batches b;
    for (int i = 0; i < kSteps; ++i) {
      b.x.push_back(randn({kBatch, 50}));
      b.y.push_back(randint(0, 3, {kBatch}));
    }
    return b;
  });
}

Tensor flat_parameters(const Module& module) {
  const Tensor flat = empty({module.count_parameters()});
  float* to = flat.data<float>();
  for (const Tensor& p : module.parameters()) {
    to = std::copy_n(p.data<float>(), p.numel(), to);
  }
  return flat;
}

// What a rank saw: the loss of its share and the parameters after each step.
struct Run {
  std::vector<double> losses;
  std::vector<Tensor> parameters;
};

struct TrainOptions {
  std::int64_t micro_batches = 1;
  DistributedDataParallelOptions ddp{};
};

// Trains on this rank's share of every batch, in micro batches of which only the last synchronises.
Run train(ProcessGroup& group, const Batches& data, const TrainOptions& options = {}) {
  Sequential model = mlp(group.rank() == 0 ? 7 : 1000 + static_cast<unsigned>(group.rank()));
  DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group), options.ddp);
  optim::SGD opt(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  Run run;
  const std::int64_t share = kBatch / group.size();
  const std::int64_t micro = share / options.micro_batches;
  for (std::size_t step = 0; step < kSteps; ++step) {
    opt.zero_grad();
    double sum = 0;
    const auto pass = [&](std::int64_t m) {
      const std::int64_t begin = group.rank() * share + m * micro;
      const Tensor loss = mul(functional::cross_entropy(ddp(data.x[step].narrow(0, begin, micro)),
                                                        data.y[step].narrow(0, begin, micro)),
                              1.0 / static_cast<double>(options.micro_batches));
      loss.backward();
      sum += loss.item<double>();
    };
    {
      const NoSync guard = ddp.no_sync();
      for (std::int64_t m = 0; m + 1 < options.micro_batches; ++m) pass(m);
    }
    pass(options.micro_batches - 1);
    opt.step();
    run.losses.push_back(sum);
    run.parameters.push_back(flat_parameters(model));
  }
  EXPECT_EQ(ddp.overlap().steps, kSteps);
  return run;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<float>()[i];
    const double y = b.data<float>()[i];
    largest = std::max(largest, std::abs(x - y) / std::max(1e-2, std::abs(x)));
  }
  return largest;
}

void expect_as_one_rank(int size, const TrainOptions& options) {
  const Batches data = batches();
  const Run one = train(*collectives::make_solo_group(), data);
  std::vector<Run> runs(static_cast<std::size_t>(size));
  run_ranks(size, [&](ProcessGroup& group) {
    runs[static_cast<std::size_t>(group.rank())] = train(group, data, options);
  });
  for (std::size_t step = 0; step < kSteps; ++step) {
    double mean = 0;
    for (const Run& run : runs) mean += run.losses.at(step) / size;
    EXPECT_NEAR(mean, one.losses[step], 1e-5 * one.losses[step]) << "step " << step;
    EXPECT_LT(largest_difference(one.parameters[step], runs[0].parameters[step]), 1e-5)
        << "step " << step;
    for (const Run& run : runs) {
      EXPECT_EQ(std::memcmp(run.parameters[step].data_ptr(), runs[0].parameters[step].data_ptr(),
                            run.parameters[step].nbytes()),
                0)
          << "step " << step;
    }
  }
  EXPECT_GT(largest_difference(one.parameters.front(), one.parameters.back()), 1e-2);
}

class Ddp : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Ddp, ::testing::Values(1, 2, 3, 4));

TEST_P(Ddp, TrainsAsOneRankWithTheWholeBatch) {
  expect_as_one_rank(GetParam(), {});
}

TEST_P(Ddp, TrainsTheSameInManyBuckets) {
  expect_as_one_rank(GetParam(), {.ddp = {.first_bucket_mb = 1e-3, .bucket_cap_mb = 2e-3}});
}

TEST_P(Ddp, AccumulatesMicroBatchesWithoutSynchronising) {
  expect_as_one_rank(GetParam(), {.micro_batches = 2});
}

TEST_P(Ddp, FindsNoUnusedParametersIfThereAreNone) {
  expect_as_one_rank(GetParam(), {.ddp = {.find_unused_parameters = true}});
}

TEST(DdpConstruction, CopiesParametersAndBuffersOfRank0) {
  run_ranks(3, [](ProcessGroup& group) {
    struct Net : Module {
      // One that travels alone, and small ones of several dtypes.
      Linear& large = register_module("large", Linear(300, 300));
      Tensor& scale = register_parameter("scale", empty({3}, {.dtype = DType::kF64}));
      Tensor& count = register_buffer("count", empty({}, {.dtype = DType::kI64}));
      Tensor& columns = register_buffer("columns", empty({2, 5}).t());
    };
    Net net = seeded(static_cast<unsigned>(group.rank()), [] { return Net(); });
    {
      const NoGradGuard no_grad;
      net.scale.fill_(group.rank() + 0.5);
      net.count.fill_(group.rank() + 41);
      net.columns.fill_(group.rank() + 1);
    }
    const DistributedDataParallel ddp(net, Ref<ProcessGroup>(&group));
    const Net first = seeded(0, [] { return Net(); });
    EXPECT_EQ(std::memcmp(net.large.parameters()[0].data_ptr(),
                          first.large.parameters()[0].data_ptr(), 300 * 300 * 4),
              0);
    EXPECT_EQ(net.scale.at<double>({2}), 0.5);
    EXPECT_EQ(net.count.item<int>(), 41);
    EXPECT_EQ(net.columns.at<float>({4, 1}), 1.f);
  });
}

TEST(DdpConstruction, NamesTheFirstParameterInWhichRanksDiffer) {
  run_ranks(3, [](ProcessGroup& group) {
    const std::int64_t width = group.rank() == 2 ? 32 : 30;
    Sequential model =
        seeded(1, [&] { return Sequential{Linear(50, 30), Linear(30, width), Linear(width, 3)}; });
    const Thrown error =
        thrown_by([&] { const DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group)); });
    EXPECT_EQ(error.kind, ErrorKind::kMismatch);
    EXPECT_EQ(error.text,
              "DistributedDataParallel: the ranks differ: rank 2 has parameter 1.weight "
              "float32[32, 30], rank 0 has parameter 1.weight float32[30, 30] (entry 3); build the "
              "same model with the same options on every rank");
  });
}

TEST(DdpConstruction, NamesWhatOneRankLacks) {
  run_ranks(2, [](ProcessGroup& group) {
    Sequential model = seeded(1, [] { return Sequential{Linear(5, 3)}; });
    if (group.rank() == 1) model.add(Linear(3, 3));
    const Thrown error =
        thrown_by([&] { const DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group)); });
    EXPECT_THAT(error.text, HasSubstr("rank 1 has parameter 1.weight float32[3, 3], rank 0 has "
                                      "option first_bucket_mb = 1"));
  });
}

TEST(DdpConstruction, ComparesWhatIsTrainedAndTheOptions) {
  run_ranks(2, [](ProcessGroup& group) {
    Sequential model = seeded(1, [] { return Sequential{Linear(5, 3)}; });
    const Ref<ProcessGroup> ref(&group);
    EXPECT_THAT(thrown_by([&] {
                  const DistributedDataParallel ddp(model, ref,
                                                    {.bucket_cap_mb = 25.0 + group.rank()});
                }).text,
                HasSubstr("rank 1 has option bucket_cap_mb = 26, rank 0 has option bucket_cap_mb = "
                          "25 (entry 4)"));
    // Bad on one rank alone: the others must not wait for it.
    EXPECT_THAT(thrown_by([&] {
                  const DistributedDataParallel ddp(model, ref,
                                                    {.first_bucket_mb = 1.0 - group.rank()});
                }).text,
                HasSubstr("rank 1 has option first_bucket_mb = 0, rank 0 has option "
                          "first_bucket_mb = 1"));
    if (group.rank() == 1) model.parameters()[0].requires_grad_(false);
    EXPECT_THAT(thrown_by([&] { const DistributedDataParallel ddp(model, ref); }).text,
                HasSubstr("rank 1 has parameter 0.weight float32[3, 5], not trained, rank 0 has "
                          "parameter 0.weight float32[3, 5]"));
  });
}

TEST(DdpConstruction, RefusesBadOptionsAndModelsWithoutParameters) {
  const Ref<ProcessGroup> solo = collectives::make_solo_group();
  Sequential model = mlp(1);
  EXPECT_THAT(thrown_by([&] {
                const DistributedDataParallel ddp(model, solo, {.first_bucket_mb = 0});
              }).text,
              HasSubstr("first_bucket_mb is 0, wanted a number of MiB above 0"));
  EXPECT_THAT(thrown_by([&] { const DistributedDataParallel ddp(model, nullptr); }).text,
              HasSubstr("the process group is null"));
  model.requires_grad_(false);
  EXPECT_THAT(thrown_by([&] { const DistributedDataParallel ddp(model, solo); }).text,
              HasSubstr("no parameter of Sequential requires gradients"));
}

TEST(DdpNames, AreTheModels) {
  Sequential model = mlp(1);
  const DistributedDataParallel ddp(model, collectives::make_solo_group());
  EXPECT_EQ(ddp.state_dict()[0].name, model.state_dict()[0].name);
  EXPECT_EQ(ddp.named_parameters().size(), model.named_parameters().size());
}

TEST(DdpModel, ThatWasMovedIsRefused) {
  Sequential model = mlp(1);
  DistributedDataParallel ddp(model, collectives::make_solo_group());
  const Sequential here = std::move(model);
  EXPECT_THAT(thrown_by([&] { ddp(ones({1, 50})); }).text,
              HasSubstr("Sequential: a call: the module was moved from"));
  EXPECT_THAT(thrown_by([&] { static_cast<void>(ddp.parameters()); }).text,
              HasSubstr("Sequential: parameters: the module was moved from"));
}

static_assert(!std::is_move_constructible_v<DistributedDataParallel>);

// Two branches, of which a pass may use one, both or none.
struct Branches : Module {
  Tensor forward(const Tensor& x) override {
    Tensor y = shared.forward(x);
    if (use_a) y = mul(y, a);
    if (use_b) y = mul(y, b);
    return y;
  }
  bool use_a = true;
  bool use_b = true;
  Linear& shared = register_module("shared", Linear(2, 2));
  Tensor& a = register_parameter("a", ones({2}));
  Tensor& b = register_parameter("b", ones({2}));
};

TEST(DdpUnused, IsAnErrorOnEveryRankThatNamesTheParameter) {
  run_ranks(2, [](ProcessGroup& group) {
    Branches net = seeded(1, [] { return Branches(); });
    DistributedDataParallel ddp(net, Ref<ProcessGroup>(&group));
    const Thrown error = thrown_by([&] {
      sum(ddp(ones({1, 2}))).backward();
      net.use_b = group.rank() == 0;
      sum(ddp(ones({1, 2}))).backward();
    });
    // Rank 1 knows by itself, rank 0 learns it from rank 1.
    EXPECT_THAT(error.text,
                HasSubstr("backward gave no gradient to 1 of 4 parameters on rank 1: b;"));
    EXPECT_EQ(thrown_by([&] { ddp(ones({1, 2})); }).text, error.text);
  });
}

// One weight that costs nothing to compute, and one that takes long to reduce: the rank that leaves
// the long one out is through with its next pass while others still reduce. Long enough for a
// hybrid group to take it through its lanes.
struct Unequal : Module {
  Tensor forward(const Tensor& x) override {
    const Tensor y = sum(mul(x, small));
    return use_large ? add(y, sum(mul(x, large))) : y;
  }
  bool use_large = true;
  Tensor& small = register_parameter("small", ones({1}));
  Tensor& large = register_parameter("large", ones({150'000}));
};

// Not of the step before, nor of the constructor, in which other ranks may still be.
TEST(DdpUnused, IsAnErrorOfTheStepThatCausedIt) {
  for (const int good_steps : {0, 1, 2}) {
    for (int who = 0; who < 4; ++who) {
      run_ranks(4, [&](ProcessGroup& group) {
        // The sooner a rank hears of the error, the more is still under way there.
        const std::jthread watcher([&](const std::stop_token& end) {
          while (!end.stop_requested() && !group.error()) std::this_thread::yield();
        });
        Unequal net;
        const Tensor x = full({1}, group.rank() + 1.0);
        DistributedDataParallel ddp(net, Ref<ProcessGroup>(&group));
        for (int step = 0; step < good_steps; ++step) {
          net.zero_grad();
          ddp(x).backward();
          EXPECT_EQ(net.large.grad().data<float>()[0], 2.5f);
          EXPECT_EQ(net.large.grad().data<float>()[149'999], 2.5f);
        }
        net.use_large = group.rank() != who;
        const Tensor loss = ddp(x);
        const Thrown error = thrown_by([&] { loss.backward(); });
        EXPECT_THAT(error.text,
                    HasSubstr("backward gave no gradient to 1 of 2 parameters on rank " +
                              std::to_string(who) + ": large;"));
      });
    }
  }
}

TEST(DdpUnused, CountsAsZerosIfOtherRanksUsedIt) {
  run_ranks(2, [](ProcessGroup& group) {
    Branches net = seeded(1, [] { return Branches(); });
    DistributedDataParallel ddp(net, Ref<ProcessGroup>(&group), {.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      net.use_a = group.rank() == 0;
      net.use_b = false;
      const Tensor y = ddp(ones({1, 2}));
      sum(y).backward();
      ASSERT_TRUE(net.a.grad().defined());
      const Tensor h = net.shared.forward(ones({1, 2}));
      EXPECT_FLOAT_EQ(net.a.grad().at<float>({0}), h.at<float>({0, 0}) / 2);
      EXPECT_FALSE(net.b.grad().defined());
    }
  });
}

TEST(DdpUnused, RemembersWhatWasUsedWithoutSynchronising) {
  run_ranks(2, [](ProcessGroup& group) {
    Branches net = seeded(1, [] { return Branches(); });
    DistributedDataParallel ddp(net, Ref<ProcessGroup>(&group), {.find_unused_parameters = true});
    {
      const NoSync guard = ddp.no_sync();
      sum(ddp(ones({1, 2}))).backward();
    }
    const float local = net.b.grad().at<float>({0});
    net.use_b = false;
    sum(ddp(ones({1, 2}))).backward();
    EXPECT_FLOAT_EQ(net.b.grad().at<float>({0}), local);
  });
}

// The slope of y = (w x + b)^2 by x is 2 w (w x + b).
TEST(DdpCreateGraph, AveragesTheGradientOfAPenalty) {
  run_ranks(2, [](ProcessGroup& group) {
    Linear model = seeded(1, [] { return Linear(1, 1); });
    DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group));
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      const Tensor x = full({1, 1}, group.rank() + 1.0).requires_grad_();
      const Tensor y = square(ddp(x));
      const Tensor slope = autograd::grad({sum(y)}, {x}, {.create_graph = true})[0];
      EXPECT_FALSE(model.weight.grad().defined());
      sum(slope).backward();
      const float w = model.weight.item<float>();
      const float b = model.bias.item<float>();
      EXPECT_NEAR(model.weight.grad().item<float>(), 4 * w * 1.5F + 2 * b, 1e-5);
      EXPECT_NEAR(model.bias.grad().item<float>(), 2 * w, 1e-5);
    }
  });
}

TEST(NoSync, MovesIntoAnOptional) {
  run_ranks(2, [](ProcessGroup& group) {
    Linear model = seeded(1, [] { return Linear(1, 1); });
    DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group));
    const auto gradient = [&] {
      model.weight.zero_grad();
      sum(ddp(full({1, 1}, group.rank() + 1.0))).backward();
      return model.weight.grad().item<float>();
    };
    std::optional<NoSync> guard;
    guard = ddp.no_sync();
    EXPECT_FLOAT_EQ(gradient(), static_cast<float>(group.rank() + 1));
    guard.emplace(ddp.no_sync());
    EXPECT_FLOAT_EQ(gradient(), static_cast<float>(group.rank() + 1));
    guard.reset();
    EXPECT_FLOAT_EQ(gradient(), 1.5F);
  });
}

// y = x + count, and count grows with every forward in training, at another pace on each rank.
struct Counting : Module {
  Tensor forward(const Tensor& x) override {
    if (is_training()) {
      const NoGradGuard no_grad;
      count.add_(step);
    }
    return add(mul(x, weight), count);
  }
  double step = 1;
  Tensor& weight = register_parameter("weight", ones({1}));
  Tensor& count = register_buffer("count", zeros({1}));
};

TEST(DdpBuffers, FollowRank0InTraining) {
  run_ranks(2, [](ProcessGroup& group) {
    Counting net;
    net.step = 1 + group.rank();
    DistributedDataParallel ddp(net, Ref<ProcessGroup>(&group));
    for (int i = 0; i < 3; ++i) sum(ddp(ones({1}))).backward();
    // Two steps of rank 0, then one of its own.
    EXPECT_EQ(net.count.item<double>(), 2 + net.step);
  });
}

TEST(DdpBuffers, LetOneRankEvaluateAlone) {
  run_ranks(2, [](ProcessGroup& group) {
    Counting net;
    DistributedDataParallel ddp(net, Ref<ProcessGroup>(&group));
    if (group.rank() == 0) {
      net.eval();
      EXPECT_EQ(ddp(ones({1})).item<double>(), 1);
      net.train();
    }
    sum(ddp(ones({1}))).backward();
  });
}

TEST(DdpFailure, InTheMiddleOfBackwardReachesEveryRank) {
  run_ranks(3, [](ProcessGroup& group) {
    Sequential model = mlp(1);
    const Thrown error = thrown_by([&] {
      DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group), {.first_bucket_mb = 1e-3});
      const Tensor x = ones({4, 50}, {.requires_grad = true});
      const Tensor y = zeros({4}, {.dtype = DType::kI64});
      functional::cross_entropy(ddp(x), y).backward();
      const Tensor hidden = mul(x, 1.0);
      if (group.rank() == 1) {
        hidden.register_hook([](const Tensor&) -> Tensor {
          throw Error(ErrorKind::kInvalidArgument, "rank 1's own mistake");
        });
      }
      functional::cross_entropy(ddp(hidden), y).backward();
      // Ranks 0 and 2 may have all of this pass; none has all of the next.
      functional::cross_entropy(ddp(x), y).backward();
    });
    if (group.rank() == 1) {
      EXPECT_EQ(error.text, "rank 1's own mistake");
    } else {
      EXPECT_THAT(error.kind, AnyOf(ErrorKind::kAborted, ErrorKind::kPeerFailed));
      EXPECT_THAT(error.text, HasSubstr("rank 1"));
    }
  });
}

TEST(DdpFailure, OfRanksThatCountTheirStepsDifferentlyIsNamed) {
  run_ranks(2, [](ProcessGroup& group) {
    Sequential model = mlp(1);
    DistributedDataParallel ddp(model, Ref<ProcessGroup>(&group));
    const auto step = [&] {
      functional::cross_entropy(ddp(ones({4, 50})), zeros({4}, {.dtype = DType::kI64})).backward();
    };
    step();
    if (group.rank() == 1) {
      const Thrown error = thrown_by([&] { group.barrier()->wait(); });
      EXPECT_EQ(error.kind, ErrorKind::kMismatch);
    } else {
      const Thrown error = thrown_by(step);
      EXPECT_EQ(error.kind, ErrorKind::kMismatch);
      EXPECT_THAT(error.text, HasSubstr("barrier"));
      EXPECT_THAT(error.text, HasSubstr("all_reduce"));
    }
  });
}

}  // namespace
}  // namespace dl::nn::parallel
