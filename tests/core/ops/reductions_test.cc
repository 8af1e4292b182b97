// Every row of core/reductions/list.def: values and gradients against PyTorch's, gradient checks,
// dtypes, layouts, sizes that are cut into chunks, empty tensors, forms and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/autograd/gradcheck.h"
#include "core/base/sanitizers.h"
#include "core/device/parallel.h"
#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/ops/gradcheck_cases.h"
#include "tests/core/support.h"
#include "tests/parity/arrays.h"

namespace dl {
namespace {

using Numbers = std::vector<double>;

#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kLong = 5'003;
#else
constexpr std::int64_t kLong = 150'001;
#endif

// "norm.2", as the arrays are named.
std::string label(const ReductionFacts& row) {
  std::string p = std::to_string(row.p);
  while (p.ends_with('0')) p.pop_back();
  if (p.ends_with('.')) p.pop_back();
  return std::string(row.name) + "." + p;
}

// `share` of the largest finite number wanted.
void expect_near(const Tensor& got, const Numbers& wanted, double share, const std::string& what) {
  const Numbers numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  double largest = 0;
  for (const double x : wanted) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << what << " [" << i << "] is " << numbers[i];
    } else if (std::isinf(wanted[i])) {
      EXPECT_EQ(numbers[i], wanted[i]) << what << " [" << i << "]";
    } else {
      EXPECT_NEAR(numbers[i], wanted[i], share * largest) << what << " [" << i << "]";
    }
  }
}

Tensor spread(const Shape& shape, DType dtype = DType::kF64, bool positive = false) {
  Tensor result = empty(shape, {.dtype = DType::kF64});
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    const double turns = static_cast<double>(i + 1) * 0.6180339887498949;
    const double x = turns - std::floor(turns);
    result.data<double>()[i] = positive ? 0.5 + x : 4 * x - 1.7;
  }
  return result.to(dtype);
}

// A product of many ordinary numbers is 0 or infinite.
Tensor numbers_for(const ReductionFacts& row, const Shape& shape, DType dtype) {
  if (row.fn != ReduceFn::kProd) return spread(shape, dtype);
  return add(mul(spread(shape, DType::kF64, true), 0.06), 0.94).to(dtype);
}

Tensor weighted(const Tensor& y, const Numbers& weights) {
  const Numbers some(weights.begin(), weights.begin() + y.numel());
  return sum(mul(y, tensor(some, {.dtype = DType::kF64}).to(y.dtype()).view(y.sizes())));
}

struct Over {
  const char* name;
  Dims dims;
};
const Over kOver[] = {{"1", {1}}, {"02", {0, 2}}, {"012", {}}};
constexpr const char* kInputs[] = {"plain", "few", "odd"};

TEST(Reductions, AgreeWithPyTorch) {
  const parity::Arrays arrays("reductions");
  const Numbers weights = arrays.get<double>("weights");
  for (const ReductionFacts& row : kReductionFacts) {
    for (const char* kind : kInputs) {
      for (const Over& over : kOver) {
        for (const DType dtype : {DType::kF64, DType::kF32}) {
          const std::string key = label(row) + "." + kind + "." + over.name;
          const std::string what = key + " in " + std::string(name_of(dtype));
          const Numbers inputs = arrays.get<double>(std::string(kind) + ".x");
          Tensor leaf = tensor(inputs, {.dtype = dtype}).view({3, 4, 5}).clone();
          if (row.gradient == Gradient::kGradcheck) leaf.requires_grad_();
          const Tensor y = reduce(row.fn, leaf, over.dims, {.keepdim = true}, row.p);
          const auto share = [&](const std::string& name) {
            if (dtype == DType::kF64) return 1e-12;
            return std::max(1e-6, 2 * arrays.get<double>(key + name + ".float32_error")[0]);
          };
          expect_near(y.detach(), arrays.get<double>(key + ".y"), share(".y"), what);
          if (row.gradient == Gradient::kNoGradient) continue;
          weighted(y, weights).backward();
          expect_near(leaf.grad(), arrays.get<double>(key + ".grad"), share(".grad"),
                      what + ", gradient");
        }
      }
    }
  }
}

TEST(Reductions, OfIntegersHavePyTorchsDtypes) {
  const parity::Arrays arrays("reductions");
  const Numbers few = arrays.get<double>("few.x");
  for (const ReductionFacts& row : kReductionFacts) {
    for (const DType dtype : {DType::kBool, DType::kU8, DType::kI8, DType::kI32, DType::kI64}) {
      const Tensor x = tensor(few, {.dtype = DType::kF64}).to(dtype).view({3, 4, 5});
      const std::string key = std::string(row.name) + "." + std::string(name_of(dtype));
      if (row.takes == Takes::kFloating) {
        EXPECT_ERROR(reduce(row.fn, x, 1, {}, row.p), kDType,
                     std::string(row.name) + ": " + std::string(name_of(dtype)) +
                         " is not supported; wanted a floating dtype");
        continue;
      }
      if (row.takes == Takes::kIntoFloat) {
        EXPECT_EQ(reduce(row.fn, x, 1).dtype(), DType::kF32) << key;
        continue;
      }
      const Tensor y = reduce(row.fn, x, 1, {.keepdim = true}, row.p);
      const std::vector<char> text = arrays.get<char>(key + ".dtype");
      EXPECT_EQ(name_of(y.dtype()), std::string(text.begin(), text.end())) << key;
      expect_near(y, arrays.get<double>(key + ".y"), 0, key);
    }
  }
}

TEST(Reductions, OfNothingAreThoseOfPyTorch) {
  const parity::Arrays arrays("reductions");
  for (const ReductionFacts& row : kReductionFacts) {
    const std::string key = label(row) + ".empty";
    const Numbers wanted = arrays.get<double>(key);
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      const Tensor x = zeros({2, 0}, {.dtype = dtype});
      if (row.empty_input == EmptyInput::kError) {
        EXPECT_TRUE(wanted.empty()) << key;
        const bool smallest = row.fn == ReduceFn::kAmin || row.fn == ReduceFn::kNormSmallest;
        EXPECT_ERROR(reduce(row.fn, x, 1, {}, row.p), kShape,
                     std::string(row.name) + ": dimension 1 of [2, 0] is empty and has no " +
                         (smallest ? "smallest" : "largest") + " element");
      } else {
        expect_near(reduce(row.fn, x, 1, {}, row.p), wanted, 0, key);
      }
      EXPECT_EQ(reduce(row.fn, zeros({0, 3}, {.dtype = dtype}), 1, {}, row.p).sizes(), (Shape{0}));
    }
  }
}

TEST(Reductions, GradientsAreTheSlopes) {
  for (const ReductionFacts& row : kReductionFacts) {
    if (row.gradient == Gradient::kNoGradient || row.fn == ReduceFn::kNorm0) continue;
    const auto over = [&](const Dims& dims) {
      return [&row, dims](const std::vector<Tensor>& in) {
        return reduce(row.fn, in[0], dims, {}, row.p);
      };
    };
    for (const Dims& dims : {Dims{0}, Dims{-1}, Dims{0, 2}, Dims{}}) {
      EXPECT_NO_THROW(gradcheck(label(row), over(dims), {spread({2, 3, 4}).requires_grad_()}))
          << label(row);
      testing::check_second(label(row), over(dims), {spread({2, 3, 2}).requires_grad_()});
    }
    const auto turned = [&](const std::vector<Tensor>& in) {
      return reduce(row.fn, in[0].t(), 0, {.keepdim = true}, row.p);
    };
    EXPECT_NO_THROW(gradcheck(label(row), turned, {spread({3, 5}).requires_grad_()}));
  }
}

TEST(Reductions, GradientsOfExtremesAreTheSlopes) {
  for (const ExtremeFacts& row : kExtremeFacts) {
    const Tensor x = spread({2, 3, 4}).requires_grad_();
    for (const std::int64_t dim : {0, 1, -1}) {
      const auto along = [&](const std::vector<Tensor>& in) {
        return extreme(row.fn, in[0], dim).first;
      };
      EXPECT_NO_THROW(gradcheck(row.name, along, {x})) << row.name;
      testing::check_second(row.name, along, {x});
    }
    const auto of_all = [&](const std::vector<Tensor>& in) { return extreme(row.fn, in[0]); };
    EXPECT_NO_THROW(gradcheck(row.name, of_all, {x})) << row.name;
    testing::check_second(row.name, of_all, {x});
  }
}

TEST(Reductions, RoundOnceInEveryFloatingDtype) {
  for (const ReductionFacts& row : kReductionFacts) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      const Tensor x = numbers_for(row, {7, 13}, dtype);
      for (const Dims& dims : {Dims{0}, Dims{1}, Dims{}}) {
        const std::string what = label(row) + " in " + std::string(name_of(dtype));
        const Tensor exact = reduce(row.fn, x.to(DType::kF64), dims, {}, row.p);
        const Tensor got = reduce(row.fn, x, dims, {}, row.p);
        if (row.gives == Reduced::kInput || row.gives == Reduced::kLong) {
          EXPECT_EQ(got.dtype(), dtype) << what;
        }
        const double unit = dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
        expect_near(got, values<double>(exact), 1.01 * unit, what);
        if (row.gradient == Gradient::kNoGradient) continue;
        const Tensor leaf = x.clone().requires_grad_();
        const Tensor wanted = x.to(DType::kF64).clone().requires_grad_();
        sum(reduce(row.fn, leaf, dims, {}, row.p)).backward();
        sum(reduce(row.fn, wanted, dims, {}, row.p)).backward();
        EXPECT_EQ(leaf.grad().dtype(), dtype) << what;
        // The output is known rounded.
        expect_near(leaf.grad(), values<double>(wanted.grad()), 8 * unit, what + ", gradient");
      }
    }
  }
}

// Each element's own dimension, several, all; of every way through the loops.
TEST(Reductions, LayoutsAndSizesChangeNothing) {
  for (const ReductionFacts& row : kReductionFacts) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
      if (dtype == DType::kI32 && row.takes != Takes::kAll) continue;
      const Tensor x = numbers_for(row, {4, 6, 10, 14}, dtype);
      const Tensor views[] = {x,
                              x.transpose(0, 3),
                              x.permute({2, 0, 3, 1}),
                              x.slice(3, 1, 14, 3),
                              x.slice(1, 0, 6, 2),
                              x.narrow(2, 3, 1).expand({4, 6, 5, 14}),
                              x.contiguous(MemoryFormat::kChannelsLast)};
      for (const Tensor& view : views) {
        const Tensor dense = view.contiguous();
        for (const Dims& dims : {Dims{0}, Dims{1}, Dims{3}, Dims{0, 2}, Dims{1, 3}, Dims{}}) {
          const Tensor wanted = reduce(row.fn, dense.to(DType::kF64), dims, {}, row.p);
          const double rounded = row.fn == ReduceFn::kProd ? 4e-6 : 1e-6;
          const double share = dtype == DType::kI32 ? 0 : dtype == DType::kF32 ? rounded : 0x1p-8;
          // Products of integers wrap around, and those of float64 do not.
          if (row.fn == ReduceFn::kProd && dtype == DType::kI32) continue;
          expect_near(reduce(row.fn, view, dims, {}, row.p), values<double>(wanted), share,
                      label(row) + " of " + view.sizes().str() + " strided " +
                          view.strides().str() + " over " + dims.str());
        }
      }
    }
  }
}

TEST(Reductions, LongOnesAreCutIntoChunks) {
  for (const ReductionFacts& row : kReductionFacts) {
    for (const Shape& shape : {Shape{kLong}, Shape{3, kLong / 3}, Shape{kLong / 3, 3},
                               Shape{kLong / 70, 70}, Shape{2, kLong / 1030, 515}}) {
      // A product of many is 0 or infinite but for ones.
      const bool is_product = row.fn == ReduceFn::kProd;
      Tensor x = is_product ? full(shape, 1.0, {.dtype = DType::kF64}) : spread(shape);
      if (is_product) x.view({-1}).data<double>()[kLong / 2] = -3;
      const Tensor narrow = x.to(DType::kF32);
      for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
        const Tensor wanted = reduce(row.fn, narrow.to(DType::kF64), dim, {}, row.p);
        expect_near(reduce(row.fn, narrow, dim, {}, row.p), values<double>(wanted), 1e-6,
                    label(row) + " of " + shape.str() + " over " + std::to_string(dim));
      }
    }
  }
}

TEST(Reductions, AreTheSameForAnyNumberOfThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not see how libgomp's threads wait for each other";
#endif
  const int threads = num_threads();
  for (const ReductionFacts& row : kReductionFacts) {
    for (const Shape& shape : {Shape{kLong}, Shape{kLong / 3, 3}, Shape{40, kLong / 40}}) {
      const Tensor x = spread(shape, DType::kF32);
      for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
        set_num_threads(1);
        const Numbers one = values<double>(reduce(row.fn, x, dim, {}, row.p));
        for (const int several : {2, 3}) {
          set_num_threads(several);
          EXPECT_EQ(values<double>(reduce(row.fn, x, dim, {}, row.p)), one) << label(row);
        }
      }
    }
  }
  set_num_threads(threads);
}

TEST(Extremes, AgreeWithPyTorch) {
  const parity::Arrays arrays("reductions");
  const Numbers weights = arrays.get<double>("weights");
  for (const ExtremeFacts& row : kExtremeFacts) {
    for (const char* kind : kInputs) {
      const Numbers inputs = arrays.get<double>(std::string(kind) + ".x");
      for (const DType dtype : {DType::kF64, DType::kF32}) {
        const std::string name = std::string(row.name) + "." + kind + ".";
        for (const std::int64_t dim : {0, 1, 2}) {
          const std::string key = name + std::to_string(dim);
          Tensor leaf = tensor(inputs, {.dtype = dtype}).view({3, 4, 5}).clone();
          leaf.requires_grad_();
          const auto [y, places] = extreme(row.fn, leaf, dim);
          weighted(y, weights).backward();
          expect_near(y.detach(), arrays.get<double>(key + ".y"), 1e-6, key);
          EXPECT_EQ(values<std::int64_t>(places), arrays.get<std::int64_t>(key + ".places")) << key;
          EXPECT_EQ(values<std::int64_t>(index_of_extreme(row.fn, leaf, dim)),
                    values<std::int64_t>(places));
          expect_near(leaf.grad(), arrays.get<double>(key + ".grad"), 1e-6, key + ", gradient");
        }
        Tensor all = tensor(inputs, {.dtype = dtype}).view({3, 4, 5}).clone();
        all.requires_grad_();
        const Tensor y = extreme(row.fn, all);
        y.backward();
        expect_near(y.detach(), arrays.get<double>(name + "all.y"), 1e-6, name);
        expect_near(all.grad(), arrays.get<double>(name + "all.grad"), 1e-6, name + ", gradient");
        EXPECT_EQ(index_of_extreme(row.fn, all).item<std::int64_t>(),
                  arrays.get<std::int64_t>(name + "all.places")[0]);
      }
    }
  }
}

// The first of the extremes of every line, by definition.
TEST(Extremes, AreTheFirstInEveryLayoutAndSize) {
  for (const ExtremeFacts& row : kExtremeFacts) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI16, DType::kBool}) {
      for (const Shape& shape :
           {Shape{kLong}, Shape{3, 9000}, Shape{9000, 3}, Shape{70, 600}, Shape{5, 37, 19}}) {
        const Tensor dense = mul(spread(shape), 10.0).to(DType::kI64).to(dtype);
        for (const Tensor& x : {dense, dense.transpose(0, -1)}) {
          for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
            const auto [y, places] = extreme(row.fn, x, dim, {.keepdim = true});
            const Tensor rows = x.to(DType::kF64).transpose(dim, -1).contiguous();
            const Numbers best = values<double>(y.transpose(dim, -1));
            const auto found = values<std::int64_t>(places.transpose(dim, -1));
            const std::int64_t size = x.size(dim);
            for (std::size_t i = 0; i < best.size(); ++i) {
              const double* const line = rows.data<double>() + static_cast<std::int64_t>(i) * size;
              const double* const wanted = row.fn == ExtremeFn::kMax
                                               ? std::max_element(line, line + size)
                                               : std::min_element(line, line + size);
              ASSERT_EQ(best[i], *wanted) << row.name << " of " << x.sizes().str() << " " << dim;
              ASSERT_EQ(found[i], wanted - line)
                  << row.name << " of " << x.sizes().str() << " over " << dim << " [" << i << "]";
            }
          }
        }
      }
    }
  }
}

struct Forms {
  ReduceFn fn;
  Tensor (*function)(const Tensor&, const DimList&, ReduceOptions);
  Tensor (Tensor::*method)(const DimList&, ReduceOptions) const;
};
constexpr Forms kForms[] = {
#define DL_REDUCTION(enumerator, name, ...) {ReduceFn::enumerator, &dl::name, &Tensor::name},
#include "core/reductions/list.def"
};

TEST(Reductions, FunctionsAndMethodsAreTheRows) {
  const Tensor x = spread({3, 4}, DType::kF64, true);
  for (const Forms& form : kForms) {
    const std::string name(facts(form.fn).name);
    const Numbers wanted = values<double>(reduce(form.fn, x, 1, {.keepdim = true}));
    EXPECT_EQ(values<double>(form.function(x, -1, {.keepdim = true})), wanted) << name;
    EXPECT_EQ(values<double>((x.*form.method)({1}, {.keepdim = true})), wanted) << name;
    EXPECT_ERROR((Tensor().*form.method)({}, {}), kInvalidArgument,
                 name +
                     ": the tensor is undefined (default constructed, or moved from); assign a "
                     "value first, or ask defined()");
    EXPECT_ERROR(form.function(Tensor(), {}, {}), kInvalidArgument,
                 name + ": the input is an undefined tensor");
    EXPECT_ERROR(
        form.function(x, 2, {}), kIndex,
        name + ": dimension 2 is out of range for a tensor of 2 dimensions; wanted -2 to 1");
    EXPECT_ERROR(form.function(x, {0, -2}, {}), kInvalidArgument,
                 name + ": dimension 0 is named twice");
  }
  EXPECT_EQ(x.sum().sizes(), Shape{});
  EXPECT_EQ(x.sum(0).sizes(), (Shape{4}));
  EXPECT_EQ(x.mean({0, 1}, {.keepdim = true}).sizes(), (Shape{1, 1}));
  EXPECT_EQ(x.max().item<double>(), x.max(1).first.max().item<double>());
  EXPECT_EQ(x.min().item<double>(), x.min(0).first.min().item<double>());
  EXPECT_EQ(x.argmax(1, {.keepdim = true}).sizes(), (Shape{3, 1}));
  EXPECT_EQ(x.argmin().item<std::int64_t>(), argmin(x.flatten(), 0).item<std::int64_t>());
  EXPECT_EQ(x.var().item<double>(), var(x, {0, 1}).item<double>());
  EXPECT_EQ(values<double>(x.std(1, {.correction = 0})),
            values<double>(sqrt(var(x, 1, {.correction = 0}))));
  EXPECT_NEAR(x.norm().item<double>(), sqrt(sum(x * x)).item<double>(), 1e-14);
  EXPECT_EQ(values<double>(x.norm(1, 1)), values<double>(norm(x, 1, 1)));
}

TEST(Extremes, ErrorsSayWhatIsWrong) {
  EXPECT_ERROR(zeros({0}).max(), kShape,
               "max: dimension 0 of [0] is empty and has no largest element");
  EXPECT_ERROR(zeros({2, 0}).min(1), kShape,
               "min: dimension 1 of [2, 0] is empty and has no smallest element");
  EXPECT_ERROR(zeros({0}).argmin(), kShape,
               "argmin: dimension 0 of [0] is empty and has no smallest element");
  EXPECT_ERROR(zeros({2}).argmax(1), kIndex,
               "argmax: dimension 1 is out of range for a tensor of 1 dimensions; wanted -1 to 0");
  EXPECT_ERROR(amax(tensor({1}, {.dtype = DType::kU64})), kDType,
               "amax: uint64 is not supported; wanted a smaller or signed integer");
  EXPECT_ERROR(Tensor().max(), kInvalidArgument,
               "max: the tensor is undefined (default constructed, or moved from); assign a value "
               "first, or ask defined()");
}

}  // namespace
}  // namespace dl
