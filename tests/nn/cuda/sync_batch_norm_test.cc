// SyncBatchNorm of ranks that share a GPU, beside BatchNorm of the whole batch on the CPU.
#include "nn/parallel/sync_batch_norm.h"

#include "collectives/device/device_group.h"
#include "core/ops/index/index.h"
#include "tests/collectives/ranks.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

using collectives::ProcessGroup;

class CudaSyncBatchNorm : public OnDevice {};

struct Step {
  Tensor y, dx, dweight, dbias, mean, variance;
};

Step step(nn::BatchNorm& layer, const Tensor& x, const Tensor& g) {
  layer.to(x.device());
  const Tensor input = x.detach().requires_grad_();
  const Tensor y = layer(input);
  y.backward(g);
  return {y.detach(),        input.grad(),       layer.weight.grad(),
          layer.bias.grad(), layer.running_mean, layer.running_var};
}

void expect_steps_of_one_batch(const std::vector<std::int64_t>& sizes, DType dtype,
                               MemoryFormat format) {
  constexpr std::int64_t kChannels = 5;
  Shape shape{0, kChannels, 3, 2};
  for (const std::int64_t size : sizes) shape[0] += size;
  const Tensor x = add(numbers(shape), 20.0).to(dtype).contiguous(format);
  const Tensor g = numbers(shape, 2).to(dtype);
  nn::BatchNorm2d whole_layer(kChannels, {.dtype = DType::kF64});
  const Step whole = step(whole_layer, x.to(DType::kF64), g.to(DType::kF64));

  std::vector<Step> steps(sizes.size());
  collectives::testing::run_ranks(static_cast<int>(sizes.size()), [&](ProcessGroup& own) {
    const auto group =
        collectives::make_device_group(Ref<ProcessGroup>(&own), {.timeout = std::chrono::hours(1)});
    const auto rank = static_cast<std::size_t>(group->rank());
    std::int64_t first = 0;
    for (std::size_t r = 0; r < rank; ++r) first += sizes[r];
    const auto mine = [&](const Tensor& of_all) {
      return of_all.narrow(0, first, sizes[rank]).contiguous(format).to(kGPU);
    };
    nn::parallel::SyncBatchNorm layer(kChannels, group);
    const Step got = step(layer, mine(x), mine(g));
    steps[rank] = {got.y.cpu(),     got.dx.cpu(),   got.dweight.cpu(),
                   got.dbias.cpu(), got.mean.cpu(), got.variance.cpu()};
  });

  const std::string name = std::string(name_of(dtype)) + " of " + std::to_string(sizes.size());
  const double tolerated = tolerance(dtype, 200, {.times = 4});
  std::vector<Tensor> ys;
  std::vector<Tensor> dxs;
  Tensor dweight = zeros({kChannels});
  Tensor dbias = zeros({kChannels});
  for (const Step& part : steps) {
    ys.push_back(part.y);
    dxs.push_back(part.dx);
    dweight.add_(part.dweight);
    dbias.add_(part.dbias);
    expect_close(part.mean, whole.mean, tolerance(DType::kF32, 1), name + ", running_mean");
    expect_close(part.variance, whole.variance, tolerance(DType::kF32, 1), name + ", running_var");
    expect_same(part.mean, steps[0].mean, name + ", running_mean of ranks");
    expect_same(part.variance, steps[0].variance, name + ", running_var of ranks");
  }
  expect_close(cat(ys), whole.y, tolerated, name + ", y");
  expect_close(cat(dxs), whole.dx, tolerated, name + ", dx");
  expect_close(dweight, whole.dweight, tolerated, name + ", dweight");
  expect_close(dbias, whole.dbias, tolerated, name + ", dbias");
}

TEST_F(CudaSyncBatchNorm, IsBatchNormOfTheWholeBatch) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    expect_steps_of_one_batch({4, 2}, dtype, MemoryFormat::kContiguous);
    expect_steps_of_one_batch({1, 6}, dtype, MemoryFormat::kChannelsLast);
  }
  expect_steps_of_one_batch({3, 0, 2}, DType::kF32, MemoryFormat::kContiguous);
}

}  // namespace
}  // namespace dl::testing
