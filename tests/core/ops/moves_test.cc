// Elements that are moved and not computed: choices and indexed reads and writes, of every width,
// length and layout, beside loops of one element.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/indexing.h"
#include "core/ops/logic/logic.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl::testing {
namespace {

using Numbers = std::vector<double>;

constexpr DType kWidths[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};

// Whole numbers that each dtype holds.
Tensor numbers(std::int64_t count, std::int64_t factor, DType dtype) {
  return remainder(arange(count).mul(factor).add(3), 101).to(dtype);
}
Tensor mask_of(std::int64_t count) {
  return remainder(arange(count).mul(7), 5).lt(2);
}

void expect_chosen(const Tensor& condition, const Tensor& a, const Tensor& b,
                   const std::string& what) {
  const Tensor got = where(condition, a, b);
  const std::vector<bool> which = values<bool>(condition.expand(got.sizes()));
  const Numbers yes = values<double>(a.expand(got.sizes()));
  const Numbers no = values<double>(b.expand(got.sizes()));
  const Numbers result = values<double>(got);
  EXPECT_EQ(got.dtype(), a.dtype()) << what;
  for (std::size_t i = 0; i < result.size(); ++i) {
    ASSERT_EQ(result[i], which[i] ? yes[i] : no[i]) << what << " [" << i << "]";
  }
}

TEST(Where, ChoosesElementsOfEveryWidthAndLength) {
  for (const DType dtype : kWidths) {
    for (const std::int64_t count : {1, 3, 15, 16, 17, 63, 64, 65, 200}) {
      const std::string what = std::string(name_of(dtype)) + " of " + std::to_string(count);
      const Tensor a = numbers(count, 13, dtype);
      const Tensor b = numbers(count, 29, dtype);
      const Tensor one = numbers(1, 1, dtype);
      expect_chosen(mask_of(count), a, b, what);
      expect_chosen(mask_of(count), one, b, what + ", one value left");
      expect_chosen(mask_of(count), a, one, what + ", one value right");
      expect_chosen(mask_of(count), one.add(1).to(dtype), one, what + ", one value each");
      expect_chosen(mask_of(1), a, b, what + ", one condition");
    }
  }
}

TEST(Where, ChoosesInAnyLayout) {
  for (const DType dtype : kWidths) {
    const Tensor a = numbers(12 * 35, 13, dtype).view({12, 35});
    const Tensor b = numbers(12 * 35, 29, dtype).view({12, 35});
    const Tensor mask = mask_of(12 * 35).view({12, 35});
    expect_chosen(mask.t(), a.t(), b.t(), "transposed");
    expect_chosen(mask, a.t().contiguous().t(), b, "one transposed");
    expect_chosen(mask.slice(1, 1, 35, 3), a.slice(1, 0, 34, 3), b.slice(1, 1, 35, 3), "sliced");
    expect_chosen(mask, a[3], b, "a row");
    expect_chosen(mask, a, b.narrow(1, 4, 1), "a column");
    expect_chosen(mask.narrow(1, 0, 1), a, b, "a column of conditions");
    expect_chosen(mask.slice(0, 0, 0), a.slice(0, 0, 0), b.slice(0, 0, 0), "empty");
  }
}

// The first of two is named, wherever it stands; nothing is written into what is there before.
TEST(Indices, OutOfRangeAreFoundAtEachPlace) {
  for (const std::int64_t count : {1, 2, 7, 16, 33, 70}) {
    const Tensor x = numbers(count, 13, DType::kF32);
    for (std::int64_t at = 0; at < count; ++at) {
      for (const std::int64_t stray : {count, std::int64_t{-1}, std::int64_t{1} << 62}) {
        Tensor index = zeros({count}, {.dtype = DType::kI64});
        index.data<std::int64_t>()[at] = stray;
        index.data<std::int64_t>()[count - 1] = at == count - 1 ? stray : count + 5;
        const std::string text = ": index " + std::to_string(stray) +
                                 " is out of range for dimension 0 of size " +
                                 std::to_string(count);
        EXPECT_ERROR(gather(x, 0, index), kIndex, "gather" + text);
        Tensor target = x.clone();
        EXPECT_ERROR(scatter_(target, 0, index, x), kIndex, "scatter_" + text);
        EXPECT_ERROR(scatter_add_(target, 0, index, x), kIndex, "scatter_add_" + text);
        EXPECT_EQ(values<double>(target), values<double>(x));
      }
    }
  }
}

TEST(Indices, ReadAndWriteLinesOfEveryWidthAndLength) {
  for (const DType dtype : kWidths) {
    for (const std::int64_t count : {1, 2, 3, 4, 5, 8, 11, 50}) {
      const Tensor x = numbers(3 * count, 13, dtype).view({3, count});
      const Tensor index = remainder(arange(3 * count).mul(7919), count).view({3, count});
      const std::vector<std::int64_t> places = values<std::int64_t>(index);
      const Numbers from = values<double>(x);
      Numbers read(from.size());
      Numbers written(from.size());
      Numbers added(from.size());
      for (std::size_t i = 0; i < from.size(); ++i) {
        const auto columns = static_cast<std::size_t>(count);
        const std::size_t place = i / columns * columns + static_cast<std::size_t>(places[i]);
        read[i] = from[place];
        written[place] = from[i];
        added[place] += i % 2 == 0 ? 1 : 0;
      }
      const std::string what = std::string(name_of(dtype)) + " of " + std::to_string(count);
      const Tensor even = remainder(arange(3 * count), 2).eq(0).view({3, count}).to(dtype);
      EXPECT_EQ(values<double>(gather(x, 1, index)), read) << what;
      EXPECT_EQ(values<double>(scatter(zeros_like(x), 1, index, x)), written) << what;
      EXPECT_EQ(values<double>(scatter_add(zeros_like(x), 1, index, even)), added) << what;
      // The same along the first dimension, so that a line is a column.
      const auto down = [](const Tensor& t) { return t.t().contiguous(); };
      EXPECT_EQ(values<double>(gather(down(x), 0, down(index)).t()), read) << what;
      EXPECT_EQ(values<double>(scatter(zeros_like(down(x)), 0, down(index), down(x)).t()), written)
          << what;
    }
  }
}

}  // namespace
}  // namespace dl::testing
