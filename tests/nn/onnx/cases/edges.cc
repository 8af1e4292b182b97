// Functions at the edges of what tensors can be: shapes, strides, dtypes, indices and windows.
#include "tests/nn/onnx/cases/edges.h"
#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/embedding.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/linear.h"
#include "core/ops/linear/product.h"
#include "core/ops/logic/logic.h"
#include "core/ops/logic/search.h"
#include "core/ops/norm/norm.h"
#include "core/ops/order/order.h"
#include "core/ops/pool/resample.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/functional/functional.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/conv/conv_variants.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool/pool.h"
#include "nn/layers/pool/resample.h"

namespace dl::onnx {
namespace {

namespace F = nn::functional;
using indexing::None;
using indexing::Slice;

// Random tensors of the shape, for batches of 2, 1 and 5.
Calls batches(const Shape& shape) {
  return batches_of([&](std::int64_t size) {
    Shape with = shape;
    with.insert(0, size);
    return randn(with);
  });
}

Tensor whole(const Shape& shape, std::int64_t count, DType dtype = DType::kI64) {
  return (rand(shape) * static_cast<double>(count)).to(DType::kI64).to(dtype);
}

void write_shapes(const Edges& to) {
  to.fixed("scalar", [](In in) { return Out{in[0] * 2 + in[0].exp(), in[0].sum()}; },
           {{randn({})}});
  to.fixed("empty", [](In in) { return Out{in[0].relu() + 1, cat({in[0], in[1]}, 0)}; },
           {{randn({0, 3}), randn({2, 3})}});
  to.dynamic(
      "empty_part",
      [](In in) {
        return Out{in[0].narrow(1, 2, 0), cat({in[0].narrow(1, 0, 0), in[0]}, 1),
                   in[0].narrow(1, 0, 0).sum({1})};
      },
      batches({3}));
  to.dynamic(
      "negative_dims",
      [](In in) {
        const Tensor& x = in[0];
        return Out{
            x.transpose(-1, -2).relu(),     x.softmax(-2),        x.sum({-1, -3}), x.select(-1, -2),
            x.narrow(-2, 1, 2).flatten(-2), x.unsqueeze(-2).exp()};
      },
      batches({3, 4, 5}));
  to.dynamic(
      "steps",
      [](In in) {
        const Tensor& x = in[0];
        return Out{x.slice(1, 1, 9, 3), x.slice(2, 0, 7, 2).slice(1, 0, 10, 4) * 2,
                   x.slice(1, 1, 9, 2).flatten(1), x.slice(1, 0, 10, 5).transpose(1, 2),
                   x.index({Slice(), Slice(2, None, 3), Slice(None, None, 2)}).sum({2})};
      },
      batches({10, 7}));
  to.dynamic(
      "reshapes",
      [](In in) {
        const Tensor& x = in[0];
        const std::int64_t n = x.size(0);
        return Out{x.reshape({-1, 6}),
                   x.view({n, 2, 2, 6}).permute({0, 2, 3, 1}).flatten(1),
                   unflatten(x, 1, {2, 2}).movedim(1, -1).reshape({n, -1}),
                   x.transpose(0, 1).reshape({4, n * 6}),
                   x.permute({2, 0, 1}).reshape({-1}),
                   x.flatten().unsqueeze(0)};
      },
      batches({4, 6}));
  to.dynamic(
      "expands",
      [](In in) {
        const Tensor& x = in[0];
        const std::int64_t n = x.size(0);
        return Out{x.unsqueeze(1).expand({n, 4, 3}),
                   x.unsqueeze(1).expand({n, 4, 3}) * 2,
                   x.repeat({2, 3}),
                   x.repeat({1, 2, 1}),
                   tile(x, {2}),
                   repeat_interleave(x, 2, 1),
                   repeat_interleave(x, 3, 0)};
      },
      batches({3}));
  to.dynamic(
      "joins",
      [](In in) {
        const Tensor& x = in[0];
        return Out{cat({x, x * 2}, 0),
                   stack({x, x}, 0),
                   stack({x, x.relu()}, -1),
                   cat({x, x.sum({1}, {.keepdim = true}), x}, 1),
                   hstack({x, x}),
                   vstack({x, x}),
                   roll(x, 2, 1)};
      },
      batches({3}));
  to.fixed("rolls", [](In in) { return Out{roll(in[0], 1, 0), roll(in[0], 1)}; },
           {{randn({4, 3})}});
  to.dynamic(
      "splits",
      [](In in) {
        const std::vector<Tensor> parts = split(in[0], Dims{1, 2, 4}, 1);
        const std::vector<Tensor> equal = split(in[0], 3, 1);
        Out out{parts[2], parts[0] + parts[1], equal[2]};
        for (const Tensor& each : in[0].chunk(4, 1)) out.push_back(each.exp());
        for (const Tensor& each : in[0].unbind(1)) out.push_back(each);
        return out;
      },
      batches({7}));
  to.dynamic(
      "turns",
      [](In in) {
        const Tensor& x = in[0];
        return Out{x.flip({0}), x.flip({1, 2}), fliplr(x), x.flip({0, 2}).transpose(0, 1)};
      },
      batches({3, 4}));
  to.dynamic(
      "triangles",
      [](In in) {
        return Out{tril(in[0]), triu(in[0], 1), tril(in[0], -1), diagonal(in[0], 1, 1, 2),
                   diagonal(in[0], 0, 1, 2).sum({1})};
      },
      batches({3, 4}));
  to.dynamic("triangles_of_both", [](In in) { return Out{tril(in[0]), triu(in[0], -1)}; },
             {{randn({4, 5})}, {randn({1, 1})}, {randn({3, 9})}, {randn({9, 2})}},
             {{0, "rows"}, {1, "columns"}});
  to.dynamic("positions",
             [](In in) {
               const Tensor& x = in[0];
               const std::int64_t n = x.size(0);
               const std::int64_t m = x.size(1);
               const Tensor rows = arange(n, {.dtype = DType::kF32}).unsqueeze(1);
               return Out{x + rows * arange(m),
                          arange(2, 2 * n + 2, 2) * 3,
                          arange(n - 1, -1, -1),
                          x * static_cast<double>(n),
                          full({n, m}, 3.0),
                          zeros_like(x),
                          eye(3) + 1,
                          x.sum({0}) / static_cast<double>(n)};
             },
             {{randn({4, 5})}, {randn({2, 3})}, {randn({7, 2})}}, {{0, "rows"}, {1, "columns"}});
  to.dynamic("means",
             [](In in) {
               const Tensor& x = in[0];
               return Out{x.mean({0}),    x.square().mean(),
                          x.var({0}),     x.std({0, 1}, {.correction = 0}),
                          x.sum({0}),     x.amax({0}),
                          x.norm(2, {0}), x.logsumexp({0}),
                          softmax(x, 0)};
             },
             {{randn({4, 5})}, {randn({2, 3})}, {randn({7, 2})}}, {{0, "rows"}, {1, "columns"}});
  to.dynamic(
      "shuffles",
      [](In in) {
        return Out{pixel_shuffle(in[0], 2), channel_shuffle(in[0], 4), pixel_unshuffle(in[0], 3)};
      },
      batches({8, 6, 3}));
  to.dynamic(
      "same_twice", [](In in) { return Out{in[0], in[0], in[0].relu(), in[0].relu()}; },
      batches({3}));
  to.dynamic(
      "constant_output", [](In in) { return Out{ones({2}), in[0] + 1, tensor({1, 2})}; },
      batches({3}));
  to.dynamic("unused_input", [](In in) { return Out{in[1] + 1}; },
             {{randn({2, 3}), randn({2, 4})}, {randn({5, 3}), randn({5, 4})}});
}

void write_indices(const Edges& to) {
  const Tensor picks = tensor({2, 0, -1});
  to.dynamic(
      "index",
      [=](In in) {
        const Tensor& x = in[0];
        return Out{x.index({Slice(), picks}),
                   x.index({Slice(), picks, picks}),
                   x.index({"...", picks}),
                   x.index({Slice(), 1, Slice(1, 3)}),
                   x.index({Slice(), picks, None, Slice(0, 2)}),
                   index_select(x, 1, tensor({1, 1, 0})),
                   x.index({Slice(), -1})};
      },
      batches({4, 5}));
  to.dynamic("index_of_batch", [=](In in) { return Out{in[0].index({tensor({1, 0, 1})})}; },
             {{randn({2, 3})}, {randn({6, 3})}});
  to.dynamic("index_by_input",
             [](In in) {
               return Out{gather(in[0], 1, in[1]),
                          take_along_dim(in[0], in[1], 1),
                          embedding(in[0], in[1].flatten().remainder(2)),
                          scatter(in[0], 1, in[1], in[0].narrow(1, 0, 2) * 2),
                          scatter_add(in[0], 1, in[1], in[0].narrow(1, 0, 2)),
                          scatter(in[0], 1, in[1], -1.5)};
             },
             {{randn({2, 5}), tensor({{0, 3}, {4, 1}})},
              {randn({3, 5}), tensor({{0, 4}, {2, 1}, {3, 2}})}});
  to.dynamic("one_index_of_each_row",
             [](In in) {
               return Out{in[0].index({arange(in[0].size(0)), in[1]}),
                          in[0].index({in[1].unsqueeze(1), tensor({0, 2})})};
             },
             {{randn({2, 5}), tensor({1, 0})}, {randn({3, 5}), tensor({2, 0, 1})}});
  to.dynamic(
      "index_add",
      [](In in) {
        const Tensor at = tensor({2, 0, 2});
        return Out{index_add(in[0], 1, at, in[0].narrow(1, 0, 3) * 2),
                   index_fill(in[0], 1, tensor({0, 3}), 7.0)};
      },
      batches({4}));
  to.dynamic(
      "index_put",
      [](In in) {
        Tensor own = in[0] * 1;
        own.index({Slice(), 1}) = 5.0;
        own.index({Slice(), Slice(2, 4)}) += in[0].narrow(1, 0, 2);
        Tensor other = in[0] * 1;
        other.index_put_({"...", tensor({0, 3})}, 2.5);
        return Out{own, other};
      },
      batches({5}));
  to.dynamic(
      "masks",
      [](In in) {
        const Tensor& x = in[0];
        const Tensor mask = gt(x, 0.0);
        return Out{where(mask, x, -1.0),
                   where(mask, 1, 0),
                   masked_fill(x, mask, 3.0),
                   masked_fill(x, mask, x.mean()),
                   where(mask, x, x.t().t() * 2),
                   mask.any(),
                   mask.all(1),
                   logical_not(mask),
                   mask.sum({1})};
      },
      batches({4}));
  to.dynamic(
      "order",
      [](In in) {
        const Tensor& x = in[0];
        const auto [sorted, places] = x.sort(1, {.descending = true});
        const auto [top, at] = x.topk(2, 1, {.largest = false});
        return Out{sorted,         places,         top,        at,
                   x.argmax(1),    x.argmin(0),    x.argmax(), argsort(x, 0),
                   x.max(0).first, x.min(1).second};
      },
      batches({6}));
  to.dynamic(
      "cumsums",
      [](In in) {
        return Out{cumsum(in[0], 0), cumsum(in[0], -1), cumsum(gt(in[0], 0.0), 1),
                   cumsum(in[0].flip({1}), 1).flip({1})};
      },
      batches({4}));
  to.dynamic("one_hot", [](In in) { return Out{one_hot(in[0], 5)}; },
             {{whole({2, 3}, 5)}, {whole({4, 3}, 5)}});
  to.dynamic("one_hot_like",
             [](In in) { return Out{eq(in[0].unsqueeze(-1), arange(5)).to(DType::kF32)}; },
             {{whole({2, 3}, 5)}, {whole({4, 3}, 5)}});
  to.dynamic(
      "bucketize", [](In in) { return Out{bucketize(in[0], tensor({-0.5F, 0.0F, 0.5F}))}; },
      batches({4}));
}

void write_products(const Edges& to) {
  const auto pair = [](const Shape& a, const Shape& b) {
    return Calls{{randn(a), randn(b)}, {randn(a), randn(b)}};
  };
  const auto einsum_case = [&](const std::string& name, const std::string& equation, const Shape& a,
                               const Shape& b) {
    to.fixed(
        "einsum_" + name, [=](In in) { return Out{einsum(equation, in[0], in[1])}; }, pair(a, b));
  };
  einsum_case("matrices", "ij,jk->ik", {3, 4}, {4, 5});
  einsum_case("attention", "bhqd,bhkd->bhqk", {2, 3, 4, 5}, {2, 3, 6, 5});
  einsum_case("outer", "i,j->ij", {3}, {4});
  einsum_case("inner", "ij,ij->", {3, 4}, {3, 4});
  einsum_case("bilinear", "bi,ijk->bjk", {2, 3}, {3, 4, 5});
  einsum_case("transposed", "ij,kj->ki", {3, 4}, {5, 4});
  einsum_case("dots", "...ij,...jk->...ik", {2, 3, 4}, {2, 4, 5});
  to.fixed("einsum_diagonal",
           [](In in) { return Out{einsum("ii->i", in[0]), einsum("ii", in[0])}; },
           {{randn({4, 4})}});
  to.dynamic("einsum_dynamic",
             [](In in) {
               return Out{einsum("bij,bjk->bik", in[0], in[1]), einsum("bij->bji", in[0]),
                          einsum("bij->b", in[0])};
             },
             {{randn({2, 3, 4}), randn({2, 4, 5})}, {randn({1, 3, 4}), randn({1, 4, 5})}});
  to.dynamic(
      "products",
      [](In in) {
        const Tensor& x = in[0];
        const Tensor w = arange(12, {.dtype = DType::kF32}).view({4, 3}) * 0.1;
        return Out{matmul(x, w),
                   matmul(x, w.select(1, 0)),
                   matmul(x, x.transpose(1, 2)),
                   bmm(x, x.transpose(1, 2)),
                   matmul(w.t(), x.select(1, 0).t()),
                   tensordot(x, w, DimList{2}, DimList{0}),
                   x.select(1, 0).matmul(w),
                   baddbmm(x.narrow(2, 0, 3), x, w.expand({x.size(0), 4, 3}))};
      },
      batches({3, 4}));
  to.fixed("vectors",
           [](In in) {
             return Out{dot(in[0], in[1]), outer(in[0], in[1]), matmul(in[0], in[1]),
                        mv(outer(in[0], in[0]), in[1]), addr(outer(in[1], in[1]), in[0], in[1])};
           },
           {{randn({4}), randn({4})}});
  to.dynamic(
      "addmm",
      [](In in) {
        const Tensor w = ones({4, 3});
        return Out{addmm(ones({3}), in[0], w, {.beta = 0.5, .alpha = 2}),
                   F::linear(in[0], w.t(), ones({3})), F::linear(in[0].unsqueeze(1), w.t())};
      },
      batches({4}));
}

void write_windows(const Edges& to) {
  const Calls image = batches({4, 9, 8});
  for (const std::int64_t groups : {1, 2, 4}) {
    for (const std::int64_t dilation : {1, 2}) {
      const std::string suffix = std::to_string(groups) + std::to_string(dilation);
      to.layer("conv2d" + suffix,
               nn::Conv2d(4, 8, {3, 2},
                          {.stride = {2, 1},
                           .padding = {2, 1},
                           .dilation = {dilation, 1},
                           .groups = groups,
                           .bias = groups == 1}),
               image);
      to.layer("conv_transpose2d" + suffix,
               nn::ConvTranspose2d(4, 8, 3,
                                   {.stride = 2,
                                    .padding = 1,
                                    .output_padding = 1,
                                    .groups = groups,
                                    .bias = groups == 1,
                                    .dilation = dilation}),
               image);
      to.layer("conv1d" + suffix,
               nn::Conv1d(4, 8, 3, {.padding = 2, .dilation = dilation, .groups = groups}),
               batches({4, 9}));
    }
  }
  to.layer("conv2d_dynamic_image", nn::Conv2d(4, 8, 3, {.stride = 2, .padding = 1}),
           {{randn({2, 4, 9, 8})}, {randn({1, 4, 5, 12})}, {randn({1, 4, 6, 7})}},
           {{0, "batch"}, {2, "height"}, {3, "width"}});
  to.layer("conv_transpose2d_dynamic_image", nn::ConvTranspose2d(4, 8, 3, {.stride = 2}),
           {{randn({2, 4, 9, 8})}, {randn({1, 4, 5, 12})}},
           {{0, "batch"}, {2, "height"}, {3, "width"}});
  to.fixed("conv2d_unbatched",
           [](In in) { return Out{conv2d(in[0], in[1]), conv2d(in[0].unsqueeze(0), in[1])}; },
           {{randn({4, 9, 8}), randn({2, 4, 3, 3})}});
  for (const bool ceils : {false, true}) {
    const std::string suffix = ceils ? "_ceil" : "";
    to.layer("max_pool2d" + suffix,
             nn::MaxPool2d(3, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = ceils}),
             image);
    to.layer("max_pool1d" + suffix, nn::MaxPool1d(3, {.stride = 2, .ceil_mode = ceils}),
             batches({4, 10}));
    to.layer("avg_pool1d" + suffix,
             nn::AvgPool1d(3, {.stride = 2, .padding = 1, .ceil_mode = ceils}), batches({4, 10}));
    for (const bool counts : {false, true}) {
      to.layer("avg_pool2d" + suffix + (counts ? "_counts" : ""),
               nn::AvgPool2d({3, 2}, {.stride = IntPair{2, 3},
                                      .padding = {1, 0},
                                      .ceil_mode = ceils,
                                      .count_include_pad = counts}),
               image);
    }
  }
  to.layer("max_pool2d_dynamic_image", nn::MaxPool2d(2),
           {{randn({2, 4, 8, 8})}, {randn({1, 4, 4, 12})}, {randn({1, 4, 5, 7})}},
           {{0, "batch"}, {2, "height"}, {3, "width"}});
  to.layer("avg_pool2d_dynamic_image", nn::AvgPool2d(2),
           {{randn({2, 4, 8, 8})}, {randn({1, 4, 4, 12})}, {randn({1, 4, 5, 7})}},
           {{0, "batch"}, {2, "height"}, {3, "width"}});
  to.layer("global_pool_dynamic_image", nn::AdaptiveAvgPool2d(1),
           {{randn({2, 4, 8, 8})}, {randn({1, 4, 4, 12})}, {randn({1, 4, 5, 7})}},
           {{0, "batch"}, {2, "height"}, {3, "width"}});
  to.layer("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d({4, 3}), image);
  to.layer("adaptive_max_pool2d", nn::AdaptiveMaxPool2d({3, 4}), image);
  to.layer("adaptive_max_pool2d_uneven", nn::AdaptiveMaxPool2d({4, 3}), image);
  for (const bool corners : {false, true}) {
    to.layer(
        std::string("bilinear") + (corners ? "_corners" : ""),
        nn::Upsample(
            {.size = IntPair{13, 5}, .mode = UpsampleMode::kBilinear, .align_corners = corners}),
        image);
  }
  to.layer("nearest_uneven", nn::Upsample({.size = IntPair{13, 5}}), image);
  to.layer("nearest_dynamic_image", nn::Upsample({.scale_factor = 2}),
           {{randn({2, 4, 8, 8})}, {randn({1, 4, 4, 12})}, {randn({1, 4, 5, 7})}},
           {{0, "batch"}, {2, "height"}, {3, "width"}});
  const std::pair<const char*, PadMode> modes[] = {{"constant", PadMode::kConstant},
                                                   {"reflect", PadMode::kReflect},
                                                   {"replicate", PadMode::kReplicate},
                                                   {"circular", PadMode::kCircular}};
  for (const auto& [name, mode] : modes) {
    const PadMode by = mode;
    to.dynamic(
        std::string("pad_") + name,
        [=](In in) {
          return Out{pad(in[0], {1, 2}, by), pad(in[0], {1, 2, 3, 0}, by),
                     pad(in[0], {-1, 2, 0, -3}, by), pad(in[0], {-1, -1}, by)};
        },
        image);
  }
  to.dynamic("pad_dynamic_image", [](In in) { return Out{pad(in[0], {1, 2, 2, 1})}; },
             {{randn({2, 4, 8, 8})}, {randn({1, 4, 4, 12})}},
             {{0, "batch"}, {2, "height"}, {3, "width"}});
  to.dynamic(
      "norms",
      [](In in) {
        return Out{F::normalize(in[0]), layer_norm(in[0], {9, 8}), rms_norm(in[0], {8}),
                   group_norm(in[0], 2), batch_norm(in[0], {}, {}, {}, {}, {.training = true})};
      },
      image);
}

class Shared final : public nn::Module {
 public:
  Shared() { second.weight = first.weight; }
  Tensor forward(const Tensor& x) override {
    return second(first(x).relu()) + matmul(x, turned) + matmul(x, sliced) + x * scale;
  }

 private:
  nn::Linear& first = register_module("first", nn::Linear(4, 4));
  nn::Linear& second = register_module("second", nn::Linear(4, 4));
  Tensor& turned = register_parameter("turned weight/\xc3\xbc", randn({4, 4}).t());
  Tensor& sliced = register_parameter("sliced", randn({4, 8}).slice(1, 1, 8, 2));
  Tensor& scale = register_buffer("scale \"\n", randn({1}).expand({4}));
};

}  // namespace

void write_edges(Writer& writer) {
  const Edges to{writer};
  write_shapes(to);
  write_indices(to);
  write_products(to);
  write_windows(to);
  to.layer("shared_weights", Shared(), batches({4}));
}

}  // namespace dl::onnx
