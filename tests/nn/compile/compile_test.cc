// A compiled function gives the bits of the function itself, and says what it cannot repeat.
#include "nn/compile/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "core/autocast/autocast.h"
#include "core/autograd/engine.h"
#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/device/parallel.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/resnet.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/optim/lr_scheduler/schedules.h"
#include "nn/optim/swa_utils.h"
#include "nn/utils/clip_grad.h"
#include "tests/nn/compile/same_bits.h"

namespace dl {
namespace {

using testing::HasSubstr;

using Make = std::function<std::unique_ptr<nn::Module>()>;

// A training run of a network of class numbers.
struct Run {
  std::vector<Tensor> losses;
  std::vector<Tensor> state;  // parameters and buffers
  CompileSummary summary;
};

struct Case {
  Make make;
  Shape sample;
  std::int64_t classes = 10;
  int steps = 20;
  std::int64_t batch = 2;
  bool adam = false;
  bool bf16 = false;
  int checks = 3;
};

Run train(const Case& how, bool compiled) {
  manual_seed(123);
  const auto model = how.make();
  std::unique_ptr<optim::Optimizer> optimizer;
  if (how.adam) {
    optimizer = std::make_unique<optim::AdamW>(model->parameters());
  } else {
    optimizer = std::make_unique<optim::SGD>(model->parameters(),
                                             optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  }
  optim::ExponentialLR schedule(*optimizer, {.gamma = 0.9});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        optimizer->zero_grad();
        Tensor loss;
        {
          const autocast cast(DeviceType::kCPU, {.enabled = how.bf16});
          loss = nn::functional::cross_entropy((*model)(x), y);
        }
        loss.backward();
        optimizer->step();
        return loss;
      },
      {.enabled = compiled, .whole = true, .checks = how.checks});
  Run run;
  for (int i = 0; i < how.steps; ++i) {
    Shape shape = how.sample;
    shape.insert(0, how.batch);
    const Tensor x = randn(shape);
    run.losses.push_back(step(x, randint(0, how.classes, {how.batch})).detach().clone());
    if (i % 4 == 3) schedule.step();
  }
  for (const auto& [name, tensor] : model->state_dict()) run.state.push_back(tensor);
  run.summary = step.summary();
  return run;
}

void expect_same(const Case& how) {
  const int threads = num_threads();
  for (const int count : {1, 2}) {
    SCOPED_TRACE(count);
    set_num_threads(count);
    const Run eager = train(how, false);
    const Run compiled = train(how, true);
    ASSERT_EQ(eager.losses.size(), compiled.losses.size());
    for (std::size_t i = 0; i < eager.losses.size(); ++i) {
      EXPECT_TRUE(same_bits(eager.losses[i], compiled.losses[i])) << "loss of step " << i;
    }
    ASSERT_EQ(eager.state.size(), compiled.state.size());
    for (std::size_t i = 0; i < eager.state.size(); ++i) {
      EXPECT_TRUE(same_bits(eager.state[i], compiled.state[i])) << "tensor " << i;
    }
    EXPECT_EQ(eager.summary.replays, 0);
    EXPECT_GE(compiled.summary.replays, how.steps - how.checks - 2) << compiled.summary.str();
    EXPECT_LE(compiled.summary.arena_bytes, compiled.summary.separate_bytes);
  }
  set_num_threads(threads);
}

std::unique_ptr<nn::Module> mlp(double dropout = 0) {
  auto model = std::make_unique<nn::Sequential>();
  model->add(nn::Linear(8, 32));
  model->add(nn::ReLU());
  if (dropout > 0) model->add(nn::Dropout(dropout));
  model->add(nn::LayerNorm({32}));
  model->add(nn::Linear(32, 10));
  return model;
}

TEST(Compile, OfAPerceptronHasTheFunctionsBits) {
  expect_same({.make = [] { return mlp(); }, .sample = {8}});
}
TEST(Compile, WithAdamHasTheFunctionsBits) {
  expect_same({.make = [] { return mlp(); }, .sample = {8}, .adam = true});
}
TEST(Compile, InBFloat16HasTheFunctionsBits) {
  expect_same({.make = [] { return mlp(); }, .sample = {8}, .bf16 = true});
}
TEST(Compile, WithDropoutDrawsAnewInEachCall) {
  expect_same({.make = [] { return mlp(0.5); }, .sample = {8}, .batch = 16});
}

TEST(Compile, OfTheNetworksHasTheFunctionsBits) {
  const std::vector<std::pair<std::string, Case>> cases = {
      {"book's CNN",
       {.make = [] { return std::make_unique<nn::Sequential>(nn::models::book_cnn()); },
        .sample = {1, 28, 28}}},
      {"resnet18",
       {.make =
            [] {
              return std::make_unique<nn::models::ResNet>(
                  nn::models::ResNetOptions{.num_classes = 10, .small_images = true});
            },
        .sample = {3, 16, 16}}},
      {"densenet121",
       {.make =
            [] {
              return std::make_unique<nn::models::DenseNet>(
                  nn::models::DenseNetOptions{.block_config = {2, 2, 2, 2}, .num_classes = 10});
            },
        .sample = {3, 32, 32}}},
      {"efficientnet-b0",
       {.make =
            [] {
              return std::make_unique<nn::models::EfficientNet>(
                  nn::models::EfficientNetOptions{.num_classes = 10});
            },
        .sample = {3, 32, 32},
        .batch = 3}},
  };
  for (const auto& [name, network] : cases) {
    SCOPED_TRACE(name);
    Case how = network;
    how.steps = 4;  // two of them replays
    how.checks = 1;
    expect_same(how);
  }
}

// Words in, attention with a causal mask, and class numbers out.
class Reader : public nn::Module {
 public:
  Reader()
      : words_(register_module("words", nn::Embedding(20, 16))),
        places_(register_module("places", nn::Embedding(6, 16))),
        query_(register_module("query", nn::Linear(16, 16))),
        head_(register_module("head", nn::Linear(16, 10))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor words = x.abs().mul(10.0).clamp(0.0, 19.0).to(DType::kI64);
    const Tensor h = words_(words) + places_(arange(x.size(1), {.dtype = DType::kI64}));
    const Tensor seen =
        nn::functional::scaled_dot_product_attention(query_(h), h, h, {.is_causal = true});
    return head_(seen.mean({1}));
  }

 private:
  nn::Embedding& words_;
  nn::Embedding& places_;
  nn::Linear& query_;
  nn::Linear& head_;
};

TEST(Compile, OfAttentionHasTheFunctionsBits) {
  expect_same({.make = [] { return std::make_unique<Reader>(); }, .sample = {6}, .batch = 4});
}

// What the tests below train.
struct Trainer {
  Tensor loss(const Tensor& input) { return nn::functional::cross_entropy((*model)(input), y); }
  Tensor step(const Tensor& input) {
    optimizer.zero_grad();
    const Tensor found = loss(input);
    found.backward();
    optimizer.step();
    return found;
  }

  std::unique_ptr<nn::Module> model = (manual_seed(1), mlp());
  optim::SGD optimizer{model->parameters(), {.lr = 0.1}};
  Tensor x = ones({4, 8});
  Tensor y = zeros({4}, {.dtype = DType::kI64});
};

TEST(Compile, RecordsEachFormOfTheInputs) {
  Trainer here;
  auto forward = compile([&](const Tensor& x) { return (*here.model)(x); }, {.most_tapes = 2});
  const NoGradGuard no_grad;
  for (int round = 0; round < 10; ++round) {
    for (const std::int64_t rows : {4, 3, 2}) {
      const Tensor x = randn({rows, 8});
      EXPECT_TRUE(same_bits(forward(x), (*here.model)(x)));
    }
  }
  const CompileSummary summary = forward.summary();
  EXPECT_EQ(summary.tapes, 2u);
  EXPECT_EQ(summary.replays, 2 * 6);
  EXPECT_EQ(summary.runs, 10 + 2 * 4);
  EXPECT_THAT(summary.why_not, HasSubstr("there are 2 tapes"));
}

TEST(Compile, RecordsAnewWhenTheModelIsRearranged) {
  Trainer here;
  here.model = mlp(0.5);
  auto forward = compile([&](const Tensor& x) { return (*here.model)(x); }, {.whole = true});
  const NoGradGuard no_grad;
  for (int round = 0; round < 6; ++round) forward(here.x);
  here.model->eval();
  const Tensor expected = (*here.model)(here.x);
  for (int round = 0; round < 6; ++round) EXPECT_TRUE(same_bits(forward(here.x), expected));
  EXPECT_GT(forward.summary().replays, 3);
}

TEST(Compile, ResultsOfDifferentCallsHaveMemoryOfTheirOwn) {
  Trainer here;
  auto twice = compile([](const Tensor& x) { return mul(x, 2.0); });
  const NoGradGuard no_grad;
  std::vector<Tensor> results;
  for (int i = 0; i < 8; ++i) results.push_back(twice(full({3}, i)));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(results[static_cast<std::size_t>(i)][1].item<float>(), 2 * i);
}

TEST(Compile, OfAStepWithoutZeroGradFollowsTheProgramsOwn) {
  Trainer a;
  Trainer b;
  const auto accumulate = [](Trainer& here) {
    return [&here](const Tensor& x) {
      const Tensor found = here.loss(x);
      found.backward();
      return found;
    };
  };
  auto eager = compile(accumulate(a), {.enabled = false});
  auto compiled = compile(accumulate(b));
  // Gradients of one call, then of two.
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(same_bits(eager(a.x), compiled(b.x)));
    if (i % 3 == 2) continue;
    for (Trainer* here : {&a, &b}) {
      here->optimizer.step();
      here->optimizer.zero_grad();
    }
    const auto ours = a.model->parameters();
    const auto theirs = b.model->parameters();
    for (std::size_t p = 0; p < ours.size(); ++p) EXPECT_TRUE(same_bits(ours[p], theirs[p])) << i;
  }
  // For no gradient before the call, and for one that is in either of two places.
  EXPECT_LE(compiled.summary().tapes, 3u);
  EXPECT_GE(compiled.summary().replays, 8);
}

TEST(Compile, ClipsGradients) {
  Trainer a;
  Trainer b;
  const auto clipped = [](Trainer& here) {
    return [&here](const Tensor& x) {
      here.optimizer.zero_grad();
      const Tensor found = here.loss(x);
      found.backward();
      const Tensor norm = nn::utils::clip_grad_norm_(here.model->parameters(), 0.5);
      here.optimizer.step();
      return std::vector<Tensor>{found, norm};
    };
  };
  auto compiled = compile(clipped(b), {.whole = true});
  for (int i = 0; i < 20; ++i) {
    const std::vector<Tensor> expected = clipped(a)(a.x);
    const std::vector<Tensor> got = compiled(b.x);
    EXPECT_TRUE(same_bits(expected[0], got[0]) && same_bits(expected[1], got[1])) << i;
  }
  EXPECT_GT(compiled.summary().replays, 0);
}

TEST(Compile, ClipsElementsAndAveragesWeights) {
  Trainer a;
  Trainer b;
  for (const std::optional<double> decay : {std::optional<double>(), std::optional(0.9)}) {
    Trainer mean_of_a;
    Trainer mean_of_b;
    const optim::swa_utils::AveragedModelOptions options{.ema_decay = decay};
    optim::swa_utils::AveragedModel average_of_a(*mean_of_a.model, *a.model, options);
    optim::swa_utils::AveragedModel average_of_b(*mean_of_b.model, *b.model, options);
    const auto step = [](Trainer& here, optim::swa_utils::AveragedModel& average) {
      return [&](const Tensor& x) {
        here.optimizer.zero_grad();
        const Tensor found = here.loss(x);
        found.backward();
        nn::utils::clip_grad_value_(here.model->parameters(), 0.01);
        here.optimizer.step();
        average.update_parameters();
        return found;
      };
    };
    auto compiled = compile(step(b, average_of_b), {.whole = true});
    for (int i = 0; i < 12; ++i) {
      EXPECT_TRUE(same_bits(step(a, average_of_a)(a.x), compiled(b.x))) << i;
      const auto ours = mean_of_a.model->parameters();
      const auto theirs = mean_of_b.model->parameters();
      for (std::size_t p = 0; p < ours.size(); ++p) EXPECT_TRUE(same_bits(ours[p], theirs[p])) << i;
    }
    EXPECT_GT(compiled.summary().replays, 0);
    EXPECT_EQ(average_of_b.n_averaged(), 12);
  }
}

// What a call refuses, in the words of its error.
template <typename F>
std::string refusal(Trainer& here, F function) {
  auto compiled = compile(function, {.whole = true});
  try {
    for (int i = 0; i < 8; ++i) compiled(here.x);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotImplemented);
    return error.what();
  }
  return "";
}

TEST(Compile, SeesThatAListOfTensorsIsLonger) {
  Trainer here;
  std::size_t calls = 0;
  const std::string why = refusal(here, [&](const Tensor& x) {
    here.optimizer.zero_grad();
    here.loss(x).backward();
    const std::vector<Tensor> all = here.model->parameters();
    const std::vector<Tensor> some(all.begin(), all.begin() + 1 + (calls++ % 2));
    return nn::utils::clip_grad_norm_(some, 0.5);
  });
  // The norm is the last tensor.
  EXPECT_THAT(why, testing::HasSubstr("grad_norm has 2 tensors, and had 3"));
}

TEST(Compile, NamesWhatCannotBeRepeated) {
  Trainer here;
  EXPECT_THAT(refusal(here,
                      [&](const Tensor& x) {
                        const Tensor loss = here.step(x);
                        if (loss.item<float>() > 100) here.step(x);
                        return loss;
                      }),
              testing::AllOf(HasSubstr("a tensor is read on the host (item() in compile_test.cc:"),
                             HasSubstr("), after step ")));
  EXPECT_THAT(refusal(here,
                      [&](const Tensor& x) {
                        const Tensor loss = here.step(x);
                        if (loss.data<float>()[0] > 100) here.step(x);
                        return loss;
                      }),
              HasSubstr("a tensor is read on the host (data()), after step "));
  EXPECT_THAT(refusal(here, [&](const Tensor& x) { return here.step(x + randn({4, 8})); }),
              HasSubstr("random numbers are drawn, before the first operation"));
  EXPECT_THAT(refusal(here, [&](const Tensor& x) { return here.loss(x); }),
              HasSubstr("result 1 has a history: call backward() in the function"));
  int calls = 0;
  EXPECT_THAT(refusal(here, [&](const Tensor& x) { return here.step(x * (1.0 + ++calls)); }),
              HasSubstr("does not do the same in each call: step 1: a number of fill_ differs"));
  optim::SGD other(here.model->parameters(), {.lr = 0.1});
  EXPECT_THAT(refusal(here,
                      [&](const Tensor& x) {
                        const Tensor loss = here.loss(x);
                        loss.backward();
                        (++calls % 2 == 0 ? here.optimizer : other).step();
                        return loss;
                      }),
              HasSubstr("the object of optimizer differs"));
  optim::ExponentialLR schedule(here.optimizer, {.gamma = 0.9});
  EXPECT_THAT(refusal(here,
                      [&](const Tensor& x) {
                        const Tensor loss = here.step(x);
                        schedule.step();
                        return loss;
                      }),
              HasSubstr("a scheduler's step() is called"));
  const HookHandle hook =
      here.model->parameters()[0].register_hook([](const Tensor& grad) { return grad * 2.0; });
  EXPECT_THAT(refusal(here, [&](const Tensor& x) { return here.step(x); }),
              HasSubstr("a gradient's hook runs"));
}

TEST(Compile, RunsTheFunctionIfItCannotBeRepeated) {
  Trainer a;
  Trainer b;
  float last = 0;
  auto compiled = compile([&](const Tensor& x) {
    const Tensor loss = b.step(x);
    last = loss.item<float>();
    return loss;
  });
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i) {
    const Tensor expected = a.step(a.x);
    EXPECT_TRUE(same_bits(expected, compiled(b.x)));
    EXPECT_EQ(last, expected.item<float>());
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t first = said.find("compile: all calls run the function");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("compile:", first + 1), std::string::npos) << said;
  EXPECT_EQ(compiled.summary().replays, 0);
}

TEST(Compile, OfACompiledFunctionRecordsBoth) {
  Trainer here;
  auto inner = compile([&](const Tensor& x) { return (*here.model)(x); }, {.whole = true});
  auto outer = compile([&](const Tensor& x) { return inner(x) * 2.0; }, {.whole = true});
  const NoGradGuard no_grad;
  const Tensor expected = (*here.model)(here.x) * 2.0;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(same_bits(outer(here.x), expected));
  EXPECT_EQ(outer.summary().replays, 4);
  EXPECT_EQ(inner.summary().tapes, 0u);
}

TEST(Compile, ListsItsBackendsAndRefusesOthersByName) {
  EXPECT_THAT(compiler::list_backends(), testing::ElementsAre("eager", "tape", "cuda_graph"));
  const auto twice = [](const Tensor& x) { return mul(x, 2.0); };
  try {
    compile(twice, {.backend = "inductor"});
    ADD_FAILURE() << "the backend inductor was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "compile: backend is 'inductor', wanted auto, eager, tape or cuda_graph");
  }
  const NoGradGuard no_grad;
  for (const char* backend : {"", "auto", "eager", "tape"}) {
    auto compiled = compile(twice, {.backend = backend, .checks = 1});
    for (int i = 0; i < 4; ++i) compiled(ones({3}));
    EXPECT_EQ(compiled.summary().replays, std::string_view(backend) == "eager" ? 0 : 2) << backend;
  }
  auto graph = compile(twice, {.backend = "cuda_graph"});
  EXPECT_EQ(graph(ones({3}))[0].item<float>(), 2);
  EXPECT_EQ(graph.summary().why_not, "the backend cuda_graph is for GPUs, not for cpu");
}

// A constant that the function fills keeps its values; one that it also changes in place does not.
TEST(Compile, KeepsConstants) {
  auto add = compile([](const Tensor& x) { return x + arange(4, {.dtype = DType::kF32}); },
                     {.whole = true});
  const NoGradGuard no_grad;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(add(full({4}, i))[3].item<float>(), static_cast<float>(i + 3));
  }
  Trainer here;
  EXPECT_THAT(refusal(here,
                      [](const Tensor& x) {
                        Tensor steps = arange(8, {.dtype = DType::kF32});
                        steps.add_(1);
                        return x + steps;
                      }),
              HasSubstr("changes memory that the program has filled"));
}

// The first call leaves memory behind, as one that fills a cache does.
TEST(Compile, DoesNotCompareMemoryThatNoStepUses) {
  std::vector<Tensor> kept;
  auto twice = compile(
      [&](const Tensor& x) {
        const Tensor result = mul(x, 2.0);
        while (kept.size() < 5) kept.push_back(empty({8}));
        return result;
      },
      {.whole = true});
  const NoGradGuard no_grad;
  for (int i = 0; i < 8; ++i) twice(ones({3}));
  EXPECT_EQ(twice.summary().runs, 4);
}

TEST(Compile, ChecksTargetsInEachCall) {
  Trainer here;
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    here.y = y;
    return here.step(x);
  });
  for (int i = 0; i < 8; ++i) step(here.x, zeros({4}, {.dtype = DType::kI64}));
  EXPECT_GT(step.summary().replays, 2);
  const Tensor wrong = full({4}, 10, {.dtype = DType::kI64});
  try {
    step(here.x, wrong);
    ADD_FAILURE() << "class 10 of 10 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIndex);
    EXPECT_THAT(error.what(),
                HasSubstr("cross_entropy: target[0] is 10, wanted a class in [0, 10)"));
  }
  step(here.x, zeros({4}, {.dtype = DType::kI64}));
}

TEST(Compile, CountsTheTargetsOfEachCall) {
  Generator generator(4);
  const Tensor x = rand({4, 3}, {}, generator);
  const Tensor a = rand({3, 5}, {}, generator).requires_grad_();
  const Tensor b = rand({5, 3}, {}, generator).requires_grad_();
  const auto pass = [&](const Tensor& in, const Tensor& y) {
    a.zero_grad();
    b.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(matmul(in, a), y, {.label_smoothing = 0.1}) +
                        linear_cross_entropy(in, b, y);
    loss.backward();
    return loss.detach();
  };
  auto step = compile(pass, {.whole = true});
  for (int i = 0; i < 8; ++i) {
    const Tensor y = tensor({0, 2, 1, 2});
    for (int k = 0; k < i % 4; ++k) y.select(0, k).fill_(kIgnoreIndex);
    const Tensor got[] = {step(x, y).clone(), a.grad().clone(), b.grad().clone()};
    const Tensor wanted[] = {pass(x, y), a.grad(), b.grad()};
    for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(same_bits(got[k], wanted[k])) << i << ", " << k;
  }
  EXPECT_GT(step.summary().replays, 2) << step.summary().str();
}

TEST(Compile, ReadsLearningRatesAnew) {
  Trainer here;
  auto step = compile([&](const Tensor& x) { return here.step(x); }, {.whole = true});
  for (int i = 0; i < 6; ++i) step(here.x);
  const Tensor before = here.model->parameters()[0].detach().clone();
  here.optimizer.options().lr = 0;
  step(here.x);
  EXPECT_TRUE(same_bits(before, here.model->parameters()[0]));
}

TEST(Compile, ChecksEachSoManyCallsIfAsked) {
  Trainer here;
  int calls = 0;
  auto step = compile(
      [&](const Tensor& x) {
        ++calls;
        return here.step(x);
      },
      {.whole = true, .checks = 1, .check = 5});
  for (int i = 0; i < 60; ++i) step(here.x);
  EXPECT_EQ(calls, 2 + 12);
}

}  // namespace
}  // namespace dl
