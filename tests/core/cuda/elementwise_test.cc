// Element-wise operations, copies, filling, gathering and random numbers on a GPU against the CPU.
#include <limits>

#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/index/index.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "tests/core/cuda/on_device.h"
#include "tests/core/ops/rows.h"

namespace dl::testing {
namespace {

constexpr DType kIntegers[] = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                               DType::kI32, DType::kU32, DType::kI64, DType::kU64};

class CudaElementwise : public OnDevice {};

// Sizes around the width of a load and of a block, and none.
const std::vector<Shape> kShapes = {{0}, {}, {1}, {7}, {8}, {33, 31}, {2, 3, 5, 129}, {70001}};

TEST_F(CudaElementwise, EveryRowOfOneElement) {
  for (const UnaryFacts& row : kUnaryFacts) {
    const auto f = [&](const Inputs& in) { return apply(row, in[0]); };
    const std::string name(row.name);
    for (const Shape& shape : kShapes) compare(name, f, {numbers_for(row, shape)});
    compare(name + ", transposed", [&](const Inputs& in) { return apply(row, in[0].t()); },
            {numbers_for(row, {33, 31})});
    if (!computes_integers(row.takes)) continue;
    for (const DType dtype : kIntegers) {
      const Tensor here = arange(-120, 137).to(dtype);
      expect_same(apply(row, here.to(kGPU)), apply(row, here),
                  name + " of " + std::string(name_of(dtype)));
    }
  }
}

TEST_F(CudaElementwise, BinaryOperations) {
  for (const Shape& shape : kShapes) {
    const Tensor a = numbers(shape, 1);
    const Tensor b = positive(shape, 2);
    compare("add", [](const Inputs& in) { return add(in[0], in[1]); }, {a, b});
    compare("sub", [](const Inputs& in) { return sub(in[0], in[1]); }, {a, b});
    compare("mul", [](const Inputs& in) { return mul(in[0], in[1]); }, {a, b});
    compare("div", [](const Inputs& in) { return div(in[0], in[1]); }, {a, b});
    compare("minimum", [](const Inputs& in) { return minimum(in[0], in[1]); }, {a, b});
    compare("maximum", [](const Inputs& in) { return maximum(in[0], in[1]); }, {a, b});
    compare("add a number", [](const Inputs& in) { return add(in[0], 2.5); }, {a});
    compare("a number minus", [](const Inputs& in) { return 1.0 - in[0]; }, {a});
    compare("mul a number", [](const Inputs& in) { return mul(in[0], -0.3); }, {a});
  }
}

TEST_F(CudaElementwise, NumbersBesideShortDtypesAreNotRounded) {
  for (const Shape& shape : kShapes) {
    const Tensor x = full(shape, 0.25, {.dtype = DType::kF16, .device = kGPU});
    expect_close(x * 131072.0, full(shape, 32768, {.dtype = DType::kF16}), 0, "f16 times 131072");
    expect_close(4096.0 / x * 2.0, full(shape, 32768, {.dtype = DType::kF16}), 0, "4096 over f16");
    expect_close(70000.0 - x * 131072.0, full(shape, 37232, {.dtype = DType::kF16}), 0,
                 "70000 minus f16");
    Tensor y = full(shape, 256, {.dtype = DType::kBF16, .device = kGPU});
    expect_close(y.add_(1.003), full(shape, 258, {.dtype = DType::kBF16}), 0, "bf16 and 1.003");
  }
}

TEST_F(CudaElementwise, AnyStridesAndBroadcasting) {
  const auto product = [](const Inputs& in) { return mul(in[0], in[1]); };
  compare("outer", product, {numbers({37, 1}), numbers({41}, 2)}, 41);
  compare("middle", product, {numbers({3, 1, 5}), numbers({4, 1}, 2)}, 20);
  compare("one element", product, {numbers({33, 65}), numbers({1}, 2)}, 2145);
  compare("transposed", [](const Inputs& in) { return add(in[0].t(), in[1]); },
          {numbers({33, 65}), numbers({65, 33}, 2)});
  compare("sliced", [](const Inputs& in) { return tanh(in[0].slice(1, 1, 60, 3)); },
          {numbers({9, 61})});
  compare("not aligned", [](const Inputs& in) { return add(in[0].narrow(0, 1, 1000), in[1]); },
          {numbers({1001}), numbers({1000}, 2)});
  compare("channels-last",
          [](const Inputs& in) { return relu(in[0].contiguous(MemoryFormat::kChannelsLast)); },
          {numbers({2, 5, 7, 3})});
}

TEST_F(CudaElementwise, InPlace) {
  const Tensor a = numbers({33, 7});
  Tensor there = a.to(kGPU).clone();
  there.add_(a.to(kGPU), 2).mul_(0.5).sub_(a.to(kGPU));
  expect_close(there, mul(a, 0.5), tolerance(DType::kF32), "add_, mul_, sub_");
}

TEST_F(CudaElementwise, AddScalesInThePromotedDtype) {
  const Tensor u8 = tensor({200, 100}, {.dtype = DType::kU8}).to(kGPU);
  expect_same(zeros({2}, {.device = kGPU}).add_(u8, 2), tensor({400.0, 200.0}), "into float32");
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  expect_same(tensor({3}).to(kGPU).add_(tensor({1}).to(kGPU), odd), tensor({odd + 3}), "int64");
  for (const Shape& shape : kShapes) {
    Tensor x = full(shape, -16384, {.dtype = DType::kF16, .device = kGPU});
    x.add_(full(shape, 0.25, {.dtype = DType::kF16, .device = kGPU}), 131072);
    expect_same(x, full(shape, 16384, {.dtype = DType::kF16}), "float16, rounded once");
  }
}

TEST_F(CudaElementwise, MinimumAndMaximumShareGradientsAsOnTheCPU) {
  const float nan = std::nanf("");
  for (const bool of_minimum : {true, false}) {
    Tensor grads[2][2];
    for (const bool there : {false, true}) {
      const Device device = there ? kGPU : Device{};
      const Tensor a = tensor({nan, 1.0F, nan, 2.0F, 3.0F, 1.0F}).to(device).requires_grad_();
      const Tensor b = tensor({1.0F, nan, nan, 2.0F, 1.0F, 3.0F}).to(device).requires_grad_();
      const Tensor incoming = tensor({1.0F, 2.0F, 3.0F, 4.0F, INFINITY, 6.0F}).to(device);
      (of_minimum ? minimum(a, b) : maximum(a, b)).backward(incoming);
      grads[there][0] = a.grad();
      grads[there][1] = b.grad();
    }
    for (const int i : {0, 1}) expect_same(grads[1][i], grads[0][i], "gradient");
  }
  const Tensor w = tensor({1.0F, 2.0F, 2.0F}).to(kGPU).requires_grad_();
  max(w).backward(full({}, INFINITY, {.device = kGPU}));
  expect_same(w.grad(), tensor({0.0F, INFINITY, INFINITY}), "max of all");
}

TEST_F(CudaElementwise, NumbersOutOfAnIntegersRangeAreRefused) {
  const TensorOptions u8{.dtype = DType::kU8, .device = kGPU};
  EXPECT_THROW(full({2}, 300, u8), Error);
  EXPECT_THROW(full({2}, NAN, u8), Error);
  EXPECT_THROW(zeros({2}, u8).fill_(-1.5), Error);
  expect_same(zeros({2}, u8) + 258, full({2}, 2, {.dtype = DType::kU8}), "a sum wraps around");
  EXPECT_THROW(arange(0, 301, 10, u8), Error);
  expect_same(full({2}, -1, u8), full({2}, 255, {.dtype = DType::kU8}), "-1");
  const std::uint64_t top = std::uint64_t{1} << 63;
  expect_same(full({2}, top, {.dtype = DType::kF32, .device = kGPU}),
              full({2}, 0x1p63, {.dtype = DType::kF32}), "a large unsigned number");
}

TEST_F(CudaElementwise, EvenlySpacedNumbersHaveTheCPUsBits) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64}) {
    for (const std::int64_t steps : {0, 1, 2, 3, 10, 101}) {
      expect_same(linspace(-0.7, 3.3, steps, {.dtype = dtype, .device = kGPU}),
                  linspace(-0.7, 3.3, steps, {.dtype = dtype}), std::to_string(steps));
    }
  }
  expect_same(linspace(5, -2, 7, {.device = kGPU}), linspace(5, -2, 7), "falling");
}

TEST_F(CudaElementwise, RepeatsSlicesAsTheCPU) {
  const Tensor x = numbers({5, 3});
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{1, 0, 3, 2, 0}, {0, 0, 0, 0, 0}, {2}, {0, 4, 0, 0, 1}}) {
    const Tensor repeats = tensor(counts);
    expect_same(repeat_interleave(x.to(kGPU), repeats.to(kGPU), 0),
                repeat_interleave(x, repeats, 0), "repeated");
  }
  const Tensor negative = tensor({1, 2, -1, 0, 0}).to(kGPU);
  EXPECT_THROW(repeat_interleave(x.to(kGPU), negative, 0), Error);
}

TEST_F(CudaElementwise, NaNAndInfinityAsOnTheCPU) {
  const float nan = std::nanf("");
  const float inf = INFINITY;
  const Tensor a = tensor({nan, 1.0F, -inf, inf, 0.0F, -0.0F, nan});
  const Tensor b = tensor({1.0F, nan, 2.0F, inf, -1.0F, 0.0F, nan});
  expect_same(minimum(a.to(kGPU), b.to(kGPU)), minimum(a, b), "minimum");
  expect_same(maximum(a.to(kGPU), b.to(kGPU)), maximum(a, b), "maximum");
  expect_same(relu(a.to(kGPU)), relu(a), "relu");
  expect_same(eq(a.to(kGPU), b.to(kGPU)), eq(a, b), "eq");
}

TEST_F(CudaElementwise, IntegersWrapAndCompareAsOnTheCPU) {
  for (const DType dtype : kIntegers) {
    const std::string name(name_of(dtype));
    const Tensor a = arange(-120, 137).to(dtype);
    const Tensor b = arange(137, -120, -1).to(dtype);
    const Tensor x = a.to(kGPU);
    const Tensor y = b.to(kGPU);
    expect_same(add(x, y), add(a, b), "add of " + name);
    expect_same(sub(x, y), sub(a, b), "sub of " + name);
    expect_same(mul(x, y), mul(a, b), "mul of " + name);
    expect_same(minimum(x, y), minimum(a, b), "minimum of " + name);
    expect_same(maximum(x, y), maximum(a, b), "maximum of " + name);
    expect_same(neg(x), neg(a), "neg of " + name);
    expect_same(relu(x), relu(a), "relu of " + name);
    expect_same(lt(x, y), lt(a, b), "lt of " + name);
    expect_same(le(x, y), le(a, b), "le of " + name);
    expect_same(ne(x, y), ne(a, b), "ne of " + name);
    expect_same(add(x, 3), add(a, 3), "add a number to " + name);
  }
}

TEST_F(CudaElementwise, ConvertsBetweenAllDTypes) {
  const Tensor numbers = arange(0, 101).to(DType::kF64);
  std::vector<DType> all(std::begin(kIntegers), std::end(kIntegers));
  all.insert(all.end(), std::begin(kFloats), std::end(kFloats));
  all.push_back(DType::kBool);
  for (const DType from : all) {
    const Tensor here = numbers.to(from);
    for (const DType to : all) {
      const std::string name = std::string(name_of(from)) + " to " + std::string(name_of(to));
      expect_same(here.to(kGPU).to(to), here.to(to), name);
      expect_same(here.view({101, 1}).expand({101, 3}).to(kGPU).t().to(to),
                  here.view({101, 1}).expand({101, 3}).t().to(to), name + ", strided");
    }
  }
  const Tensor negative = tensor({-1.0, -1.5, 2.9});
  for (const DType to : {DType::kU8, DType::kI8, DType::kI32, DType::kI64}) {
    expect_same(negative.to(kGPU).to(to), negative.to(to), "negative floats");
  }
}

TEST_F(CudaElementwise, FillsAndCopiesAnyStrides) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kF64, DType::kU8, DType::kBool}) {
    Tensor here = zeros({6, 10}, {.dtype = dtype});
    Tensor there = here.to(kGPU).clone();
    for (Tensor* t : {&here, &there}) {
      t->slice(1, 1, 10, 4).fill_(1);
      t->slice(0, 0, 6, 2).slice(1, 0, 3).copy_(ones({3, 3}, {.device = t->device()}));
    }
    expect_same(there, here, std::string(name_of(dtype)));
    expect_same(there.t().contiguous(), here.t().contiguous(), "transposed");
    expect_same(cat({there, there}, 1), cat({here, here}, 1), "cat");
  }
}

TEST_F(CudaElementwise, IndexSelect) {
  const Tensor index = tensor({3, 0, 3, 2, 3});
  for (const std::int64_t dim : {0, 1, 2}) {
    compare(
        "index_select", [dim](const Inputs& in) { return index_select(in[0], dim, in[1]); },
        {numbers({5, 4, 7}), index}, 4);
  }
  for (const DType dtype : {DType::kU8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    const Tensor here = arange(0, 12).to(dtype).view({4, 3});
    expect_same(index_select(here.to(kGPU), 0, index.to(kGPU)), index_select(here, 0, index),
                std::string(name_of(dtype)));
  }
}

TEST_F(CudaElementwise, ABadIndexIsNamedAtTheNextWait) {
  const Tensor bad = index_select(numbers({5, 4}).to(kGPU), 0, tensor({0, 7}).to(kGPU));
  EXPECT_THROW(bad.to(Device{}), Error);
  const Tensor good = index_select(numbers({5, 4}).to(kGPU), 0, tensor({0, 4}).to(kGPU));
  EXPECT_NO_THROW(good.to(Device{}));  // what was said is not said again
}

TEST_F(CudaElementwise, MaskedDropout) {
  const Tensor mask = lt(numbers({33, 7}, 5), 0.3);
  compare("dropout_with_mask",
          [](const Inputs& in) { return dropout_with_mask(in[0], in[1], 0.25); },
          {numbers({33, 7}), mask});
}

class CudaRandom : public OnDevice {};

TEST_F(CudaRandom, DrawsWhatTheCPUDraws) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t count : {1, 7, 1001, 70001}) {
      Generator here(17);
      Generator there(17);
      const TensorOptions on_gpu{.dtype = dtype, .device = kGPU};
      const std::string name(name_of(dtype));
      expect_same(rand({count}, on_gpu, there),
                  detail::philox_rand({count}, {.dtype = dtype}, here), "rand in " + name);
      expect_close(randn({count}, on_gpu, there),
                   detail::philox_randn({count}, {.dtype = dtype}, here), tolerance(dtype),
                   "randn in " + name);
      const Tensor x = numbers({count}).to(dtype);
      expect_same(detail::philox_dropout(x.to(kGPU), 0.3, there),
                  detail::philox_dropout(x, 0.3, here), "dropout in " + name);
    }
  }
}

TEST_F(CudaRandom, DrawsTheCPUsIntegersPermutationsAndFlips) {
  for (const std::int64_t count : {0, 1, 2, 7, 1001, 300007}) {
    Generator here(18);
    Generator there(18);
    for (const DType dtype : {DType::kI64, DType::kI32, DType::kU8, DType::kF32, DType::kF64}) {
      const Tensor wanted = empty({count}, {.dtype = dtype});
      detail::philox_fill_randint(wanted, 3, 200, here);
      expect_same(randint(3, 200, {count}, {.dtype = dtype, .device = kGPU}, there), wanted,
                  "randint in " + std::string(name_of(dtype)));
    }
    expect_same(randperm(count, {.device = kGPU}, there),
                detail::philox_randperm(count, Device{}, here), "randperm");
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      Generator probabilities(1);
      const Tensor p = rand({count}, {.dtype = dtype}, probabilities);
      expect_same(bernoulli(p.to(kGPU), there), detail::philox_bernoulli(p, here),
                  "bernoulli in " + std::string(name_of(dtype)));
    }
  }
  Generator wide(1);
  Generator wide_here(1);
  const auto low = std::numeric_limits<std::int64_t>::min();
  const auto high = std::numeric_limits<std::int64_t>::max();
  const Tensor wanted = empty({1001}, {.dtype = DType::kI64});
  detail::philox_fill_randint(wanted, low, high, wide_here);
  EXPECT_EQ(values<std::int64_t>(randint(low, high, {1001}, {.device = kGPU}, wide).to(Device{})),
            values<std::int64_t>(wanted));
}

TEST_F(CudaRandom, ABadProbabilityIsNamedAtTheNextWait) {
  const Tensor bad = bernoulli(tensor({0.5F, 0.1F, 1.5F}).to(kGPU));
  EXPECT_ERROR(bad.to(Device{}), kInvalidArgument,
               "bernoulli: element 2 is 1.5, wanted a probability of [0, 1] (found by the device, "
               "some operations ago)");
}

TEST_F(CudaRandom, DropoutsGradientIsOfTheSameElements) {
  compare("dropout",
          [](const Inputs& in) {
            Generator generator(4);
            return detail::philox_dropout(in[0], 0.4, generator);
          },
          {numbers({1001})});
}

}  // namespace
}  // namespace dl::testing
