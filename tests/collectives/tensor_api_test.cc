#include "collectives/tensor_api.h"

#include <gtest/gtest.h>

#include "core/tensor/factories.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

Tensor numbers(std::int64_t count, float first) {
  Tensor x = empty({count}, {.dtype = DType::kF32});
  auto* const data = static_cast<float*>(x.data_ptr());
  for (std::int64_t i = 0; i < count; ++i) data[i] = first + static_cast<float>(i);
  return x;
}

float at(const Tensor& x, std::int64_t i) {
  return static_cast<const float*>(x.data_ptr())[i];
}

TEST(TensorCollectives, KeepTheirTensorsUntilTheyAreOver) {
  run_ranks(2, [](ProcessGroup& group) {
    Ref<Work> work;
    {
      const Tensor x = numbers(100'000, 0);
      work = all_reduce(group, x, {.op = ReduceOp::kAvg});
    }
    work->wait();
    const Tensor y = numbers(1000, static_cast<float>(group.rank()));
    all_reduce(group, y)->wait();
    EXPECT_EQ(at(y, 10), 21);
  });
}

TEST(TensorCollectives, MarkWhatTheyWriteAsChanged) {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor x = numbers(10, static_cast<float>(group.rank()));
    const std::uint32_t before = x.version();
    broadcast(group, x, {.root = 1})->wait();
    EXPECT_EQ(at(x, 0), 1);
    EXPECT_EQ(x.version() != before, group.rank() == 0);
  });
}

TEST(TensorCollectives, GatherAndScatter) {
  run_ranks(3, [](ProcessGroup& group) {
    const Tensor part = numbers(4, static_cast<float>(10 * group.rank()));
    const Tensor whole = numbers(12, 0);
    all_gather(group, whole, part)->wait();
    EXPECT_EQ(at(whole, 5), 11);
    reduce_scatter(group, part, whole)->wait();
    EXPECT_EQ(at(part, 1), 3 * (static_cast<float>(10 * group.rank()) + 1));
  });
}

TEST(TensorCollectives, RefuseWhatDoesNotFit) {
  run_ranks(2, [](ProcessGroup& group) {
    EXPECT_EQ(thrown_by([&] { all_gather(group, numbers(5, 0), numbers(2, 0)); }).text,
              "all_gather: output has 5 elements, wanted 4 for 2 ranks with 2 each");
    EXPECT_EQ(thrown_by([&] { all_reduce(group, Tensor()); }).kind, ErrorKind::kInvalidArgument);
    const Tensor square = empty({3, 3}, {.dtype = DType::kF32});
    EXPECT_EQ(thrown_by([&] { all_reduce(group, square.transpose(0, 1)); }).kind,
              ErrorKind::kInvalidArgument);
  });
}

}  // namespace
}  // namespace dl::collectives
