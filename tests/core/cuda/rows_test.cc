// Kernels of contiguous rows, which access 16 bytes at once, on a GPU against the CPU: rows of any
// length that begin at any element.
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/softmax/softmax.h"
#include "core/tensor/factories.h"
#include "tests/core/cuda/on_device.h"

namespace dl::testing {
namespace {

class CudaRows : public OnDevice {};

struct Rows {
  std::int64_t count, size;
};
// About the packs of 2 to 16 elements, of one lane and of many.
const std::vector<Rows> kRows = {{1, 1},  {5, 2},  {5, 3},   {5, 7},   {4, 8},    {3, 9},   {3, 15},
                                 {2, 16}, {3, 17}, {2, 100}, {2, 255}, {2, 2056}, {1, 4099}};
// The elements at which two operands begin.
constexpr std::pair<std::int64_t, std::int64_t> kBegins[] = {
    {0, 0}, {1, 1}, {3, 3}, {1, 0}, {0, 1}};

std::int64_t elements(const Rows& rows) {
  return rows.count * rows.size;
}
// The rows behind the first `begin` elements of memory.
Tensor behind(const Tensor& memory, std::int64_t begin, const Rows& rows) {
  return memory.narrow(0, begin, elements(rows)).view({rows.count, rows.size});
}

using OfRows = std::function<Tensor(const Tensor& x, const Tensor& y)>;

void compare_rows(const std::string& what, const OfRows& f, double terms = 100,
                  Rounding rounding = {}, std::int64_t least = 1) {
  for (const Rows& rows : kRows) {
    if (rows.size < least) continue;
    for (const auto& [begin, other] : kBegins) {
      const std::int64_t x = begin;
      const std::int64_t y = other;
      compare(
          what + " of " + std::to_string(rows.count) + " x " + std::to_string(rows.size) +
              " behind " + std::to_string(x) + " and " + std::to_string(y),
          [&](const Inputs& in) { return f(behind(in[0], x, rows), behind(in[1], y, rows)); },
          {numbers({x + elements(rows)}), numbers({y + elements(rows)}, 2)}, terms, kAllFloats,
          rounding);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaRows, Softmax) {
  compare_rows("softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 1); });
  compare_rows("log_softmax", [](const Tensor& x, const Tensor&) { return log_softmax(x, 1); });
}

TEST_F(CudaRows, Losses) {
  compare_rows("cross_entropy", [](const Tensor& x, const Tensor&) {
    std::vector<std::int64_t> targets(static_cast<std::size_t>(x.sizes()[0]));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i] = static_cast<std::int64_t>(5 * i) % x.sizes()[1];
    }
    return cross_entropy(x, tensor(targets).to(x.device()));
  });
  compare_rows("mse_loss", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); });
}

// The fewest elements of a row. With two, a gradient is a difference of nearly equal numbers.
constexpr std::int64_t kLeastOfNorm = 7;

TEST_F(CudaRows, Normalised) {
  const auto weights = [](const Tensor& y) { return y.flatten().narrow(0, 0, y.sizes()[1]); };
  compare_rows(
      "layer_norm",
      [&](const Tensor& x, const Tensor& y) {
        return layer_norm(x, {x.sizes()[1]}, weights(y), weights(y));
      },
      5000, kOfNorm, kLeastOfNorm);
  compare_rows(
      "rms_norm",
      [&](const Tensor& x, const Tensor& y) {
        return rms_norm(x, {x.sizes()[1]}, weights(y), 1e-5);
      },
      5000, kOfNorm, kLeastOfNorm);
  compare_rows(
      "group_norm",
      [](const Tensor& x, const Tensor&) { return group_norm(x.unsqueeze(0), 1, {}, {}); }, 5000,
      kOfNorm, kLeastOfNorm);
}

TEST_F(CudaRows, Batches) {
  const auto trained = [](const Tensor& x, const Tensor& weight) {
    return batch_norm(x, {}, {}, weight, {}, {.training = true});
  };
  compare_rows(
      "batch_norm of a sample",
      [&](const Tensor& x, const Tensor& y) {
        return trained(x.unsqueeze(0), y.flatten().narrow(0, 0, x.sizes()[0]));
      },
      5000, kOfNorm, kLeastOfNorm);
  compare_rows(
      "batch_norm of a channel",
      [&](const Tensor& x, const Tensor&) { return trained(x.unsqueeze(1), {}); }, 5000, kOfNorm,
      kLeastOfNorm);
  compare_rows(
      "batch_norm of neighbouring channels",
      [&](const Tensor& x, const Tensor&) {
        return trained(x.view({x.sizes()[1], x.sizes()[0]}), {});
      },
      5000, kOfNorm, kLeastOfNorm);
  compare_rows(
      "batch_norm of short planes",
      [&](const Tensor& x, const Tensor&) {
        const std::int64_t channels = x.sizes()[1] % 3 == 0 ? 3 : 1;
        return trained(x.view({x.sizes()[0], channels, x.sizes()[1] / channels}), {});
      },
      5000, kOfNorm, kLeastOfNorm);
}

TEST_F(CudaRows, Reduced) {
  compare_rows("sum", [](const Tensor& x, const Tensor&) { return sum(x, {1}); }, 5000);
  compare_rows(
      "std", [](const Tensor& x, const Tensor&) { return dl::std(x, {1}); }, 5000, kOfNorm,
      kLeastOfNorm);
  compare_rows("max", [](const Tensor& x, const Tensor&) { return max(x, 1).first; });
}

TEST_F(CudaRows, IntegersReduced) {
  for (const DType dtype :
       {DType::kI8, DType::kU8, DType::kBool, DType::kI16, DType::kI32, DType::kI64}) {
    for (const Rows& rows : kRows) {
      for (const auto& [begin, other] : kBegins) {
        const Tensor memory = (numbers({begin + elements(rows)}) * 9.0).abs().to(dtype);
        const Tensor here = behind(memory, begin, rows);
        const Tensor there = behind(memory.to(kGPU), begin, rows);
        const std::string name(name_of(dtype));
        expect_same(sum(there, {1}), sum(here, {1}), "sum of " + name);
        expect_same(argmax(there, 1), argmax(here, 1), "argmax of " + name);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// As many parts as a reduction has at most. The emulated device refuses to join them in one thread.
TEST_F(CudaRows, Long) {
  const Tensor x = numbers({4'300'003});
  const Tensor total = sum(x.to(kGPU));
  EXPECT_NEAR(total.to(Device{}).item<float>(), sum(x.to(DType::kF64)).item<double>(), 0.01);
  const Tensor wanted = batch_norm(x.view({1, 1, -1}), {}, {}, {}, {}, {.training = true});
  const Tensor got = batch_norm(x.to(kGPU).view({1, 1, -1}), {}, {}, {}, {}, {.training = true});
  expect_close(got, wanted, tolerance(DType::kF32, 1000, kOfNorm), "batch_norm");
}

TEST_F(CudaRows, Drawn) {
  for (const std::int64_t count : {1, 2, 3, 7, 8, 9, 17, 70001}) {
    for (const auto& [from, to] : kBegins) {
      const std::string name = std::to_string(count) + " behind " + std::to_string(to) + " in ";
      Generator here(17);
      Generator there(17);
      const auto place = [&, begin = to](DType dtype) {
        return zeros({begin + count + 1}, {.dtype = dtype, .device = kGPU});
      };
      for (const DType dtype : kFloats) {
        const std::string in = name + std::string(name_of(dtype));
        const Tensor memory = place(dtype);
        memory.narrow(0, to, count).uniform_(0, 1, there);
        const Tensor uniform = detail::philox_rand({count}, {.dtype = dtype}, here);
        expect_same(memory.narrow(0, to, count), uniform, "uniform_ of " + in);
        EXPECT_EQ(memory.narrow(0, to + count, 1).to(Device{}).to(DType::kF64).item<double>(), 0);
        memory.narrow(0, to, count).normal_(0, 1, there);
        expect_close(memory.narrow(0, to, count),
                     detail::philox_randn({count}, {.dtype = dtype}, here), tolerance(dtype),
                     "normal_ of " + in);
        const Tensor x = numbers({from + count}).to(dtype);
        expect_same(detail::philox_dropout(x.to(kGPU).narrow(0, from, count), 0.3, there),
                    detail::philox_dropout(x.narrow(0, from, count), 0.3, here),
                    "dropout of " + in);
        if (::testing::Test::HasFatalFailure()) return;
      }
      for (const DType dtype : {DType::kI64, DType::kI32, DType::kU8, DType::kF32, DType::kF64}) {
        const Tensor memory = place(dtype);
        const Tensor wanted = empty({count}, {.dtype = dtype});
        detail::philox_fill_randint(memory.narrow(0, to, count), 3, 200, there);
        detail::philox_fill_randint(wanted, 3, 200, here);
        expect_same(memory.narrow(0, to, count), wanted,
                    "randint of " + name + std::string(name_of(dtype)));
      }
      for (const DType dtype : {DType::kF32, DType::kF64}) {
        const Tensor p = abs(sin(numbers({from + count}))).to(dtype);
        expect_same(bernoulli(p.to(kGPU).narrow(0, from, count), there),
                    detail::philox_bernoulli(p.narrow(0, from, count), here),
                    "bernoulli of " + name + std::string(name_of(dtype)));
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace dl::testing
