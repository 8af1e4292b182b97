// cumsum, sort, argsort and topk against PyTorch's, and against the standard library's in every
// dtype, layout and size.
#include "core/ops/order/order.h"
#include "core/base/sanitizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl {
namespace {

using Numbers = std::vector<double>;
using Places = std::vector<std::int64_t>;

#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kMany = 1'003;
#else
constexpr std::int64_t kMany = 20'003;
#endif

void expect_equal(const Tensor& got, const Numbers& wanted, double tolerance,
                  const std::string& what) {
  const Numbers numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << what << " [" << i << "] is " << numbers[i];
    } else if (std::isinf(wanted[i])) {
      EXPECT_EQ(numbers[i], wanted[i]) << what << " [" << i << "]";
    } else {
      EXPECT_NEAR(numbers[i], wanted[i], tolerance) << what << " [" << i << "]";
    }
  }
}

TEST(Order, AgreesWithPyTorch) {
  const parity::Arrays arrays("order");
  for (const std::string kind : {"plain", "few", "odd"}) {
    const Numbers inputs = arrays.get<double>(kind + ".x");
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      const double tolerance = dtype == DType::kF64 ? 1e-13 : 2e-6;
      const Tensor x = tensor(inputs, {.dtype = dtype}).view({3, 4, 5});
      for (const std::int64_t dim : {0, 1, 2}) {
        const std::string where = "." + kind + "." + std::to_string(dim);
        for (const bool descending : {false, true}) {
          const std::string key = "sort" + where + (descending ? ".down" : ".up");
          const auto [y, places] = sort(x, dim, {.descending = descending});
          expect_equal(y, arrays.get<double>(key + ".y"), 0, key);
          EXPECT_EQ(values<std::int64_t>(places), arrays.get<std::int64_t>(key + ".places")) << key;
          EXPECT_EQ(values<std::int64_t>(x.argsort(dim, {.descending = descending})),
                    values<std::int64_t>(places));
        }
        const auto [y, places] = x.topk(3, dim);
        expect_equal(y, arrays.get<double>("topk" + where + ".y"), 0, "topk" + where);
        if (kind == "plain") {  // PyTorch does not say which of equals it takes
          EXPECT_EQ(values<std::int64_t>(places),
                    arrays.get<std::int64_t>("topk" + where + ".places"));
        }
        Tensor leaf = x.clone();
        leaf.requires_grad_();
        const Tensor sums = leaf.cumsum(dim);
        expect_equal(sums.detach(), arrays.get<double>("cumsum" + where + ".y"), tolerance,
                     "cumsum" + where);
        const Tensor few = tensor(arrays.get<double>("few.x"), {.dtype = dtype}).view({3, 4, 5});
        sum(mul(sums, few)).backward();
        expect_equal(leaf.grad(), arrays.get<double>("cumsum" + where + ".grad"), tolerance,
                     "gradient of cumsum" + where);
      }
    }
  }
}

TEST(Order, FewOfLongLinesWithOddNumbers) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64}) {
    for (const double most : {0.0, -0.0, 1.0, infinity, nan}) {  // equal ones keep their order
      Numbers numbers(1'000, most);
      numbers[7] = nan;
      numbers[500] = -nan;
      numbers[501] = -infinity;
      numbers[900] = most == 0.0 ? -most : 0.5;
      const Tensor x = tensor(numbers, {.dtype = dtype}).view({2, 500});
      for (const bool largest : {true, false}) {
        const auto [sorted, order] = x.sort(1, {.descending = largest});
        for (const std::int64_t k : {1, 3, 62}) {
          const auto [y, places] = x.topk(k, 1, {.largest = largest});
          expect_equal(y, values<double>(sorted.narrow(1, 0, k)), 0, "topk");
          EXPECT_EQ(values<std::int64_t>(places), values<std::int64_t>(order.narrow(1, 0, k)));
        }
      }
    }
  }
}

TEST(Order, OfEveryDTypeLayoutAndSize) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kI8,
                            DType::kU8, DType::kI32, DType::kI64, DType::kU64, DType::kBool}) {
    for (const Shape& shape : {Shape{kMany}, Shape{3, 257}, Shape{257, 3}, Shape{2, 0, 3}}) {
      Tensor dense = empty(shape, {.dtype = DType::kI64});
      const bool is_signed = dtype != DType::kU8 && dtype != DType::kU64 && dtype != DType::kBool;
      for (std::int64_t i = 0; i < dense.numel(); ++i) {
        dense.data<std::int64_t>()[i] = (i * 7919 + 13) % 101 - (is_signed ? 50 : 0);
      }
      dense = dense.to(dtype);
      for (const Tensor& x : {dense, dense.transpose(0, -1)}) {
        for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
          const std::string what =
              std::string(name_of(dtype)) + " " + x.sizes().str() + " along " + std::to_string(dim);
          const auto [y, places] = sort(x, dim, {.descending = true});
          const Tensor rows = x.to(DType::kF64).transpose(dim, -1).contiguous();
          const Tensor sums = cumsum(x, dim);
          EXPECT_EQ(sums.dtype(), is_floating(dtype) ? dtype : DType::kI64);
          const auto found = values<std::int64_t>(places.transpose(dim, -1));
          const Numbers ordered = values<double>(y.transpose(dim, -1));
          const Numbers running = values<double>(sums.transpose(dim, -1));
          const std::int64_t size = x.size(dim);
          const std::int64_t k = std::min<std::int64_t>(5, size);
          const auto [best, best_places] = topk(x, k, dim, {.largest = false});
          const Numbers smallest = values<double>(best.transpose(dim, -1));
          for (std::int64_t line = 0; size > 0 && line < x.numel() / size; ++line) {
            const double* const in = rows.data<double>() + line * size;
            Places wanted(static_cast<std::size_t>(size));
            std::iota(wanted.begin(), wanted.end(), 0);
            std::sort(wanted.begin(), wanted.end(), [&](std::int64_t a, std::int64_t b) {
              return in[a] != in[b] ? in[a] > in[b] : a < b;
            });
            double total = 0;
            for (std::int64_t i = 0; i < size; ++i) {
              const auto at = static_cast<std::size_t>(line * size + i);
              total += in[i];
              ASSERT_EQ(found[at], wanted[static_cast<std::size_t>(i)]) << what;
              ASSERT_EQ(ordered[at], in[found[at]]) << what;
              // Few sums are whole numbers that a short dtype holds.
              const double unit = size_of(dtype) > 2 || !is_floating(dtype) ? 0 : 0x1p-8;
              ASSERT_NEAR(running[at], total, unit * std::abs(total)) << what;
              if (i < k) {
                ASSERT_EQ(smallest[static_cast<std::size_t>(line * k + i)],
                          in[wanted[static_cast<std::size_t>(size - 1 - i)]])
                    << what;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Order, OfATensorWithoutDimensions) {
  EXPECT_EQ(tensor(3.0).cumsum(0).item<double>(), 3);
  EXPECT_EQ(tensor(3.0).sort().first.sizes(), Shape{});
  EXPECT_EQ(tensor(3.0).argsort().item<std::int64_t>(), 0);
  EXPECT_EQ(tensor(3.0).topk(1).second.item<std::int64_t>(), 0);
}

TEST(Order, ErrorsSayWhatIsWrong) {
  EXPECT_ERROR(cumsum(zeros({2, 3}), 2), kIndex,
               "cumsum: dimension 2 is out of range for a tensor of 2 dimensions; wanted -2 to 1");
  EXPECT_ERROR(sort(zeros({2}), 1), kIndex,
               "sort: dimension 1 is out of range for a tensor of 1 dimensions; wanted -1 to 0");
  EXPECT_ERROR(topk(zeros({2, 3}), 4), kInvalidArgument,
               "topk: k is 4, wanted 0 to 3, the size of dimension 1 of [2, 3]");
  EXPECT_ERROR(argsort(Tensor()), kInvalidArgument, "argsort: the input is an undefined tensor");
}

}  // namespace
}  // namespace dl
