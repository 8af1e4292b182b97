// How results lie in memory, and in which order random numbers are drawn, next to PyTorch's:
// tests/parity/make_arrays.py writes both. docs/reference/memory_order.md says the rules.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/linear.h"
#include "core/ops/logic/logic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/order/order.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/attention.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/conv/conv_variants.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/module/init.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl::nn {
namespace {

namespace F = functional;

const Shape kInputShape{2, 3, 4, 5};
const char* const kInputLayouts[] = {"contiguous",
                                     "transposed",
                                     "permuted",
                                     "sliced",
                                     "sliced_transposed",
                                     "expanded",
                                     "expanded_permuted",
                                     "channels_last",
                                     "channels_last_sliced",
                                     "channels_first_of_all"};

const parity::Arrays& torch_orders() {
  static const parity::Arrays arrays("memory_order");
  return arrays;
}

Strides torch_strides_of(const std::string& name) {
  return Strides(std::span<const std::int64_t>(torch_orders().get<std::int64_t>(name)));
}

// A tensor of PyTorch's strides; elements differ unless they share an address.
Tensor tensor_in(const std::string& layout) {
  const Strides strides = torch_strides_of("input." + layout);
  const std::int64_t extent = strided_extent(kInputShape, strides, "test");
  return as_strided(arange(extent).to(DType::kF32) / static_cast<double>(extent), kInputShape,
                    strides, 0);
}

void expect_order(const Tensor& got, const std::string& name) {
  const Strides wanted = torch_strides_of(name);
  ASSERT_EQ(got.strides().size(), wanted.size()) << name;
  EXPECT_TRUE(are_same_addresses(got.sizes(), got.strides(), wanted))
      << name << ": " << got.strides().str() << ", wanted " << wanted.str();
}

using OneTensor = std::function<Tensor(const Tensor&)>;

std::map<std::string, OneTensor> operations_on_layouts() {
  const Tensor dense = tensor_in("contiguous");
  const Tensor row = dense[0][0][0];
  const Tensor weight = full({5, 3, 2, 2}, 0.5);
  const auto half = Scalar(0.5);
  return {
      {"neg", [](const Tensor& x) { return -x; }},
      {"add", [=](const Tensor& x) { return x + dense; }},
      {"add_to_dense", [=](const Tensor& x) { return dense + x; }},
      {"add_row", [=](const Tensor& x) { return x + row; }},
      {"add_number", [](const Tensor& x) { return x + 1; }},
      {"lt", [=](const Tensor& x) { return lt(x, half); }},
      {"where", [=](const Tensor& x) { return where(lt(x, half), x, row); }},
      {"lerp", [=](const Tensor& x) { return lerp(x, dense, 0.5); }},
      {"addcmul", [=](const Tensor& x) { return addcmul(row, x, x, 1); }},
      {"clamp", [=](const Tensor& x) { return clamp(x, x, dense); }},
      {"to", [](const Tensor& x) { return x.to(DType::kF64); }},
      {"clone", [](const Tensor& x) { return x.clone(); }},
      {"zeros_like", [](const Tensor& x) { return zeros_like(x); }},
      {"rand_like", [](const Tensor& x) { return rand_like(x); }},
      {"dropout", [](const Tensor& x) { return F::dropout(x, 0.5); }},
      {"alpha_dropout", [](const Tensor& x) { return F::alpha_dropout(x, 0.5); }},
      {"dropout2d", [](const Tensor& x) { return F::channel_dropout(x, 0.5, {}, "dropout2d"); }},
      {"mse_loss",
       [=](const Tensor& x) { return mse_loss(x, dense, {.reduction = Reduction::kNone}); }},
      {"flip", [](const Tensor& x) { return flip(x, {1}); }},
      {"sort", [](const Tensor& x) { return sort(x, 1).first; }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 1); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"sum", [](const Tensor& x) { return sum(x, {1}); }},
      {"matmul", [](const Tensor& x) { return matmul(x, x.transpose(-1, -2)); }},
      {"linear", [](const Tensor& x) { return linear(x, ones({2, 5}), {}); }},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, {5}, {}, {}, 1e-5); }},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x, {5}, {}, {}); }},
      {"group_norm", [](const Tensor& x) { return group_norm(x, 3, {}, {}, 1e-5); }},
      {"batch_norm",
       [](const Tensor& x) { return batch_norm(x, {}, {}, {}, {}, {.training = true}); }},
      {"prelu", [](const Tensor& x) { return prelu(x, ones({3})); }},
      {"cat", [](const Tensor& x) { return cat(std::vector<Tensor>{x, x}, 1); }},
      {"cat_with_dense", [=](const Tensor& x) { return cat(std::vector<Tensor>{x, dense}, 1); }},
      {"stack", [](const Tensor& x) { return stack(std::vector<Tensor>{x, x}, 1); }},
      {"pad", [](const Tensor& x) { return pad(x, {1, 0, 0, 2}); }},
      {"pad_reflect", [](const Tensor& x) { return pad(x, {1, 0, 0, 2}, PadMode::kReflect); }},
      {"masked_fill", [=](const Tensor& x) { return masked_fill(x, lt(x, half), 1.0); }},
      {"index_select", [](const Tensor& x) { return index_select(x, 1, tensor({0, 2})); }},
      {"gather",
       [](const Tensor& x) { return gather(x, 1, zeros(x.sizes(), {.dtype = DType::kI64})); }},
      {"roll", [](const Tensor& x) { return roll(x, 1, 1); }},
      {"tril", [](const Tensor& x) { return tril(x); }},
      {"repeat", [](const Tensor& x) { return repeat(x, {2, 1, 1, 1}); }},
      {"glu", [](const Tensor& x) { return glu(x.narrow(2, 0, 4), 2); }},
      {"attention", [](const Tensor& x) { return F::scaled_dot_product_attention(x, x, x, {}); }},
      {"conv2d", [=](const Tensor& x) { return conv2d(x, weight, {}, {}); }},
      {"conv_transpose2d",
       [=](const Tensor& x) {
         return conv_transpose2d(x, weight.transpose(0, 1).contiguous(), {}, {});
       }},
      {"max_pool2d", [](const Tensor& x) { return max_pool2d(x, {.kernel = 2, .stride = 2}); }},
      {"avg_pool2d", [](const Tensor& x) { return avg_pool2d(x, {.kernel = 2, .stride = 2}); }},
      {"adaptive_avg_pool2d", [](const Tensor& x) { return adaptive_avg_pool2d(x, {2, 3}); }},
      {"upsample", [](const Tensor& x) { return upsample2d(x, {.size = {8, 10}}); }},
  };
}

TEST(MemoryOrder, OfResultsIsPyTorchs) {
  const auto operations = operations_on_layouts();
  std::set<std::string> seen;
  for (const char* const layout : kInputLayouts) {
    const Tensor x = tensor_in(layout);
    for (const auto& [name, f] : operations) {
      const std::string both = name + "." + layout;
      if (!torch_orders().has(both)) continue;
      seen.insert(both);
      expect_order(f(x), both);
    }
  }
  for (const std::string& name : torch_orders().names()) {
    const bool is_operation = operations.contains(name.substr(0, name.find('.')));
    EXPECT_TRUE(!is_operation || seen.contains(name)) << name;
  }
}

TEST(MemoryOrder, OfTwoOperandsIsPyTorchs) {
  for (const std::string first : kInputLayouts) {
    for (const std::string second : kInputLayouts) {
      const Tensor x = tensor_in(first);
      const Tensor y = tensor_in(second);
      expect_order(x + y, "pair." + first + "." + second);
      expect_order(gt(x, y), "pair." + first + "." + second);
    }
  }
}

// PyTorch orders by strides along dimensions of size 1, too, which slices leave behind.
TEST(MemoryOrder, IgnoresStridesOfDimensionsOfSizeOne) {
  const Tensor y = as_strided(arange(9).to(DType::kF32), {1, 1, 1, 9}, {9, 1, 9, 1}, 0);
  EXPECT_EQ((zeros({7, 9}) + y).strides(), Strides({63, 1, 1, 7}));
  const Tensor x = as_strided(arange(200).to(DType::kF32), {9, 1, 1, 1}, {1, 54, 54, 27}, 0);
  EXPECT_EQ((x + zeros({1, 7, 1, 7})).strides(), Strides({7, 63, 441, 1}));
  EXPECT_EQ((y + y).strides(), Strides({9, 9, 9, 1}));
}

// The numbers of a tensor row by row, from seed 123.
void expect_drawn(const std::string& name, const std::function<Tensor()>& draw) {
  manual_seed(123);
  const Tensor got = draw().to(DType::kF32).contiguous();
  const float* const first = got.data<float>();
  EXPECT_EQ(std::vector<float>(first, first + got.numel()),
            torch_orders().get<float>("draw." + name))
      << name;
}

TEST(MemoryOrder, OfRandomNumbersIsPyTorchs) {
  for (const std::string layout : kInputLayouts) {
    const Tensor x = tensor_in(layout);
    expect_drawn("rand_like." + layout, [&] { return rand_like(x); });
    expect_drawn("randn_like." + layout, [&] { return randn_like(x); });
    expect_drawn("dropout." + layout, [&] { return F::dropout(ones_like(x), 0.3); });
    if (layout.starts_with("expanded")) continue;
    Tensor y = tensor_in(layout);
    expect_drawn("uniform_." + layout, [&] { return init::uniform_(y, -1, 2); });
    expect_drawn("normal_." + layout, [&] { return init::normal_(y, 0.5, 2); });
    expect_drawn("trunc_normal_." + layout, [&] { return init::trunc_normal_(y); });
    expect_drawn("trunc_normal_tail." + layout,
                 [&] { return init::trunc_normal_(y, 0.1, 0.5, 1.0, 1.5); });
    expect_drawn("bf16." + layout, [&] { return randn_like(x.to(DType::kBF16)); });
  }
}

TEST(MemoryOrder, OfMatricesThatAreDrawnIsPyTorchs) {
  for (const auto& [rows, columns] : {std::pair{5, 7}, {50, 40}, {4, 3}}) {
    Tensor turned = empty({rows, columns}).t();
    const std::string size = "." + std::to_string(rows) + "x" + std::to_string(columns);
    expect_drawn("randn_like" + size, [&] { return randn_like(turned); });
    if (rows * columns >= 100) continue;
    expect_drawn("sparse_" + size, [&] { return init::sparse_(turned, 0.3); });
    manual_seed(123);
    const Tensor got = init::orthogonal_(turned).contiguous();
    const auto wanted = torch_orders().get<float>("draw.orthogonal_" + size);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(got.data<float>()[i], wanted[i], 1e-5);
    }
  }
}

// Which elements a dropout keeps of a tensor that lies as this one.
Tensor kept_of(const Tensor& x) {
  return ne(F::dropout(ones_like(x), 0.5), 0.0).to(DType::kF32);
}

TEST(MemoryOrder, OfRandomNumbersBehindConvolutionsIsPyTorchs) {
  constexpr auto kLast = MemoryFormat::kChannelsLast;
  const Tensor image =
      tensor(torch_orders().get<float>("image"), {.dtype = DType::kF32}).view({2, 3, 6, 6});
  const Tensor last = image.contiguous(kLast);
  Conv2d conv(3, 4, 3);
  Conv1d line(3, 4, 3);
  const auto norm_pool = [&](const Tensor& x) {
    return max_pool2d(BatchNorm2d(4)(conv(x)), {.kernel = 2, .stride = 2});
  };
  const auto twice = [&](const Tensor& x) { return cat(std::vector<Tensor>{conv(x), conv(x)}, 1); };
  const Tensor nothing = zeros({2, 4, 4, 4});
  const std::map<std::string, std::function<Tensor()>> programs = {
      {"conv", [&] { return conv(image); }},
      {"conv_last", [&] { return conv(last); }},
      {"relu", [&] { return relu(conv(image)); }},
      {"norm_pool", [&] { return norm_pool(image); }},
      {"norm_pool_last", [&] { return norm_pool(last); }},
      {"residual", [&] { return conv(image) + nothing; }},
      {"residual_first", [&] { return nothing + conv(image); }},
      {"to_last", [&] { return conv(image).permute({0, 2, 3, 1}); }},
      {"to_last_sum", [&] { return conv(image).permute({0, 2, 3, 1}) + nothing; }},
      {"patches", [&] { return conv(image).flatten(2).transpose(1, 2); }},
      {"patches_sum", [&] { return conv(image).flatten(2).transpose(1, 2) + zeros({1, 16, 4}); }},
      {"part", [&] { return conv(image).narrow(1, 1, 2).select(2, 1); }},
      {"double", [&] { return conv(image).to(DType::kF64); }},
      {"flat", [&] { return conv(image).flatten(1); }},
      {"cat", [&] { return twice(image); }},
      {"cat_last", [&] { return twice(last); }},
      {"upsample", [&] { return upsample2d(conv(image), {.size = {8, 8}}); }},
      {"group_norm", [&] { return group_norm(conv(last), 2, {}, {}, 1e-5); }},
      {"pad", [&] { return pad(conv(image), {1, 1, 1, 1}); }},
      {"pad_last", [&] { return pad(conv(last), {1, 1, 1, 1}); }},
      {"conv1d", [&] { return line(image.select(2, 0)); }},
      {"conv1d_last",
       [&] { return line(image.select(2, 0).transpose(1, 2).contiguous().transpose(1, 2)); }},
      {"made_last", [&] { return conv(image).contiguous(kLast); }},
      {"made_row_major", [&] { return conv(last).contiguous(); }},
      {"pool_of_last", [&] { return adaptive_avg_pool2d(last, {3, 2}); }},
  };
  for (const auto& [name, f] : programs) {
    expect_drawn("program." + name, [&] { return kept_of(f()); });
  }
  expect_drawn("program.normal", [&] { return randn_like(conv(image)); });
  expect_drawn("program.normal_last", [&] { return randn_like(conv(last)); });
}

// PyTorch's nn.TransformerEncoderLayer(8, 2, 12, dropout=0.3), whose norm stands behind each sum.
TEST(MemoryOrder, OfAttentionDrawsTheNumbersOfPyTorchsEncoder) {
  for (const bool batch_first : {true, false}) {
    const std::string name = batch_first ? "encoder.batch_first" : "encoder.batch_second";
    manual_seed(7);
    MultiheadAttention attention(8, 2, {.dropout = 0.3, .batch_first = batch_first});
    Linear wide(8, 12);
    Linear narrow(12, 8);
    LayerNorm first(8);
    LayerNorm second(8);
    const Tensor x =
        tensor(torch_orders().get<float>("encoder.input"), {.dtype = DType::kF32}).view({3, 5, 8});
    const Tensor seen = attention(x, x, x, {.need_weights = false}).first;
    const Tensor y = first(x + F::dropout(seen, 0.3));
    const Tensor hidden = F::dropout(relu(wide(y)), 0.3);
    const Tensor got = second(y + F::dropout(narrow(hidden), 0.3)).detach().contiguous();
    const auto wanted = torch_orders().get<float>(name);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(got.data<float>()[i], wanted[i], 2e-6) << name << " element " << i;
    }
    expect_order(attention(x, x, x, {.need_weights = false}).first, name + ".strides");
  }
}

}  // namespace
}  // namespace dl::nn
