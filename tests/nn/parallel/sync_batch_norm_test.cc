// SyncBatchNorm over real groups, beside BatchNorm of one process with the whole batch.
#include "nn/parallel/sync_batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/autograd/grad_mode.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "nn/parallel/distributed.h"
#include "tests/collectives/ranks.h"
#include "tests/core/support.h"

namespace dl::nn::parallel {
namespace {

using collectives::ProcessGroup;
using collectives::testing::run_ranks;

constexpr std::int64_t kChannels = 5;

struct SharedCase {
  std::vector<std::int64_t> sizes;  // of each rank's batch
  Shape places;
  DType dtype = DType::kF32;
  MemoryFormat format = MemoryFormat::kContiguous;
};

// What one step leaves.
struct Outcome {
  Tensor y, dx, dweight, dbias, mean, variance;
};

Tensor numbers(const Shape& shape, std::uint64_t seed, double middle) {
  Generator generator(seed);
  return randn(shape, {.dtype = DType::kF64}, generator) + middle;
}

Outcome step(BatchNorm& layer, const Tensor& x, const Tensor& g) {
  for (Tensor& parameter : std::vector<Tensor>{layer.weight, layer.bias}) {
    const NoGradGuard no_grad;
    parameter.copy_(numbers({kChannels}, 7, 1.5));
  }
  const Tensor input = x.detach().requires_grad_();
  const Tensor y = layer(input);
  y.backward(g);
  return {y.detach(),        input.grad(),       layer.weight.grad(),
          layer.bias.grad(), layer.running_mean, layer.running_var};
}

void expect_close(const Tensor& got, const Tensor& wanted, double share, const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  if (got.numel() == 0) return;
  const double largest = abs(wanted.to(DType::kF64)).amax().item<double>();
  const Tensor apart = abs(got.to(DType::kF64) - wanted.to(DType::kF64));
  EXPECT_LE(apart.amax().item<double>(), share * std::max(largest, 1.0)) << what;
}

void check(const SharedCase& c) {
  Shape shape{0, kChannels};
  for (const std::int64_t n : c.sizes) shape[0] += n;
  for (const std::int64_t n : c.places) shape.push_back(n);
  // A mean far from 0 shows whether variances are joined as they should be.
  Tensor x = numbers(shape, 3, 20.0).to(c.dtype);
  if (c.format != MemoryFormat::kContiguous) x = x.contiguous(c.format);
  const Tensor g = numbers(shape, 4, 0.0).to(c.dtype);
  const nn::BatchNormOptions options{.momentum = 0.3, .dtype = c.dtype};
  BatchNorm2d whole_layer(kChannels, options);
  BatchNorm1d flat_layer(kChannels, options);
  BatchNorm& one = shape.size() == 4 ? static_cast<BatchNorm&>(whole_layer) : flat_layer;
  const Outcome whole = step(one, x, g);

  std::vector<Outcome> parts(c.sizes.size());
  run_ranks(static_cast<int>(c.sizes.size()), [&](ProcessGroup& own) {
    const Ref<ProcessGroup> group(&own);
    const auto rank = static_cast<std::size_t>(group->rank());
    std::int64_t first = 0;
    for (std::size_t r = 0; r < rank; ++r) first += c.sizes[r];
    SyncBatchNorm layer(kChannels, group, options);
    parts[rank] = step(layer, x.narrow(0, first, c.sizes[rank]), g.narrow(0, first, c.sizes[rank]));
  });

  const double share = c.dtype == DType::kF64 ? 1e-12 : 2e-6;
  std::vector<Tensor> ys;
  std::vector<Tensor> dxs;
  Tensor dweight = zeros({kChannels}, {.dtype = c.dtype});
  Tensor dbias = zeros({kChannels}, {.dtype = c.dtype});
  for (const Outcome& part : parts) {
    ys.push_back(part.y);
    dxs.push_back(part.dx);
    dweight.add_(part.dweight);
    dbias.add_(part.dbias);
    expect_close(part.mean, whole.mean, share, "running_mean");
    expect_close(part.variance, whole.variance, share, "running_var");
    EXPECT_EQ(values<double>(part.mean), values<double>(parts[0].mean));
    EXPECT_EQ(values<double>(part.variance), values<double>(parts[0].variance));
  }
  expect_close(cat(ys), whole.y, share, "y");
  expect_close(cat(dxs), whole.dx, share, "dx");
  expect_close(dweight, whole.dweight, share, "dweight");
  expect_close(dbias, whole.dbias, share, "dbias");
}

TEST(SyncBatchNorm, IsBatchNormOfTheWholeBatch) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    check({{4, 4}, {3, 2}, dtype});
    check({{1, 6}, {3, 2}, dtype, MemoryFormat::kChannelsLast});
    check({{2, 5, 1}, {7}, dtype});
    check({{1, 1, 1}, {}, dtype});
    check({{3, 0, 2}, {4}, dtype});
  }
}

TEST(SyncBatchNorm, OneValueAChannelIsRefusedOnAllRanks) {
  run_ranks(2, [&](ProcessGroup& own) {
    const Ref<ProcessGroup> group(&own);
    SyncBatchNorm layer(2, group);
    const std::int64_t n = group->rank() == 0 ? 1 : 0;
    EXPECT_ERROR(layer(zeros({n, 2})), kShape,
                 "batch_norm: the input has shape [" + std::to_string(n) +
                     ", 2], wanted more than one value a channel to train on");
  });
}

TEST(SyncBatchNorm, SaysWhichOfItsWantsIsNotMet) {
  struct NoRanks final : BatchRanks {
    Tensor gather(const Tensor& mine) override { return mine; }
    void add_up(const Tensor&) override {}
  };
  EXPECT_ERROR(sync_batch_norm(zeros({4, 2}), Tensor(), Tensor(), Tensor(), Tensor(),
                               make_ref<NoRanks>(), {.training = false}),
               kInvalidArgument,
               "sync_batch_norm: it only trains; in evaluation call batch_norm, which needs no "
               "other rank");
}

// After eval() ranks run alone: rank 1 does not call it.
TEST(SyncBatchNorm, EvaluatesAlone) {
  run_ranks(2, [&](ProcessGroup& own) {
    const Ref<ProcessGroup> group(&own);
    SyncBatchNorm layer(2, group);
    layer.eval();
    if (group->rank() == 0) {
      const Tensor y = layer(full({1, 2}, 3.0));
      EXPECT_NEAR(y.at<float>({0, 1}), 3.0f / std::sqrt(1.0f + 1e-5f), 1e-6);
    }
  });
}

// Two passes, the first within no_sync(): the means of ranks' losses give the gradients of the
// whole batches.
TEST(SyncBatchNorm, TrainsInAConvertedModelWithNoSync) {
  const Tensor x = numbers({2, 6, 3}, 11, 2.0);
  const auto model_of = [] {
    Generator generator(5);
    Sequential model{Linear(3, 4, {.dtype = DType::kF64}), BatchNorm1d(4, {.dtype = DType::kF64}),
                     Linear(4, 2, {.dtype = DType::kF64})};
    const NoGradGuard no_grad;
    for (Tensor p : model.parameters())
      p.copy_(randn(p.sizes(), {.dtype = DType::kF64}, generator));
    return model;
  };
  Sequential whole = model_of();
  for (std::int64_t i : {0, 1}) mean(square(whole(x[i]))).backward();
  run_ranks(2, [&](ProcessGroup& own) {
    const Ref<ProcessGroup> group(&own);
    Sequential model = model_of();
    convert_sync_batchnorm(model, group);
    EXPECT_EQ(model.str(),
              "Sequential(\n"
              "  (0): Linear(in_features=3, out_features=4, bias=True)\n"
              "  (1): SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, "
              "track_running_stats=True)\n"
              "  (2): Linear(in_features=4, out_features=2, bias=True)\n"
              ")");
    DistributedDataParallel ddp(model, group);
    const auto pass = [&](std::int64_t i) {
      mean(square(ddp(x[i].narrow(0, 3 * group->rank(), 3)))).backward();
    };
    {
      const auto quiet = ddp.no_sync();
      pass(0);
    }
    pass(1);
    for (std::size_t p = 0; p < model.parameters().size(); ++p) {
      expect_close(model.parameters()[p].grad(), whole.parameters()[p].grad(), 1e-12, "gradient");
    }
  });
  EXPECT_ERROR(convert_sync_batchnorm(whole, nullptr), kInvalidArgument,
               "SyncBatchNorm: the group is null");
}

}  // namespace
}  // namespace dl::nn::parallel
