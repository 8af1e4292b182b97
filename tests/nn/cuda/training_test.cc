// Optimizers, gradient scaling and mixed precision on a GPU against the CPU.
#include <limits>
#include <memory>
#include <vector>

#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/device/cuda/graph.h"
#include "core/device/math_flags.h"
#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "nn/amp/grad_scaler.h"
#include "nn/compile/compile.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/activation.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/linear.h"
#include "nn/models/book.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/optim/lr_scheduler/schedules.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

class CudaTraining : public OnDevice {};

template <typename Optimizer, typename Options>
Make with(Options options) {
  return [options](const std::vector<Tensor>& params) {
    return std::make_unique<Optimizer>(params, options);
  };
}

// Sizes of which one is more than a chunk, and more tensors than a launch takes.
std::vector<Tensor> parameters(Device device, DType dtype) {
  std::vector<Tensor> result;
  for (std::uint64_t i = 0; i < 90; ++i) {
    const std::int64_t size = i == 7 ? 200'001 : static_cast<std::int64_t>(1 + i * 13 % 70);
    result.push_back(numbers({size}, i).to(dtype).to(device).requires_grad_());
  }
  return result;
}

TEST_F(CudaTraining, OptimizersStepAsOnTheCPU) {
  const std::vector<Make> all = {
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1}),
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3}),
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
      with<optim::Adam>(optim::AdamOptions{.lr = 0.01, .weight_decay = 0.1}),
      with<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true}),
      with<optim::NAdam>(optim::NAdamOptions{.lr = 0.01, .weight_decay = 0.1}),
      with<optim::RAdam>(optim::RAdamOptions{.lr = 0.01, .betas = {0.9, 0.7}}),
      with<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.01, .momentum = 0.9, .centered = true}),
      with<optim::Adagrad>(optim::AdagradOptions{.lr = 0.01, .lr_decay = 0.1}),
  };
  for (const Make& make : all) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      const std::vector<Tensor> here = parameters(Device{}, dtype);
      const std::vector<Tensor> there = parameters(kGPU, dtype);
      const auto cpu = make(here);
      const auto gpu = make(there);
      for (std::uint64_t step = 0; step < 4; ++step) {
        if (step == 2) cpu->lr() = gpu->lr() = 0.05;
        for (std::size_t i = 0; i < here.size(); ++i) {
          const Tensor grad = numbers(here[i].sizes(), 100 * step + i).to(dtype);
          const bool skipped = step == 1 && i == 3;
          here[i].set_grad(skipped ? Tensor() : grad);
          there[i].set_grad(skipped ? Tensor() : grad.to(kGPU));
        }
        cpu->step();
        gpu->step();
      }
      for (std::size_t i = 0; i < here.size(); ++i) {
        expect_close(there[i].detach(), here[i].detach(), 4 * tolerance(dtype),
                     "parameter " + std::to_string(i));
      }
    }
  }
}

// Parameters and gradients that begin at any element of memory, alike or not.
TEST_F(CudaTraining, OptimizersStepAndUnscaleAtAnyAlignment) {
  const std::vector<Make> all = {
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}),
      with<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true}),
      with<optim::NAdam>(optim::NAdamOptions{.lr = 0.01}),
  };
  const std::pair<std::int64_t, std::int64_t> begins[] = {{0, 0}, {1, 1}, {3, 3}, {1, 0}, {0, 1}};
  for (const Make& make : all) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      const auto view = [dtype](Device device, std::uint64_t seed, std::int64_t begin,
                                std::int64_t size) {
        return numbers({begin + size}, seed).to(dtype).to(device).narrow(0, begin, size).detach();
      };
      const auto built = [&](Device device) {
        std::vector<Tensor> result;
        for (const auto& [begin, other] : begins) {
          for (const std::int64_t size : {1, 2, 3, 7, 8, 9, 17, 70'001}) {
            result.push_back(view(device, result.size(), begin, size).requires_grad_());
            result.back().set_grad(view(device, 100 + result.size(), other, size));
          }
        }
        return result;
      };
      const std::vector<Tensor> here = built(Device{});
      const std::vector<Tensor> there = built(kGPU);
      const auto cpu = make(here);
      const auto gpu = make(there);
      amp::GradScaler scaler({.init_scale = 8});
      scaler.scale(zeros({1}, {.device = kGPU}));
      scaler.unscale_(*gpu);
      for (std::size_t i = 0; i < here.size(); ++i) {
        here[i].set_grad(mul(here[i].grad(), 0.125));
        expect_close(there[i].grad(), here[i].grad(), tolerance(dtype),
                     "gradient " + std::to_string(i));
      }
      for (int step = 0; step < 2; ++step) {
        cpu->step();
        gpu->step();
      }
      for (std::size_t i = 0; i < here.size(); ++i) {
        expect_close(there[i].detach(), here[i].detach(), 4 * tolerance(dtype),
                     "parameter " + std::to_string(i));
      }
    }
  }
}

// The first five steps are not scaled.
TEST_F(CudaTraining, RAdamScalesItsLaterStepsAsOnTheCPU) {
  const Tensor here = numbers({100}).requires_grad_();
  const Tensor there = here.detach().to(kGPU).requires_grad_();
  const optim::RAdamOptions options{.lr = 0.01, .betas = {0.9, 0.95}, .weight_decay = 0.1};
  optim::RAdam cpu({here}, options);
  optim::RAdam gpu({there}, options);
  for (std::uint64_t step = 0; step < 10; ++step) {
    const Tensor grad = numbers({100}, 1 + step);
    here.set_grad(grad);
    there.set_grad(grad.to(kGPU));
    cpu.step();
    gpu.step();
  }
  expect_close(there.detach(), here.detach(), 4 * tolerance(DType::kF32), "the parameter");
}

TEST_F(CudaTraining, ACapturedStepGoesOnWithTheStateThatIsLoaded) {
  const std::vector<Make> all = {with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}),
                                 with<optim::Adam>(optim::AdamOptions{.lr = 0.01})};
  for (const Make& make : all) {
    const Tensor parameter = numbers({100}).to(kGPU).requires_grad_();
    parameter.set_grad(numbers({100}, 2).to(kGPU));
    const auto captured = make({parameter});
    captured->step();
    const Tensor before = parameter.detach().cpu();
    nn::StateDict state;
    for (const auto& [name, value] : captured->state_dict()) {
      state.push_back({name, value.cpu().clone()});
    }
    cuda::Graph graph(cuda::runtime());
    const Stream stream = cuda::current_stream(kGPU.index);
    graph.begin(stream);
    captured->step();
    graph.end();
    for (int i = 0; i < 3; ++i) graph.launch(stream);
    {
      const NoGradGuard no_grad;
      Tensor(parameter).copy_(before);
    }
    captured->load_state_dict(state);
    graph.launch(stream);

    const Tensor other = before.to(kGPU).requires_grad_();
    other.set_grad(parameter.grad());
    const auto eager = make({other});
    eager->load_state_dict(state);
    eager->step();
    expect_same(parameter.detach(), other.detach().cpu(), "the parameter");
  }
}

TEST_F(CudaTraining, EvenlySpacedNumbersAreCaptured) {
  auto step = compile([](const Tensor& x) { return x * linspace(0, 1, 5, {.device = kGPU}); },
                      {.device = kGPU, .whole = true});
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Tensor x = numbers({5}, i);
    expect_same(step(x.to(kGPU)), x * linspace(0, 1, 5), "a product");
  }
}

// OneCycleLR and CyclicLR change the momentum between launches.
TEST_F(CudaTraining, ACapturedStepReadsRatesAndMomentaThatChange) {
  const std::vector<Make> all = {
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
      with<optim::AdamW>(optim::AdamWOptions{.lr = 0.01}),
      with<optim::NAdam>(optim::NAdamOptions{.lr = 0.01}),
      with<optim::RAdam>(optim::RAdamOptions{.lr = 0.01}),
      with<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.01, .momentum = 0.9}),
      with<optim::Adagrad>(optim::AdagradOptions{.lr = 0.01})};
  for (std::size_t which = 0; which < all.size(); ++which) {
    const auto run = [&](bool captured) {
      const Tensor parameter = numbers({100}).to(kGPU).requires_grad_();
      const auto optimizer = all[which]({parameter});
      const auto begin = [&] {
        parameter.set_grad(numbers({100}, 2).to(kGPU));
        optimizer->step();
      };
      begin();
      cuda::Graph graph(cuda::runtime());
      const Stream stream = cuda::current_stream(kGPU.index);
      if (captured) {
        graph.begin(stream);
        optimizer->step();
        graph.end();
      }
      for (const double momentum : {0.85, 0.6, 0.95}) {
        optimizer->lr() *= 0.5;
        if (optimizer->momentum() != nullptr) *optimizer->momentum() = momentum;
        captured ? graph.launch(stream) : optimizer->step();
      }
      return parameter.detach().cpu();
    };
    expect_same(run(true), run(false), "optimizer " + std::to_string(which));
  }
}

// Also if the capture asks for no memory: of results, and of what was there before.
TEST_F(CudaTraining, LaunchesFillTheMemoryOfImages) {
  // Whole numbers, which TF32 holds.
  const Tensor x = remainder(arange(960).to(DType::kF32), 7).view({2, 8, 6, 10}) - 3;
  const Tensor w = remainder(arange(576).to(DType::kF32), 5).view({8, 8, 3, 3}) - 2;
  const Tensor w_there = w.to(kGPU);
  const Tensor before = conv2d(x.to(kGPU), w_there);
  auto step = compile(
      [&](const Tensor& in) {
        const Tensor y = conv2d(in, w_there);
        return std::vector<Tensor>{y, relu(y) + before};
      },
      {.device = kGPU, .whole = true});
  for (int i = 1; i < 6; ++i) {
    const std::vector<Tensor> got = step(x * i);
    const Tensor wanted = conv2d(x * i, w);
    expect_close(got[0].view({2, -1}), wanted.view({2, -1}), 1e-2, "the result");
    expect_close(got[1].view({-1}), (relu(wanted) + conv2d(x, w)).view({-1}), 1e-2, "the sum");
  }
  EXPECT_EQ(step.summary().replays, 4);
}

enum class CompiledPart {
  kStep,
  kPass
};  // a pass: forward and backward, accumulated over two calls

// Losses, and parameters in the end, of a network with dropout and a schedule.
std::vector<Tensor> trained(CompiledPart what, const CompileOptions& options,
                            CompileSummary* summary = nullptr) {
  manual_seed(5);
  nn::Sequential model;
  model.add(nn::Linear(10, 32));
  model.add(nn::ReLU());
  model.add(nn::Dropout(0.4));
  model.add(nn::Linear(32, 4));
  model.to(kGPU);
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::ExponentialLR schedule(sgd, {.gamma = 0.8});
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  const bool in_step = what == CompiledPart::kStep;
  auto compiled = compile(
      [&](const Tensor& x, const Tensor& y) {
        if (in_step) sgd.zero_grad();
        const Tensor kept = bernoulli(full({16, 10}, 0.9, {.device = kGPU}));
        const Tensor loss = nn::functional::cross_entropy(model(x * kept), y);
        scaler.scale(loss).backward();
        if (in_step) {
          scaler.step(sgd);
          scaler.update();
        }
        return loss;
      },
      options);
  std::vector<Tensor> result;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const Tensor y = remainder(arange(16), 4);
    result.push_back(compiled(numbers({16, 10}, i).to(kGPU), y.to(kGPU)).detach());
    if (!in_step && i % 2 == 1) {
      scaler.step(sgd);
      scaler.update();
      sgd.zero_grad();
    }
    if (i % 2 == 1) schedule.step();
  }
  for (const Tensor& p : model.parameters()) result.push_back(p.detach());
  if (summary != nullptr) *summary = compiled.summary();
  return result;
}

TEST_F(CudaTraining, ACompiledFunctionHasTheFunctionsBits) {
  for (const CompiledPart what : {CompiledPart::kStep, CompiledPart::kPass}) {
    const std::vector<Tensor> eager = trained(what, {.enabled = false});
    CompileSummary summary;
    const std::vector<Tensor> got = trained(what, {.whole = true}, &summary);
    ASSERT_EQ(got.size(), eager.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_same(got[i], eager[i].cpu(), "tensor " + std::to_string(i));
    }
    EXPECT_EQ(summary.replays, 11) << summary.str();
    EXPECT_GT(got[0].cpu().item<float>(), 0);
  }
}

// Each launch draws from the generator, as the function would.
TEST_F(CudaTraining, AllRandomNumbersAreCaptured) {
  const auto draw = [](bool compiled) {
    Generator generator(3);
    auto step = compile(
        [&](const Tensor& like) {
          return std::vector<Tensor>{rand_like(like, generator),
                                     randn_like(like, generator),
                                     nn::functional::dropout(like + 1, 0.3, {}, generator),
                                     randint(0, 9, {7}, {.device = kGPU}, generator),
                                     randperm(11, {.device = kGPU}, generator),
                                     empty_like(like).bernoulli_(0.3, generator),
                                     empty_like(like).uniform_(-1, 1, generator),
                                     empty_like(like).exponential_(2, generator)};
        },
        {.enabled = compiled, .whole = true});
    std::vector<Tensor> all;
    for (int i = 0; i < 5; ++i) {
      if (i == 3) generator.manual_seed(4);
      for (const Tensor& each : step(zeros({3, 5}, {.device = kGPU}))) all.push_back(each);
    }
    return all;
  };
  const std::vector<Tensor> eager = draw(false);
  const std::vector<Tensor> got = draw(true);
  for (std::size_t i = 0; i < got.size(); ++i) {
    expect_same(got[i], eager[i].cpu(), "draw " + std::to_string(i));
  }
}

TEST_F(CudaTraining, ABadStepChangesNothingOnTheDevice) {
  const std::vector<Make> all = {
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9}),
      with<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3}),
      with<optim::Adam>(optim::AdamOptions{.lr = 0.01}),
      with<optim::NAdam>(optim::NAdamOptions{.lr = 0.01}),
  };
  const std::string steps = "-++-+++-";
  for (const Make& make : all) {
    std::vector<Tensor> result[2];
    for (const Device device : {Device{}, kGPU}) {
      const std::vector<Tensor> params = parameters(device, DType::kF32);
      const auto opt = make(params);
      amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
      scaler.scale(ones({}, {.device = device}));
      for (std::size_t step = 0; step < steps.size(); ++step) {
        for (std::size_t i = 0; i < params.size(); ++i) {
          Tensor grad = numbers(params[i].sizes(), 100 * step + i);
          if (steps[step] == '-' && i == 40) grad.fill_(std::numeric_limits<float>::infinity());
          params[i].set_grad(grad.to(device));
        }
        scaler.step(*opt);
        scaler.update();
      }
      EXPECT_EQ(scaler.get_scale(), 4) << device.str();
      result[device == kGPU ? 1 : 0] = params;
    }
    for (std::size_t i = 0; i < result[0].size(); ++i) {
      expect_close(result[1][i].detach(), result[0][i].detach(), 4 * tolerance(DType::kF32),
                   "parameter " + std::to_string(i));
    }
  }
}

// The book's network on one batch: the losses of ten steps.
std::vector<double> losses(Device device, DType dtype, bool mixed) {
  manual_seed(5);
  nn::Sequential model = nn::models::book_cnn();
  const Tensor x = randn({16, 1, 28, 28}).to(device);
  const Tensor y = randint(0, 10, {16}).to(device);
  model.to(device);
  optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  amp::GradScaler scaler({.enabled = mixed && dtype == DType::kF16});
  std::vector<double> result;
  for (int step = 0; step < 10; ++step) {
    sgd.zero_grad();
    Tensor loss;
    {
      const autocast cast(device.type, {.dtype = dtype, .enabled = mixed});
      loss = nn::functional::cross_entropy(model(x), y);
    }
    scaler.scale(loss).backward();
    scaler.step(sgd);
    scaler.update();
    result.push_back(loss.item<double>());
  }
  return result;
}

TEST_F(CudaTraining, TheBooksNetworkLearnsAsOnTheCPU) {
  const auto wanted = losses(Device{}, DType::kBF16, false);
  const auto expect_follows = [&](const std::vector<double>& got, double tolerated,
                                  const char* what) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], tolerated) << what << ", step " << i;
    }
  };
  expect_follows(losses(kGPU, DType::kBF16, false), 0.01, "TF32");
  expect_follows(losses(kGPU, DType::kBF16, true), 0.1, "bf16");
  expect_follows(losses(kGPU, DType::kF16, true), 0.05, "f16");
}

TEST_F(CudaTraining, TheSameSeedGivesTheSameBits) {
  EXPECT_EQ(losses(kGPU, DType::kBF16, true), losses(kGPU, DType::kBF16, true));
}

}  // namespace
}  // namespace dl::testing
