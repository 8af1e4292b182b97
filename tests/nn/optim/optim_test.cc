#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/autograd/graph/leaf.h"
#include "core/base/error.h"
#include "core/base/first_error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/tensor/factories.h"
#include "nn/optim/algorithms/algorithms.h"
#include "nn/serialize/value.h"
#include "tests/nn/support.h"

namespace dl::optim {
namespace {

const parity::Arrays& arrays() {
  static const parity::Arrays kArrays("optim");
  return kArrays;
}

Tensor array(const std::string& name) {
  return nn::tensor_of(arrays(), name);
}

// The two parameters that every case starts from.
std::vector<Tensor> start() {
  return {array("start.0").requires_grad_(), array("start.1").requires_grad_()};
}

void give_gradients(const std::vector<Tensor>& params, std::int64_t step) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool skipped = i == 1 && step == 4;
    const Tensor grads = array("gradients." + std::to_string(i)).to(params[i].dtype());
    params[i].set_grad(skipped ? Tensor() : grads[step].contiguous());
  }
}

// PyTorch rounds each operation of a step, the kernels fuse some: within 1e-6 of the value's size.
void expect_close(const Tensor& got, const std::string& name) {
  const auto wanted = arrays().get<float>(name);
  const auto numbers = values<float>(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << name;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], 1e-6 * std::max(1.0f, std::abs(wanted[i])))
        << name << "[" << i << "]";
  }
}

using Make = std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&)>;

void expect_pytorchs(const std::string& name, const Make& make) {
  const std::vector<Tensor> params = start();
  const auto opt = make(params);
  for (std::int64_t step = 0; step < 20; ++step) {
    give_gradients(params, step);
    opt->step();
  }
  for (const std::string key : {"0", "1"}) {
    expect_close(params[std::stoul(key)], name + "." + key);
    for (const std::string state :
         {"momentum_buffer", "step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "mu_product",
          "square_avg", "grad_avg", "sum"}) {
      const std::string wanted = name + ".state." + key + "." + state;
      const std::string own = "state." + key + "." + state;
      const nn::StateDict all = opt->state_dict();
      const Tensor* const found = nn::find(all, own);
      ASSERT_EQ(found != nullptr, arrays().has(wanted)) << own;
      if (found != nullptr) expect_close(*found, wanted);
    }
  }
}

template <typename Opt, typename Options>
Make make(Options options) {
  return [options](const std::vector<Tensor>& p) { return std::make_unique<Opt>(p, options); };
}

TEST(SGD, StepsAsPyTorchDoes) {
  expect_pytorchs("sgd", make<SGD>(SGDOptions{.lr = 0.05}));
  expect_pytorchs("sgd_momentum", make<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.9}));
  expect_pytorchs(
      "sgd_nesterov",
      make<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}));
  expect_pytorchs(
      "sgd_dampening",
      make<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.1}));
}

TEST(Adam, StepsAsPyTorchDoes) {
  expect_pytorchs("adam", make<Adam>(AdamOptions{}));
  expect_pytorchs(
      "adam_options",
      make<Adam>(AdamOptions{.lr = 0.02, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.1}));
}

// PyTorch 2.8 gives 0.80099019: what is kept of a gradient must not depend on the one before it.
TEST(AdamW, StepsAsPyTorchDoes) {
  expect_pytorchs("adamw", make<AdamW>(AdamWOptions{}));
  expect_pytorchs("adamw_options",
                  make<AdamW>(AdamWOptions{
                      .lr = 0.02, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.3}));
}

TEST(Maximize, StepsAsPyTorchDoes) {
  expect_pytorchs(
      "sgd_maximize",
      make<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1, .maximize = true}));
  expect_pytorchs("adam_maximize",
                  make<Adam>(AdamOptions{.lr = 0.02, .weight_decay = 0.1, .maximize = true}));
  expect_pytorchs("adamw_maximize",
                  make<AdamW>(AdamWOptions{.lr = 0.02, .weight_decay = 0.1, .maximize = true}));
  expect_pytorchs("nadam_maximize",
                  make<NAdam>(NAdamOptions{.lr = 0.02, .weight_decay = 0.1, .maximize = true}));
  expect_pytorchs("radam_maximize",
                  make<RAdam>(RAdamOptions{.lr = 0.02, .weight_decay = 0.1, .maximize = true}));
  expect_pytorchs(
      "rmsprop_maximize",
      make<RMSprop>(RMSpropOptions{
          .lr = 0.02, .weight_decay = 0.1, .momentum = 0.5, .centered = true, .maximize = true}));
  expect_pytorchs("adagrad_maximize",
                  make<Adagrad>(AdagradOptions{.lr = 0.05, .weight_decay = 0.1, .maximize = true}));
}

// The state without these options of the group, as earlier versions of PyTorch wrote it.
nn::StateDict without(const nn::StateDict& state, const std::vector<std::string>& options) {
  nn::StateDict rest;
  for (const nn::NamedTensor& entry : state) {
    const auto is_it = [&](const auto& name) { return entry.name == "param_groups.0." + name; };
    if (std::ranges::none_of(options, is_it)) rest.push_back(entry);
  }
  EXPECT_EQ(rest.size() + options.size(), state.size());
  return rest;
}

TEST(LoadStateDict, DefaultsOptionsOfOlderPyTorchStates) {
  const std::vector<Tensor> params{zeros({2}).requires_grad_()};
  const auto expect_off = [](auto& opt, const std::vector<std::string>& options) {
    opt.load_state_dict(without(opt.state_dict(), options));
    const nn::StateDict state = opt.state_dict();
    for (const std::string& name : options) {
      const Tensor value = *nn::find(state, "param_groups.0." + name);
      EXPECT_EQ(value.item<double>(), 0) << name;
    }
  };
  SGD sgd(params, {.momentum = 0.9, .nesterov = true, .maximize = true});
  expect_off(sgd, {"nesterov", "maximize"});
  RMSprop rmsprop(params, {.momentum = 0.5, .centered = true, .maximize = true});
  expect_off(rmsprop, {"momentum", "centered", "maximize"});
  NAdam nadam(params, {.decoupled_weight_decay = true, .maximize = true});
  expect_off(nadam, {"decoupled_weight_decay", "maximize"});
  RAdam radam(params, {.decoupled_weight_decay = true, .maximize = true});
  expect_off(radam, {"decoupled_weight_decay", "maximize"});
  Adam adam(params, {.amsgrad = true, .maximize = true});
  expect_off(adam, {"amsgrad", "maximize"});
  AdamW adamw(params, {.amsgrad = true, .maximize = true});
  expect_off(adamw, {"amsgrad", "maximize"});
  Adagrad adagrad(params, {.maximize = true});
  expect_off(adagrad, {"maximize"});
  EXPECT_ERROR(sgd.load_state_dict(without(sgd.state_dict(), {"dampening"})), kMismatch,
               "SGD: load_state_dict: \"param_groups.0.dampening\" is missing or not one number");
}

TEST(Maximize, IsOffInAStateThatDoesNotKnowIt) {
  const std::vector<Tensor> params{zeros({2}).requires_grad_()};
  SGD before(params);
  const nn::StateDict state = without(before.state_dict(), {"maximize"});
  SGD after(params, {.lr = 0.5, .maximize = true});
  after.load_state_dict(state);
  params[0].set_grad(ones({2}));
  after.step();
  EXPECT_LT(params[0].at<float>({0}), 0);
}

TEST(Amsgrad, StepsAsPyTorchDoes) {
  expect_pytorchs("adam_amsgrad",
                  make<Adam>(AdamOptions{.lr = 0.02, .betas = {0.5, 0.6}, .amsgrad = true}));
}

TEST(NAdam, StepsAsPyTorchDoes) {
  expect_pytorchs("nadam", make<NAdam>(NAdamOptions{}));
  expect_pytorchs("nadam_options", make<NAdam>(NAdamOptions{.lr = 0.02,
                                                            .betas = {0.8, 0.95},
                                                            .eps = 1e-4,
                                                            .weight_decay = 0.1,
                                                            .momentum_decay = 0.1}));
  expect_pytorchs(
      "nadam_decoupled",
      make<NAdam>(NAdamOptions{.lr = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true}));
}

// The first five steps of the default betas are not scaled, nor are any with a beta 2 of 0.6.
TEST(RAdam, StepsAsPyTorchDoes) {
  expect_pytorchs("radam", make<RAdam>(RAdamOptions{}));
  expect_pytorchs("radam_options",
                  make<RAdam>(RAdamOptions{
                      .lr = 0.02, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.1}));
  expect_pytorchs(
      "radam_decoupled",
      make<RAdam>(RAdamOptions{
          .lr = 0.02, .betas = {0.8, 0.9}, .weight_decay = 0.1, .decoupled_weight_decay = true}));
  expect_pytorchs("radam_never_scaled", make<RAdam>(RAdamOptions{.lr = 0.02, .betas = {0.5, 0.6}}));
}

TEST(RMSprop, StepsAsPyTorchDoes) {
  expect_pytorchs("rmsprop", make<RMSprop>(RMSpropOptions{}));
  expect_pytorchs(
      "rmsprop_options",
      make<RMSprop>(RMSpropOptions{
          .lr = 0.02, .alpha = 0.8, .eps = 1e-4, .weight_decay = 0.1, .momentum = 0.9}));
  expect_pytorchs(
      "rmsprop_centered",
      make<RMSprop>(RMSpropOptions{.lr = 0.02, .alpha = 0.4, .eps = 1e-2, .centered = true}));
}

TEST(Adagrad, StepsAsPyTorchDoes) {
  expect_pytorchs("adagrad", make<Adagrad>(AdagradOptions{}));
  expect_pytorchs("adagrad_options", make<Adagrad>(AdagradOptions{.lr = 0.05,
                                                                  .lr_decay = 0.1,
                                                                  .weight_decay = 0.1,
                                                                  .initial_accumulator_value = 0.3,
                                                                  .eps = 1e-4}));
}

TEST(AdamW, NamesItselfInErrors) {
  EXPECT_ERROR(AdamW(start(), {.eps = -1}), kInvalidArgument,
               "AdamW: eps is -1, wanted at least 0");
  EXPECT_ERROR(AdamW(start(), {.betas = {0.9, 1}}), kInvalidArgument,
               "AdamW: beta 1 is 1, wanted at least 0 and less than 1");
}

TEST(Adam, WithBeta1OfZeroTakesTheGradientItself) {
  const Tensor p = tensor({1.0f}).requires_grad_();
  Adam adam({p}, {.lr = 0.1, .betas = {0, 0}});
  for (const float g : {30.0f, 1e-6f}) {
    p.set_grad(tensor({g}));
    adam.step();
  }
  EXPECT_NEAR(p.detach().item<float>(), 0.80099019, 1e-6);
}

TEST(Optimizer, StepsF64BesideF32) {
  std::vector<Tensor> params = start();
  params[1] = params[1].detach().to(DType::kF64).requires_grad_();
  SGD sgd(params, {.lr = 0.05, .momentum = 0.9});
  for (std::int64_t step = 0; step < 20; ++step) {
    give_gradients(params, step);
    sgd.step();
  }
  expect_close(params[0], "sgd_momentum.0");
  expect_close(params[1], "sgd_momentum.1");
}

TEST(Optimizer, CountsAsAWriteOfItsParameters) {
  const std::vector<Tensor> params = start();
  SGD sgd(params);
  const std::uint32_t before = params[0].version();
  sgd.step();
  EXPECT_EQ(params[0].version(), before) << "a parameter without a gradient was touched";
  give_gradients(params, 0);
  sgd.step();
  EXPECT_GT(params[0].version(), before);
}

TEST(Optimizer, ReadsGradientsOfAnyStrides) {
  const auto step = [](const auto& make_optimizer, const Tensor& grad) {
    const std::vector<Tensor> params{zeros({2, 3}, {.requires_grad = true})};
    const auto opt = make_optimizer(params);
    params[0].set_grad(grad);
    opt->step();
    opt->step();
    return values<float>(params[0]);
  };
  const Tensor turned = tensor({{1.0, 4.0}, {2.0, 5.0}, {3.0, 6.0}}).t();
  const Tensor expanded = tensor({{1.0}, {2.0}}).expand({2, 3});  // two numbers in memory
  for (const Make& opt : {make<SGD>(SGDOptions{.lr = 0.5, .momentum = 0.9}),
                          make<Adam>(AdamOptions{.lr = 0.5, .eps = 1.0})}) {
    for (const Tensor& grad : {turned, expanded}) {
      EXPECT_EQ(step(opt, grad), step(opt, grad.contiguous()));
      EXPECT_EQ(step(opt, grad), step(opt, grad.clone(MemoryFormat::kContiguous)));
    }
  }
}

TEST(Optimizer, LoadsAStateOfAnyStrides) {
  const std::vector<Tensor> params{zeros({2, 2}, {.requires_grad = true})};
  SGD sgd(params, {.lr = 1, .momentum = 1});
  params[0].set_grad(tensor({{1.0, 2.0}, {3.0, 4.0}}));
  sgd.step();
  nn::StateDict state = sgd.state_dict();
  ASSERT_EQ(state[0].name, "state.0.momentum_buffer");
  state[0].tensor = tensor({{10.0, 30.0}, {20.0, 40.0}}).t();
  sgd.load_state_dict(state);
  sgd.step();
  EXPECT_EQ(values<float>(params[0]), (std::vector<float>{-12, -24, -36, -48}));
  state[0].tensor = Tensor();
  EXPECT_ERROR(sgd.load_state_dict(state), kInvalidArgument,
               "SGD: load_state_dict: \"state.0.momentum_buffer\" is an undefined tensor");
}

TEST(Optimizer, LoadsAStateIntoTheMemoryThatACapturedStepHolds) {
  for (const Make& make_one :
       {make<SGD>(SGDOptions{.lr = 0.5, .momentum = 0.9}), make<Adam>(AdamOptions{.lr = 0.5})}) {
    const std::vector<Tensor> params = start();
    const auto opt = make_one(params);
    give_gradients(params, 0);
    opt->step();
    nn::StateDict saved;
    for (const auto& [name, value] : opt->state_dict()) saved.push_back({name, value.clone()});
    opt->step();
    const nn::StateDict held = opt->state_dict();
    opt->load_state_dict(saved);
    const nn::StateDict loaded = opt->state_dict();
    for (std::size_t i = 0; i < held.size() && held[i].name.starts_with("state."); ++i) {
      EXPECT_EQ(loaded[i].tensor.data_ptr(), held[i].tensor.data_ptr()) << held[i].name;
      EXPECT_EQ(values<float>(loaded[i].tensor), values<float>(saved[i].tensor)) << held[i].name;
    }
    opt->load_state_dict(opt->state_dict());  // its own
    EXPECT_EQ(values<float>(held[0].tensor), values<float>(saved[0].tensor));
  }
}

TEST(Optimizer, GroupsHaveOptionsOfTheirOwn) {
  const std::vector<Tensor> params = start();
  SGD sgd({{.params = {params[0]}, .options = {.lr = 0.5}},
           {.params = {params[1]}, .options = {.lr = 0}}});
  EXPECT_EQ(sgd.group_count(), 2u);
  give_gradients(params, 0);
  const auto first = values<float>(params[0]);
  const auto second = values<float>(params[1]);
  sgd.step();
  EXPECT_NE(values<float>(params[0]), first);
  EXPECT_EQ(values<float>(params[1]), second);
  sgd.lr(1) = 0.5;
  sgd.step();
  EXPECT_NE(values<float>(params[1]), second);
}

// The parameters' values and all state, as numbers.
std::vector<std::vector<float>> everything(const std::vector<Tensor>& params,
                                           const Optimizer& optimizer) {
  std::vector<std::vector<float>> all;
  for (const Tensor& p : params) all.push_back(values<float>(p.detach()));
  for (const nn::NamedTensor& entry : optimizer.state_dict()) {
    all.push_back(values<float>(entry.tensor.to(DType::kF32)));
  }
  return all;
}

// `two_groups`: each parameter in a group of its own.
template <typename Opt, typename Options>
void expect_nothing_changed_by_an_error(Options options, bool two_groups) {
  const auto make = [&](const std::vector<Tensor>& p) {
    if (!two_groups) return std::make_unique<Opt>(p, options);
    return std::make_unique<Opt>(
        std::vector<ParamGroup<Options>>{{{p[0]}, options}, {{p[1]}, options}});
  };
  const std::vector<Tensor> params = start();
  const std::vector<Tensor> same = start();
  const auto opt = make(params);
  const auto other = make(same);
  for (std::int64_t step = 0; step < 3; ++step) {
    give_gradients(params, step);
    give_gradients(same, step);
    const auto before = everything(params, *opt);
    const auto error = make_ref<FirstError>();
    error->set(std::make_exception_ptr(Error(ErrorKind::kPeerFailed, "rank 1 is gone")));
    set_grad_error(params[1], error);
    EXPECT_ERROR(opt->step(), kPeerFailed, "rank 1 is gone");
    EXPECT_EQ(everything(params, *opt), before) << "step " << step;
    clear_grad_error(params[1]);
    opt->step();
    other->step();
    EXPECT_EQ(everything(params, *opt), everything(same, *other)) << "step " << step;
  }
}

TEST(Optimizer, AStepThatThrowsChangesNothing) {
  for (const bool two_groups : {false, true}) {
    expect_nothing_changed_by_an_error<Adam>(AdamOptions{.lr = 0.1}, two_groups);
    expect_nothing_changed_by_an_error<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9}, two_groups);
    expect_nothing_changed_by_an_error<SGD>(
        SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}, two_groups);
    expect_nothing_changed_by_an_error<SGD>(SGDOptions{.lr = 0.1}, two_groups);
  }
}

TEST(Optimizer, ZeroGradForgetsOrZeroes) {
  const std::vector<Tensor> params = start();
  SGD sgd(params);
  give_gradients(params, 0);
  sgd.zero_grad(false);
  EXPECT_EQ(values<float>(params[1].grad()), std::vector<float>(21, 0));
  sgd.zero_grad();
  EXPECT_FALSE(params[1].grad().defined());
}

// What is saved after five steps and loaded elsewhere goes on as if nothing had happened.
void expect_resumes(const Make& first, const Make& second) {
  const std::vector<Tensor> a = start();
  const auto whole = first(a);
  for (std::int64_t step = 0; step < 5; ++step) {
    give_gradients(a, step);
    whole->step();
  }
  nn::StateDict saved = whole->state_dict();
  std::vector<Tensor> b;
  for (const Tensor& p : a) b.push_back(p.detach().clone().requires_grad_());
  const auto resumed = second(b);
  resumed->load_state_dict(saved);
  for (std::int64_t step = 5; step < 10; ++step) {
    for (const auto& [params, opt] : {std::pair(a, whole.get()), std::pair(b, resumed.get())}) {
      give_gradients(params, step);
      opt->step();
    }
  }
  EXPECT_EQ(values<float>(a[0]), values<float>(b[0]));
  EXPECT_EQ(values<float>(a[1]), values<float>(b[1]));
}

TEST(Optimizer, StateResumesARun) {
  expect_resumes(make<SGD>(SGDOptions{.lr = 0.05, .momentum = 0.9, .nesterov = true}),
                 make<SGD>(SGDOptions{}));
  expect_resumes(make<Adam>(AdamOptions{.lr = 0.02, .betas = {0.8, 0.9}}),
                 make<Adam>(AdamOptions{}));
  expect_resumes(make<AdamW>(AdamWOptions{.lr = 0.02}), make<AdamW>(AdamWOptions{}));
  expect_resumes(make<Adam>(AdamOptions{.amsgrad = true}), make<Adam>(AdamOptions{}));
  expect_resumes(make<NAdam>(NAdamOptions{.lr = 0.02}), make<NAdam>(NAdamOptions{}));
  expect_resumes(make<RAdam>(RAdamOptions{.lr = 0.02, .betas = {0.8, 0.9}}),
                 make<RAdam>(RAdamOptions{}));
  expect_resumes(make<RMSprop>(RMSpropOptions{.momentum = 0.9, .centered = true}),
                 make<RMSprop>(RMSpropOptions{}));
  expect_resumes(make<Adagrad>(AdagradOptions{.lr_decay = 0.1}), make<Adagrad>(AdagradOptions{}));
}

TEST(Optimizer, RefusesAForeignState) {
  const std::vector<Tensor> params = start();
  SGD sgd(params, {.momentum = 0.9});
  give_gradients(params, 0);
  sgd.step();
  const nn::StateDict good = sgd.state_dict();

  nn::StateDict state = good;
  state[0].tensor = ones({3});
  EXPECT_ERROR(sgd.load_state_dict(state), kMismatch,
               "SGD: load_state_dict: \"state.0.momentum_buffer\" has shape [3], wanted [33]; does "
               "the state belong to another model?");
  EXPECT_ERROR(
      Adam(params).load_state_dict(good), kMismatch,
      "Adam: load_state_dict: the state was written by SGD: it has momentum, dampening, "
      "nesterov, momentum_buffer, which Adam does not have, and lacks betas, eps, amsgrad");
  EXPECT_ERROR(sgd.load_state_dict(AdamW(params).state_dict()), kMismatch,
               "SGD: load_state_dict: the state was written by Adam or AdamW: it has betas, eps, "
               "amsgrad, which SGD does not have, and lacks momentum, dampening, nesterov");
  EXPECT_ERROR(NAdam(params).load_state_dict(RMSprop(params).state_dict()), kMismatch,
               "NAdam: load_state_dict: the state was written by RMSprop: it has alpha, momentum, "
               "centered, which NAdam does not have, and lacks betas, momentum_decay, "
               "decoupled_weight_decay");
  EXPECT_ERROR(Adam(params).load_state_dict(RAdam(params).state_dict()), kMismatch,
               "Adam: load_state_dict: the state was written by RAdam: it has "
               "decoupled_weight_decay, which Adam does not have, and lacks amsgrad");
  EXPECT_ERROR(RAdam(params).load_state_dict(NAdam(params).state_dict()), kMismatch,
               "RAdam: load_state_dict: the state was written by NAdam: it has momentum_decay, "
               "which RAdam does not have");
  state = good;
  state.push_back({"state.7.momentum_buffer", ones({3})});
  EXPECT_ERROR(sgd.load_state_dict(state), kMismatch,
               "SGD: load_state_dict: the state has 10 entries, of which 9 are known here; "
               "\"state.7.momentum_buffer\" is not; was it saved by another optimizer?");
  EXPECT_ERROR(SGD({params[0]}).load_state_dict(good), kMismatch,
               "SGD: load_state_dict: \"param_groups.0.params\" names 2 parameters, wanted 1");
}

TEST(Optimizer, RefusesBadOptions) {
  const std::vector<Tensor> p = start();
  EXPECT_ERROR(SGD(p, {.lr = -0.1}), kInvalidArgument, "SGD: lr is -0.1, wanted at least 0");
  EXPECT_ERROR(SGD(p, {.lr = std::numeric_limits<double>::quiet_NaN()}), kInvalidArgument,
               "SGD: lr is nan, wanted at least 0");
  EXPECT_ERROR(SGD(p, {.lr = HUGE_VAL}), kInvalidArgument,
               "SGD: lr is inf, wanted a finite number");
  EXPECT_ERROR(SGD(p, {.dampening = std::nan("")}), kInvalidArgument,
               "SGD: dampening is nan, wanted a finite number");
  EXPECT_ERROR(Adam(p, {.weight_decay = HUGE_VAL}), kInvalidArgument,
               "Adam: weight_decay is inf, wanted a finite number");
  EXPECT_ERROR(SGD(p, {.momentum = -1}), kInvalidArgument,
               "SGD: momentum is -1, wanted at least 0");
  EXPECT_ERROR(SGD(p, {.weight_decay = -1}), kInvalidArgument,
               "SGD: weight_decay is -1, wanted at least 0");
  EXPECT_ERROR(SGD(p, {.nesterov = true}), kInvalidArgument,
               "SGD: nesterov needs a momentum and zero dampening, got momentum 0 and dampening 0");
  EXPECT_ERROR(Adam(p, {.betas = {1, 0.9}}), kInvalidArgument,
               "Adam: beta 0 is 1, wanted at least 0 and less than 1");
  EXPECT_ERROR(Adam(p, {.eps = -1}), kInvalidArgument, "Adam: eps is -1, wanted at least 0");
  EXPECT_ERROR(RAdam(p, {.betas = {0.9, 1}}), kInvalidArgument,
               "RAdam: beta 1 is 1, wanted at least 0 and less than 1");
  EXPECT_ERROR(RAdam(p, {.weight_decay = -1}), kInvalidArgument,
               "RAdam: weight_decay is -1, wanted at least 0");
}

TEST(Optimizer, RefusesAGroupThatIsNotThere) {
  SGD sgd(start());
  Adam adam(start());
  EXPECT_ERROR(sgd.lr(7), kIndex, "SGD: there is no parameter group 7 among 1");
  EXPECT_ERROR(sgd.options(1), kIndex, "SGD: there is no parameter group 1 among 1");
  EXPECT_ERROR(adam.lr(7), kIndex, "Adam: there is no parameter group 7 among 1");
  EXPECT_ERROR(adam.options(1), kIndex, "Adam: there is no parameter group 1 among 1");
}

// One entry for each optimizer.
const std::pair<const char*, Make> kMakers[] = {
    {"SGD", [](const auto& p) { return std::make_unique<SGD>(p, SGDOptions{.momentum = 0.9}); }},
    {"Adam", [](const auto& p) { return std::make_unique<Adam>(p); }},
    {"AdamW", [](const auto& p) { return std::make_unique<AdamW>(p); }},
    {"NAdam", [](const auto& p) { return std::make_unique<NAdam>(p); }},
    {"RAdam", [](const auto& p) { return std::make_unique<RAdam>(p); }},
    {"RMSprop", [](const auto& p) { return std::make_unique<RMSprop>(p); }},
    {"Adagrad", [](const auto& p) { return std::make_unique<Adagrad>(p); }},
};

TEST(Optimizer, LeavesFrozenParametersAlone) {
  for (const auto& [name, make] : kMakers) {
    std::vector<Tensor> all = start();
    all[0].requires_grad_(false);
    const auto before = values<float>(all[0]);
    const auto opt = make(all);
    all[1].set_grad(ones_like(all[1]));
    opt->step();
    EXPECT_EQ(values<float>(all[0]), before) << name;
    EXPECT_NE(values<float>(all[1]), values<float>(start()[1])) << name;
    for (const nn::NamedTensor& entry : opt->state_dict()) {
      EXPECT_FALSE(entry.name.starts_with("state.0.")) << name << ": " << entry.name;
    }
    EXPECT_EQ(values<std::int64_t>(*nn::find(opt->state_dict(), "param_groups.0.params")),
              (std::vector<std::int64_t>{0, 1}))
        << name;
    const auto again = make(all);
    again->load_state_dict(opt->state_dict());
    again->load_state_dict(opt->torch_state_dict());
    EXPECT_EQ(again->state_dict().size(), opt->state_dict().size()) << name;
    // Thawed, it takes part from its first gradient on.
    all[0].requires_grad_().set_grad(ones_like(all[0]));
    again->step();
    EXPECT_NE(values<float>(all[0]), before) << name;
  }
}

TEST(Optimizer, RefusesBadParameters) {
  const std::vector<Tensor> p = start();
  EXPECT_ERROR(SGD(std::vector<Tensor>()), kInvalidArgument,
               "SGD: the list of parameters is empty");
  EXPECT_ERROR(SGD({p[0], p[1], p[0]}), kInvalidArgument,
               "SGD: parameter 2 is already in a parameter group");
  EXPECT_ERROR(SGD({p[0], mul(p[1], 2)}), kInvalidArgument,
               "SGD: parameter 1 was computed from other tensors, wanted a leaf; give the tensor "
               "that it was computed from, or its detach()");
  EXPECT_ERROR(SGD({Tensor()}), kInvalidArgument, "SGD: parameter 0 is undefined");
  EXPECT_ERROR(SGD({empty({2}, {.dtype = DType::kI64})}), kDType,
               "SGD: parameter 0 is int64, wanted a floating dtype");
  EXPECT_ERROR(SGD({p[1].detach().t().requires_grad_()}), kInvalidArgument,
               "SGD: parameter 0 of shape [7, 3] is not row-major; register its contiguous()");
}

}  // namespace
}  // namespace dl::optim
