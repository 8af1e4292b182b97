// Nodes are printed with PyTorch's names. The case of the same name in tests/parity/make_arrays.py
// computes the same; names are in tests/parity/arrays/grad_fn.safetensors. composed_test.cc looks
// at the names of its own cases.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "core/autograd/graph/node.h"
#include "core/ops/conv/conv.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/embedding.h"
#include "core/ops/index/index.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/order/order.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "tests/core/ops/rows.h"
#include "tests/parity/arrays.h"

namespace dl::testing {
namespace {

struct GradFnCase {
  const char* name;
  std::function<Tensor()> f;
};

template <typename... Sizes>
Tensor leaf_of_ones(Sizes... sizes) {
  return ones(sizes...).requires_grad_();
}

Tensor changed_view() {
  Tensor a = leaf_of_ones(2, 2) * 1;
  a[0].mul_(2);
  return a;
}

// clang-format off
const std::vector<GradFnCase>& grad_fn_cases() {
  const auto x = [](auto... sizes) { return leaf_of_ones(sizes...); };
  static const std::vector<GradFnCase> cases{
      {"add", [=] { return x(2) + x(2); }}, {"add a number", [=] { return x(2) + 1; }},
      {"sub", [=] { return x(2) - x(2); }}, {"sub from a number", [=] { return 1 - x(2); }},
      {"mul", [=] { return x(2) * x(2); }}, {"mul by a number", [=] { return x(2) * 2; }},
      {"div", [=] { return x(2) / x(2); }}, {"div of a number", [=] { return 1 / x(2); }},
      {"minimum", [=] { return minimum(x(2), x(2)); }},
      {"add_", [=] { return (x(2) * 1).add_(x(2)); }}, {"mul_", [=] { return (x(2) * 1).mul_(3); }},
      {"relu_", [=] { return (x(2) * 1).relu_(); }}, {"fill_", [=] { return (x(2) * 1).fill_(3); }},
      {"copy_", [=] { return (x(2) * 1).copy_(x(2)); }},
      {"view", [=] { return x(2, 3).view({6}); }}, {"reshape", [=] { return x(2, 3).reshape({3, 2}); }},
      {"reshape of a transpose", [=] { return x(2, 3).t().reshape({6}); }},
      {"flatten", [=] { return x(2, 3).flatten(); }}, {"transpose", [=] { return x(2, 3).transpose(0, 1); }},
      {"t", [=] { return x(2, 3).t(); }}, {"permute", [=] { return x(2, 3).permute({1, 0}); }},
      {"select", [=] { return x(2, 3)[0]; }}, {"slice", [=] { return x(4).slice(0, 1, 3); }},
      {"narrow", [=] { return x(4).narrow(0, 1, 2); }}, {"expand", [=] { return x(1, 3).expand({2, 3}); }},
      {"squeeze", [=] { return x(1, 3).squeeze(); }}, {"squeeze of a dimension", [=] { return x(1, 3).squeeze(0); }},
      {"unsqueeze", [=] { return x(3).unsqueeze(0); }},
      {"first of split", [=] { return split(x(4), 2)[0]; }}, {"first of unbind", [=] { return unbind(x(4, 2), 0)[0]; }},
      {"changed view", [] { return changed_view(); }}, {"view of changed", [] { return changed_view()[0]; }},
      {"clone", [=] { return x(2).clone(); }}, {"contiguous", [=] { return x(2, 3).t().contiguous(); }},
      {"to", [=] { return x(2).to(DType::kF64); }},
      {"cat", [=] { return cat({x(2), x(2)}); }}, {"stack", [=] { return stack({x(2), x(2)}); }},
      {"sum of all", [=] { return x(2, 3).sum(); }}, {"sum", [=] { return x(2, 3).sum(1); }},
      {"mean of all", [=] { return x(2, 3).mean(); }}, {"mean", [=] { return x(2, 3).mean(1); }},
      {"prod of all", [=] { return x(2, 3).prod(); }}, {"prod", [=] { return x(2, 3).prod(1); }},
      {"max of all", [=] { return x(2, 3).max(); }}, {"max", [=] { return x(2, 3).max(1).first; }},
      {"min of all", [=] { return x(2, 3).min(); }}, {"min", [=] { return x(2, 3).min(1).first; }},
      {"amax", [=] { return x(2, 3).amax(1); }}, {"amin", [=] { return x(2, 3).amin(1); }},
      {"var", [=] { return x(2, 3).var(); }}, {"std", [=] { return x(2, 3).std(1); }},
      {"norm", [=] { return x(2, 3).norm(); }}, {"logsumexp", [=] { return x(2, 3).logsumexp(1); }},
      {"cumsum", [=] { return x(2, 3).cumsum(1); }}, {"sort", [=] { return x(3).sort().first; }},
      {"topk", [=] { return x(3).topk(2).first; }},
      {"softmax", [=] { return softmax(x(2, 3), 1); }}, {"log_softmax", [=] { return log_softmax(x(2, 3), 1); }},
      {"dropout", [=] { return detail::philox_dropout(x(4), 0.5, default_generator()); }},
      {"linear", [=] { return linear(x(2, 3), x(4, 3), x(4), {}); }},
      {"linear without bias", [=] { return linear(x(2, 3), x(4, 3), {}, {}); }},
      {"linear of three dimensions", [=] { return linear(x(2, 2, 3), x(4, 3), x(4), {}); }},
      {"linear of three dimensions without bias", [=] { return linear(x(2, 2, 3), x(4, 3), {}, {}); }},
      {"linear of a vector", [=] { return linear(x(3), x(4, 3), x(4), {}); }},
      {"linear of a vector without bias", [=] { return linear(x(3), x(4, 3), {}, {}); }},
      {"matmul", [=] { return matmul(x(2, 3), x(3, 2)); }}, {"matmul of vectors", [=] { return matmul(x(3), x(3)); }},
      {"matmul with a vector", [=] { return matmul(x(2, 3), x(3)); }},
      {"matmul of a vector", [=] { return matmul(x(3), x(3, 2)); }},
      {"matmul of as many", [=] { return matmul(x(2, 2, 3), x(2, 3, 2)); }},
      {"conv2d", [=] { return conv2d(x(1, 1, 3, 3), x(1, 1, 2, 2)); }},
      {"conv_transpose2d", [=] { return conv_transpose2d(x(1, 1, 3, 3), x(1, 1, 2, 2)); }},
      {"max_pool2d", [=] { return max_pool2d(x(1, 1, 4, 4), {.kernel = 2, .stride = 2}); }},
      {"avg_pool2d", [=] { return avg_pool2d(x(1, 1, 4, 4), {.kernel = 2, .stride = 2}); }},
      {"adaptive_avg_pool2d", [=] { return adaptive_avg_pool2d(x(1, 1, 4, 4), 2); }},
      {"upsample_nearest", [=] { return upsample2d(x(1, 1, 2, 2), {.size = 4}); }},
      {"upsample_bilinear", [=] { return upsample2d(x(1, 1, 2, 2), {.size = 4, .mode = UpsampleMode::kBilinear}); }},
      {"embedding", [=] { return embedding(x(2, 3), tensor({1})); }},
      {"layer_norm", [=] { return layer_norm(x(2, 3), {3}); }}, {"group_norm", [=] { return group_norm(x(2, 4, 2), 2); }},
      {"rms_norm", [=] { return rms_norm(x(2, 3), {3}); }},
      {"batch_norm", [=] { return batch_norm(x(2, 3), {}, {}, {}, {}, {.training = true}); }},
      {"cross_entropy", [=] { return cross_entropy(x(2, 3), tensor({0, 1})); }},
      {"cross_entropy of probabilities", [=] { return cross_entropy(x(2, 3), ones(2, 3)); }},
      {"nll_loss", [=] { return nll_loss(x(2, 3), tensor({0, 1})); }}, {"mse_loss", [=] { return mse_loss(x(2), ones(2)); }},
      {"l1_loss", [=] { return l1_loss(x(2), zeros(2)); }},
      {"l1_loss without reduction", [=] { return l1_loss(x(2), zeros(2), {Reduction::kNone}); }},
      {"l1_loss, summed", [=] { return l1_loss(x(2), zeros(2), {Reduction::kSum}); }},
      {"smooth_l1_loss", [=] { return smooth_l1_loss(x(2), zeros(2)); }}, {"huber_loss", [=] { return huber_loss(x(2), zeros(2)); }},
      {"binary_cross_entropy", [=] { return binary_cross_entropy(x(2).sigmoid(), ones(2)); }},
      {"binary_cross_entropy_with_logits", [=] { return binary_cross_entropy_with_logits(x(2), ones(2)); }},
      {"kl_div", [=] { return kl_div(x(2, 2), ones(2, 2), {Reduction::kBatchMean}); }},
      {"kl_div, mean", [=] { return kl_div(x(2), ones(2)); }}, {"kl_div, summed", [=] { return kl_div(x(2), ones(2), {Reduction::kSum}); }},
      {"kl_div without reduction", [=] { return kl_div(x(2), ones(2), {Reduction::kNone}); }},
      {"cosine_similarity", [=] { return cosine_similarity(x(2, 3), x(2, 3)); }}};
  return cases;
}
// clang-format on

void expect_shown(const Tensor& y, const parity::Arrays& arrays, const std::string& name) {
  ASSERT_TRUE(arrays.has(name)) << name << ": run make_arrays.py";
  const auto bytes = arrays.get<char>(name);
  const std::string wanted(bytes.begin(), bytes.end());
  const std::string text = y.str();
  EXPECT_NE(text.find("grad_fn=<" + wanted + ">"), std::string::npos) << name << ": " << text;
}

TEST(GradFn, NamesArePyTorchs) {
  const parity::Arrays arrays("grad_fn");
  std::set<std::string> seen;
  for (const GradFnCase& c : grad_fn_cases()) {
    seen.insert("case/" + std::string(c.name));
    expect_shown(c.f(), arrays, "case/" + std::string(c.name));
  }
  for (const UnaryFacts& row : kUnaryFacts) {
    seen.insert("elementwise/" + std::string(row.name));
    expect_shown(apply(row, numbers_for(row, {2}).requires_grad_()), arrays,
                 "elementwise/" + std::string(row.name));
  }
  for (const std::string& name : arrays.names()) {
    EXPECT_TRUE(name.starts_with("composed/") || seen.contains(name)) << name << " has no case";
  }
}

}  // namespace
}  // namespace dl::testing
