// autograd::grad(), backward(), hooks, kept gradients and writes in place of 40 graphs, beside
// PyTorch's. autograd_graphs() of tests/parity/make_arrays.py makes the same graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/autograd/engine.h"
#include "core/base/lifetime/hook_handle.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl {
namespace {

struct RandomGraph {
  std::vector<Tensor> leaves;
  std::vector<Tensor> made;
  std::vector<Tensor> kept;
  Tensor loss;
};

Tensor random_operation(std::uint64_t op, const Tensor& x, const Tensor& y) {
  switch (op) {
    case 0:
      return x + y * 0.5;
    case 1:
      return x * y;
    case 2:
      return x.tanh();
    case 3:
      return x - y.mean(1, {.keepdim = true});
    case 4:
      return x.sigmoid() * y;
    case 5: {
      Tensor z = x * 1;
      return z.mul_(y);
    }
    case 6: {
      Tensor z = x * 1;
      z[0].add_(y[1]);
      return z;
    }
    default:
      return x.t().reshape({2, 3});
  }
}

RandomGraph make_graph(std::uint64_t number) {
  std::uint64_t state = number + 1;
  const auto draw = [&state](std::uint64_t n) {
    state = (state * 1103515245 + 12345) % (std::uint64_t{1} << 31);
    return (state >> 8) % n;
  };
  RandomGraph graph;
  for (int i = 0; i < 3; ++i) {
    const Tensor numbers = arange(1, 7, 1, {.dtype = DType::kF64}).view({2, 3});
    graph.leaves.push_back((numbers * (0.11 + 0.07 * i)).requires_grad_());
  }
  graph.made = graph.leaves;
  for (int step = 0; step < 12; ++step) {
    const Tensor x = graph.made[draw(graph.made.size())];
    const Tensor y = graph.made[draw(graph.made.size())];
    const Tensor z = random_operation(draw(8), x, y);
    if (draw(4) == 0) z.register_hook([](const Tensor& g) { return g * 0.5; });
    if (draw(4) == 0) {
      z.retain_grad();
      graph.kept.push_back(z);
    }
    graph.made.push_back(z);
  }
  const std::vector<Tensor>& made = graph.made;
  const std::size_t count = made.size();
  graph.loss = sum(made[count - 1] * made[count - 2] + made[count - 3]);
  return graph;
}

void expect_gradient(const Tensor& got, const parity::Arrays& arrays, const std::string& name) {
  ASSERT_EQ(got.defined(), arrays.has(name)) << name;
  if (!got.defined()) return;
  const std::vector<double> wanted = arrays.get<double>(name);
  const std::vector<double> numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << name;
  double largest = 0;
  for (const double x : wanted) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], 1e-12 * largest) << name << " [" << i << "]";
  }
}

// The gradients of the sum of the leaves' squared gradients.
void expect_second(const RandomGraph& graph, const parity::Arrays& arrays,
                   const std::string& name) {
  Tensor squares = zeros({}, {.dtype = DType::kF64});
  for (const Tensor& g :
       autograd::grad({graph.loss}, graph.leaves, {.create_graph = true, .allow_unused = true})) {
    if (g.defined()) squares = squares + sum(g * g);
  }
  std::vector<Tensor> grads(graph.leaves.size());
  if (squares.requires_grad()) {
    grads = autograd::grad({squares}, graph.leaves, {.retain_graph = true, .allow_unused = true});
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    expect_gradient(grads[i], arrays, name + std::to_string(i));
  }
}

TEST(GradParity, RandomGraphsAgreeWithPyTorch) {
  const parity::Arrays arrays("autograd_graphs");
  for (std::uint64_t number = 0; number < 40; ++number) {
    const RandomGraph graph = make_graph(number);
    const std::string prefix = std::to_string(number);
    std::vector<Tensor> inputs;
    for (std::size_t i = 3; i < graph.made.size(); i += 3) inputs.push_back(graph.made[i]);
    inputs.insert(inputs.end(), graph.leaves.begin(), graph.leaves.end());
    const std::vector<Tensor> grads =
        autograd::grad({graph.loss}, inputs, {.retain_graph = true, .allow_unused = true});
    for (std::size_t i = 0; i < grads.size(); ++i) {
      expect_gradient(grads[i], arrays, prefix + ".grad." + std::to_string(i));
    }
    expect_second(graph, arrays, prefix + ".second.");
    for (const Tensor& z : graph.kept) z.zero_grad();
    graph.loss.backward();
    for (std::size_t i = 0; i < graph.leaves.size(); ++i) {
      expect_gradient(graph.leaves[i].grad(), arrays, prefix + ".leaf." + std::to_string(i));
    }
    for (std::size_t i = 0; i < graph.kept.size(); ++i) {
      expect_gradient(graph.kept[i].grad(), arrays, prefix + ".kept." + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace dl
