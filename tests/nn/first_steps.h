// Comparison of a network with arrays that make_arrays.py wrote by first_steps().
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/ops/reduce/reduce.h"
#include "nn/module/module.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/parity.h"
#include "tests/nn/support.h"

namespace dl::nn {

inline std::string keys_of(const Module& model) {
  std::string keys;
  for (const NamedTensor& entry : model.state_dict()) {
    keys += (keys.empty() ? "" : "\n") + entry.name;
  }
  return keys;
}

// Names of all tensors and each initial value, of a model that was made after manual_seed(123).
inline void expect_initial_values(const parity::Arrays& arrays, const std::string& name,
                                  const Module& model) {
  const auto digests = arrays.get<std::uint8_t>(name + ".sha256");
  std::size_t at = 0;
  for (const NamedTensor& entry : model.state_dict()) {
    const std::vector<std::uint8_t> digest = sha256_of(entry.tensor);
    ASSERT_LE(at + digest.size(), digests.size()) << name;
    EXPECT_TRUE(std::ranges::equal(digest, std::span(digests).subspan(at, digest.size())))
        << name << ": " << entry.name;
    at += digest.size();
  }
  EXPECT_EQ(keys_of(model), text_of(arrays, name + ".keys"));
}

struct FirstSteps {
  std::function<Tensor()> output;
  std::function<Tensor(const Tensor& output)> loss;
  double lr = 0.1;
  bool evaluate = false;  // after the first step, in evaluation mode
  // The largest error, as a share of an array's largest number.
  double share = 1e-9;
  double loss_share = 1e-9;
};

// Numbers of the output, norms of the gradients and losses of five steps of SGD with momentum.
inline void expect_first_steps(const parity::Arrays& arrays, const std::string& name, Module& model,
                               const FirstSteps& steps) {
  const auto compare = [&](const Tensor& got, const std::string& part, double share) {
    parity::expect_near_share(got.to(DType::kF64), arrays.get<double>(name + part), share,
                              name + part);
  };
  optim::SGD opt(model.parameters(), {.lr = steps.lr, .momentum = 0.9});
  std::vector<double> losses;
  for (int step = 0; step < 5; ++step) {
    opt.zero_grad();
    const Tensor output = steps.output();
    const Tensor loss = steps.loss(output);
    loss.backward();
    if (step == 0) {
      compare(output.detach().flatten().slice(0, 0, 32), ".head", steps.share);
      std::vector<double> norms;
      for (const Tensor& p : model.parameters()) {
        if (p.requires_grad()) norms.push_back(norm(p.grad()).to(DType::kF64).item<double>());
      }
      compare(tensor(norms, {.dtype = DType::kF64}), ".norms", steps.share);
    }
    opt.step();
    losses.push_back(loss.to(DType::kF64).item<double>());
    if (steps.evaluate) model.eval();
  }
  compare(tensor(losses, {.dtype = DType::kF64}), ".losses", steps.loss_share);
}

}  // namespace dl::nn
