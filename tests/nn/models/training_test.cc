// The first steps of training against PyTorch's, from the same seed: weights, data, losses.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "core/random/tensor_random.h"
#include "nn/functional/functional.h"
#include "nn/models/book.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/support.h"

namespace dl::nn {
namespace {

struct Case {
  std::string name;
  Sequential (*make)();
  Shape input;
  std::int64_t classes;
};

Sequential cnn() {
  return models::book_cnn();
}

void expect_pytorchs_losses(const Case& c, const std::string& optimizer) {
  manual_seed(123);
  Sequential model = c.make();
  const Tensor x = randn(c.input);
  const Tensor y = randint(0, c.classes, {c.input[0]});
  std::unique_ptr<optim::Optimizer> opt;
  if (optimizer == "sgd") {
    opt = std::make_unique<optim::SGD>(model.parameters(),
                                       optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  } else {
    opt = std::make_unique<optim::Adam>(model.parameters());
  }
  const std::string name = c.name + "." + optimizer;
  for (const float wanted : parity::Arrays("training").get<float>(name)) {
    opt->zero_grad();
    const Tensor loss = functional::cross_entropy(model(x), y);
    loss.backward();
    opt->step();
    EXPECT_NEAR(loss.item<float>(), wanted, 1e-5 * wanted) << name;
  }
}

TEST(Training, MlpFollowsPyTorch) {
  const Case mlp{"mlp", models::mlp, {8, 50}, 3};
  expect_pytorchs_losses(mlp, "sgd");
  expect_pytorchs_losses(mlp, "adam");
}

TEST(Training, BookCNNFollowsPyTorch) {
  const Case book{"cnn", cnn, {4, 1, 28, 28}, 10};
  expect_pytorchs_losses(book, "sgd");
  expect_pytorchs_losses(book, "adam");
}

// The same seed gives the same bits, whatever the threads are doing.
TEST(Training, RepeatsItsBits) {
  const auto train = [] {
    manual_seed(9);
    Sequential model = models::mlp();
    const Tensor x = randn({16, 50});
    const Tensor y = randint(0, 3, {16});
    optim::SGD opt(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    for (int i = 0; i < 10; ++i) {
      opt.zero_grad();
      functional::cross_entropy(model(x), y).backward();
      opt.step();
    }
    std::vector<float> all;
    for (const Tensor& p : model.parameters()) {
      for (const float v : values<float>(p)) all.push_back(v);
    }
    return all;
  };
  EXPECT_EQ(train(), train());
}

TEST(Training, F64ModelsLearn) {
  manual_seed(9);
  Sequential model = models::mlp();
  model.to(DType::kF64);
  const Tensor x = randn({16, 50}, {.dtype = DType::kF64});
  const Tensor y = randint(0, 3, {16});
  optim::Adam opt(model.parameters(), {.lr = 0.01});
  double first = 0;
  double last = 0;
  for (int i = 0; i < 30; ++i) {
    opt.zero_grad();
    const Tensor loss = functional::cross_entropy(model(x), y);
    loss.backward();
    opt.step();
    (i == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 2);
}

}  // namespace
}  // namespace dl::nn
