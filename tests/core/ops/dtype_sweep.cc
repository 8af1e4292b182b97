#include "tests/core/ops/dtype_sweep.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "tests/core/ops/naive.h"

namespace dl::testing {
namespace {

using naive::Number;
using Elements = std::vector<Number>;

constexpr DType kAll[kDTypeCount] = {
    DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kI8,  DType::kU8,  DType::kI16,
    DType::kU16, DType::kI32,  DType::kU32, DType::kI64, DType::kU64, DType::kBool};

// torch.promote_types; "-" if it throws.
// clang-format off
constexpr std::string_view kPromoted[kDTypeCount][kDTypeCount] = {
  {"f16", "f32", "f32", "f64", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16"},
  {"f32", "bf16", "f32", "f64", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"},
  {"f32", "f32", "f32", "f64", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32"},
  {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
  {"f16", "bf16", "f32", "f64", "i8", "i16", "i16", "-", "i32", "-", "i64", "-", "i8"},
  {"f16", "bf16", "f32", "f64", "i16", "u8", "i16", "-", "i32", "-", "i64", "-", "u8"},
  {"f16", "bf16", "f32", "f64", "i16", "i16", "i16", "-", "i32", "-", "i64", "-", "i16"},
  {"f16", "bf16", "f32", "f64", "-", "-", "-", "u16", "-", "-", "-", "-", "-"},
  {"f16", "bf16", "f32", "f64", "i32", "i32", "i32", "-", "i32", "-", "i64", "-", "i32"},
  {"f16", "bf16", "f32", "f64", "-", "-", "-", "-", "-", "u32", "-", "-", "-"},
  {"f16", "bf16", "f32", "f64", "i64", "i64", "i64", "-", "i64", "-", "i64", "-", "i64"},
  {"f16", "bf16", "f32", "f64", "-", "-", "-", "-", "-", "-", "-", "u64", "-"},
  {"f16", "bf16", "f32", "f64", "i8", "u8", "i16", "-", "i32", "-", "i64", "-", "bool"}};
// clang-format on

std::optional<DType> promoted(DType a, DType b) {
  const std::string_view name = kPromoted[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
  for (const DType dtype : kAll) {
    if (short_name(dtype) == name) return dtype;
  }
  return {};
}

int category(DType dtype) {
  return dtype == DType::kBool ? 0 : is_floating(dtype) ? 2 : 1;
}

struct SweptCase {
  const char* name;
  naive::Binary op;
  std::function<Tensor(const Tensor&, const Tensor&)> apply;
  std::function<Tensor(const Tensor&, Scalar)> apply_number = nullptr;
};

const std::vector<SweptCase>& cases() {
  using B = naive::Binary;
  using T = const Tensor&;
  static const std::vector<SweptCase> all{
      {"add", B::kAdd, [](T a, T b) { return a + b; }, [](T a, Scalar b) { return a + b; }},
      {"sub", B::kSub, [](T a, T b) { return a - b; }, [](T a, Scalar b) { return a - b; }},
      {"mul", B::kMul, [](T a, T b) { return a * b; }, [](T a, Scalar b) { return a * b; }},
      {"div", B::kDiv, [](T a, T b) { return a / b; }, [](T a, Scalar b) { return a / b; }},
      {"minimum", B::kMinimum, [](T a, T b) { return minimum(a, b); }},
      {"maximum", B::kMaximum, [](T a, T b) { return maximum(a, b); }},
      {"eq", B::kEq, [](T a, T b) { return eq(a, b); }, [](T a, Scalar b) { return eq(a, b); }},
      {"ne", B::kNe, [](T a, T b) { return ne(a, b); }, [](T a, Scalar b) { return ne(a, b); }},
      {"lt", B::kLt, [](T a, T b) { return lt(a, b); }, [](T a, Scalar b) { return lt(a, b); }},
      {"le", B::kLe, [](T a, T b) { return le(a, b); }, [](T a, Scalar b) { return le(a, b); }},
      {"gt", B::kGt, [](T a, T b) { return gt(a, b); }, [](T a, Scalar b) { return gt(a, b); }},
      {"ge", B::kGe, [](T a, T b) { return ge(a, b); }, [](T a, Scalar b) { return ge(a, b); }}};
  return all;
}

bool compares(naive::Binary op) {
  return op >= naive::Binary::kEq;
}
bool is_arithmetic(naive::Binary op) {
  return op <= naive::Binary::kDiv;
}

// The dtype in which an operation on the common dtype computes; nullopt if it throws.
std::optional<DType> computed_in(naive::Binary op, std::optional<DType> common) {
  if (!common) return {};
  if (op == naive::Binary::kDiv && !is_floating(*common)) return DType::kF32;
  if (is_arithmetic(op) && *common == DType::kBool) return {};
  return common;
}

// Element i of a pattern. Two patterns with different turns meet in all pairs of values within 256
// elements.
template <typename Value>
std::vector<Value> repeated(const std::vector<Value>& values, std::int64_t count, bool turned) {
  std::vector<Value> result;
  const auto n = static_cast<std::int64_t>(values.size());
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(values[static_cast<std::size_t>((turned ? i + i / n : i) % n)]);
  }
  return result;
}

Tensor pattern(std::int64_t count, DType dtype, bool turned, bool finite = false) {
  if (is_floating(dtype)) {
    std::vector<double> values{0.0, 1.0, -1.0, 2.5, -2.5, 0.75, 100.0, -3.0, -0.0};
    if (!finite) values.insert(values.end(), {INFINITY, -INFINITY, NAN});
    return tensor(repeated(values, count, turned), {.dtype = dtype});
  }
  std::vector<std::int64_t> values{0, 1, 2, 3, 100, 5, 1, 0, 7};
  if (dtype == DType::kBool) values = {0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0};
  const bool is_signed =
      dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
  const auto bits = static_cast<int>(8 * size_of(dtype));
  if (is_signed) {
    const auto least = static_cast<std::int64_t>(~std::uint64_t{0} << (bits - 1));
    values.insert(values.end(), {-1, least, -(least + 1)});
  } else if (dtype != DType::kBool) {
    const auto most = static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits));
    values.insert(values.end(), {most, most - 1, most / 2});
  }
  return tensor(repeated(values, count, turned), {.dtype = dtype});
}

// Around a vector's width, a block of the compute type and a kernel's pack; more than a thread's
// share.
std::vector<std::int64_t> sizes_on(Device device) {
  if (device.type == DeviceType::kCUDA) return {0, 1, 7, 257};
  return {0, 1, 15, 16, 17, 257};
}
std::int64_t large_on(Device device) {
  return device.type == DeviceType::kCUDA ? 5001 : 40'007;
}

struct Operands {
  std::string what;
  Tensor a;
  Tensor b;
};

std::vector<Operands> operands_of(DType a, DType b, Device device) {
  std::vector<Operands> all;
  const auto add = [&](std::string what, const Tensor& x, const Tensor& y) {
    all.push_back({std::move(what), x, y});
  };
  const auto left = [&](std::int64_t count) { return pattern(count, a, false).to(device); };
  const auto right = [&](std::int64_t count) { return pattern(count, b, true).to(device); };
  for (const std::int64_t n : sizes_on(device)) add(std::to_string(n), left(n), right(n));
  if (a == b) add("large", left(large_on(device)), right(large_on(device)));
  add("not aligned", left(34).narrow(0, 1, 33), right(35).narrow(0, 2, 33));
  add("strided", left(3 * 38).view({3, 38}).slice(1, 0, 38, 2), right(57).view({19, 3}).t());
  add("a row for all", left(57).view({3, 19}), right(19));
  add("an outer product", left(13).view({13, 1}), right(17));
  add("one for all", left(19), right(1));
  add("one with all", left(2).narrow(0, 1, 1), right(19));
  return all;
}

// The first element that differs, as text; empty if there is none.
std::string difference(const Tensor& got, const Elements& wanted, DType dtype, const Shape& shape) {
  if (got.dtype() != dtype) {
    return "is " + std::string(name_of(got.dtype())) + ", wanted " + std::string(name_of(dtype));
  }
  if (got.sizes() != shape) return "has shape " + got.sizes().str() + ", wanted " + shape.str();
  const Elements numbers = naive::elements(got);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (naive::same(numbers[i], wanted[i])) continue;
    return "element " + std::to_string(i) + " of " + shape.str() + " is " +
           naive::text(numbers[i]) + ", wanted " + naive::text(wanted[i]);
  }
  return "";
}

Shape shape_of_both(const Tensor& a, const Tensor& b) {
  return broadcast_shapes(a.sizes(), b.sizes(), "test");
}

Elements converted(const Tensor& tensor, const Shape& shape, DType dtype) {
  Elements result = naive::elements(tensor.expand(shape));
  for (Number& x : result) x = naive::converted(x, dtype);
  return result;
}

// Both refuse, or both give the same elements. `make` throws if the operation refuses.
void expect_right(const std::string& what, bool refused, const std::function<std::string()>& make) {
  try {
    const std::string wrong = make();
    EXPECT_TRUE(wrong.empty()) << what << ": " << wrong;
    EXPECT_FALSE(refused) << what << " is to be refused";
  } catch (const Error& error) {
    EXPECT_TRUE(refused) << what << ": " << error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kDType) << what << ": " << error.what();
  }
}

void check_pair(const SweptCase& c, const Operands& in, std::optional<DType> common) {
  const std::optional<DType> dtype = computed_in(c.op, common);
  const std::string what = std::string(c.name) + " of " + std::string(name_of(in.a.dtype())) +
                           " and " + std::string(name_of(in.b.dtype())) + ", " + in.what;
  expect_right(what, !dtype, [&]() -> std::string {
    const Tensor got = c.apply(in.a, in.b);
    if (!dtype) return "";
    const Shape shape = shape_of_both(in.a, in.b);
    Elements wanted = converted(in.a, shape, *dtype);
    const Elements b = converted(in.b, shape, *dtype);
    for (std::size_t i = 0; i < b.size(); ++i) {
      wanted[i] = naive::apply(c.op, wanted[i], b[i], *dtype);
    }
    return difference(got, wanted, compares(c.op) ? DType::kBool : *dtype, shape);
  });
}

// Of a tensor with dimensions and a number, or a tensor without: its kind counts, if it is higher.
std::optional<DType> with_number(DType tensor, DType number) {
  return category(number) <= category(tensor) ? tensor : promoted(tensor, number);
}

}  // namespace

void sweep_pairs_of_tensors(Device device) {
  for (const DType a : kAll) {
    for (const DType b : kAll) {
      const std::vector<Operands> operands = operands_of(a, b, device);
      for (const SweptCase& c : cases()) {
        for (const Operands& in : operands) check_pair(c, in, promoted(a, b));
      }
    }
  }
}

void sweep_tensors_and_numbers(Device device) {
  for (const DType a : kAll) {
    const Tensor x = pattern(19, a, false).to(device);
    for (const DType b : kAll) {
      const Tensor number = pattern(2, b, false).narrow(0, 1, 1).view({});
      for (const SweptCase& c : cases()) {
        for (const Device place : {Device{}, device}) {
          check_pair(c, {"a number on " + place.str(), x, number.to(place)}, with_number(a, b));
          check_pair(c, {"behind a number on " + place.str(), number.to(place), x},
                     with_number(a, b));
        }
      }
    }
    struct Given {
      Scalar scalar;
      Number number;
      DType dtype;
    };
    for (const Given& given :
         {Given{true, naive::whole(1), DType::kBool}, Given{3, naive::whole(3), DType::kI64},
          Given{2.5, naive::real(2.5), DType::kF32}}) {
      for (const SweptCase& c : cases()) {
        if (c.apply_number == nullptr) continue;
        const DType common = category(given.dtype) <= category(a) ? a : given.dtype;
        const std::optional<DType> dtype = computed_in(c.op, common);
        const std::string what = std::string(c.name) + " of " + std::string(name_of(a)) + " and " +
                                 naive::text(given.number);
        expect_right(what, !dtype, [&]() -> std::string {
          const Tensor got = c.apply_number(x, given.scalar);
          if (!dtype) return "";
          Elements wanted = converted(x, x.sizes(), *dtype);
          const Number y = naive::converted(given.number, *dtype);
          for (Number& element : wanted) element = naive::apply(c.op, element, y, *dtype);
          return difference(got, wanted, compares(c.op) ? DType::kBool : *dtype, x.sizes());
        });
      }
    }
  }
}

void sweep_in_place(Device device) {
  using B = naive::Binary;
  struct InPlace {
    const char* name;
    B op;
    std::function<void(Tensor&, const Tensor&)> apply;
    double alpha = 1;
    bool is_whole = true;  // alpha is an integer
  };
  const std::vector<InPlace> operations{
      {"add_", B::kAdd, [](Tensor& a, const Tensor& b) { a.add_(b); }},
      {"add_ twice", B::kAdd, [](Tensor& a, const Tensor& b) { a.add_(b, 2); }, 2},
      {"add_ less", B::kAdd, [](Tensor& a, const Tensor& b) { a.add_(b, -1); }, -1},
      {"add_ half", B::kAdd, [](Tensor& a, const Tensor& b) { a.add_(b, 0.5); }, 0.5, false},
      {"sub_", B::kSub, [](Tensor& a, const Tensor& b) { a.sub_(b); }},
      {"mul_", B::kMul, [](Tensor& a, const Tensor& b) { a.mul_(b); }},
      {"div_", B::kDiv, [](Tensor& a, const Tensor& b) { a.div_(b); }}};
  for (const DType a : kAll) {
    for (const DType b : kAll) {
      for (const InPlace& operation : operations) {
        std::optional<DType> dtype = computed_in(operation.op, promoted(a, b));
        if (dtype && is_floating(*dtype) && !is_floating(a)) dtype = {};
        if (dtype && !operation.is_whole && !is_floating(*dtype)) dtype = {};
        if (dtype && a == DType::kBool) dtype = {};
        for (const Operands& in : operands_of(a, b, device)) {
          const Shape shape = shape_of_both(in.a, in.b);
          if (shape != in.a.sizes()) continue;
          const std::string what = std::string(operation.name) + " of " + std::string(name_of(a)) +
                                   " and " + std::string(name_of(b)) + ", " + in.what;
          expect_right(what, !dtype, [&]() -> std::string {
            Tensor self = in.a.clone();
            operation.apply(self, in.b);
            if (!dtype) return "";
            Elements wanted = converted(in.a, shape, *dtype);
            const Elements other = converted(in.b, shape, *dtype);
            for (std::size_t i = 0; i < other.size(); ++i) {
              // Doubled, halved or negated exactly: only the sum is rounded.
              const Number operand{
                  .is_floating = other[i].is_floating,
                  .real = operation.alpha * other[i].real,
                  .whole = static_cast<naive::Wide>(operation.alpha) * other[i].whole};
              wanted[i] =
                  naive::converted(naive::apply(operation.op, wanted[i], operand, *dtype), a);
            }
            return difference(self, wanted, a, shape);
          });
        }
      }
    }
  }
}

void sweep_functions_of_one_tensor(Device device) {
  for (const DType dtype : kAll) {
    for (const Operands& in : operands_of(dtype, dtype, device)) {
      const std::string what = std::string(name_of(dtype)) + ", " + in.what;
      const Elements x = naive::elements(in.a);
      expect_right("neg of " + what, dtype == DType::kBool, [&] {
        Elements wanted = x;
        for (Number& y : wanted) {
          y = naive::converted(y.is_floating ? naive::real(-y.real) : naive::whole(-y.whole),
                               dtype);
        }
        return difference(neg(in.a), wanted, dtype, in.a.sizes());
      });
      expect_right("relu of " + what, dtype == DType::kBool, [&] {
        Elements wanted = x;
        for (Number& y : wanted) {
          if (y.real < 0) y.real = 0;
          if (y.whole < 0) y.whole = 0;
        }
        return difference(relu(in.a), wanted, dtype, in.a.sizes());
      });
      expect_right("clone of " + what, false,
                   [&] { return difference(in.a.clone(), x, dtype, in.a.sizes()); });
      expect_right("fill_ of " + what, false, [&] {
        Tensor filled = in.a.clone();
        filled.fill_(1);
        const Number one = is_floating(dtype) ? naive::real(1) : naive::whole(1);
        return difference(filled, Elements(x.size(), one), dtype, in.a.sizes());
      });
    }
  }
}

void sweep_conversions(Device device) {
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      for (const Operands& in : operands_of(from, to, device)) {
        // A float out of an integer's range gives what the processor gives.
        const Tensor x = is_floating(from) && !is_floating(to)
                             ? pattern(in.a.numel(), from, true, true).to(device).view(in.a.sizes())
                             : in.a;
        const std::string what =
            std::string(name_of(from)) + " to " + std::string(name_of(to)) + ", " + in.what;
        const Elements wanted = converted(x, x.sizes(), to);
        expect_right(what, false, [&] { return difference(x.to(to), wanted, to, x.sizes()); });
        if (shape_of_both(x, in.b) != in.b.sizes()) continue;
        expect_right("copy_ of " + what, false, [&] {
          Tensor there = in.b.clone();
          there.copy_(x);
          return difference(there, converted(x, in.b.sizes(), to), to, in.b.sizes());
        });
      }
    }
  }
}

namespace {

// Over dimension `dim` of a matrix.
struct Reduced {
  Elements sums;
  Elements means;
  Elements largest;
  Elements places;
};

bool beats(const Number& a, const Number& b) {
  if (!a.is_floating) return a.whole > b.whole;
  return a.real > b.real || (std::isnan(a.real) && !std::isnan(b.real));
}

Reduced reduced(const Tensor& matrix, std::int64_t dim) {
  const bool floats = is_floating(matrix.dtype());
  const DType summed = floats ? matrix.dtype() : DType::kI64;
  const Tensor lines = dim == 1 ? matrix : matrix.t();
  const auto rows = static_cast<std::size_t>(lines.size(0));
  const auto columns = static_cast<std::size_t>(lines.size(1));
  const Elements x = naive::elements(lines);
  Reduced result;
  for (std::size_t i = 0; i < rows; ++i) {
    Number total = floats ? naive::real(0) : naive::whole(0);
    std::size_t best = 0;
    for (std::size_t k = 0; k < columns; ++k) {
      const Number& element = x[i * columns + k];
      total.real += element.real;
      total.whole += element.whole;
      if (beats(element, x[i * columns + best])) best = k;
    }
    result.sums.push_back(naive::converted(total, summed));
    total.real /= static_cast<double>(columns);
    result.means.push_back(naive::converted(total, summed));
    if (columns == 0) continue;
    result.largest.push_back(x[i * columns + best]);
    result.places.push_back(naive::whole(static_cast<naive::Wide>(best)));
  }
  return result;
}

void check_reductions(const std::string& what, const Tensor& matrix) {
  const DType dtype = matrix.dtype();
  const bool floats = is_floating(dtype);
  const DType summed = floats ? dtype : DType::kI64;
  for (const std::int64_t dim : {0, 1}) {
    const Reduced wanted = reduced(matrix, dim);
    const Shape shape = {matrix.size(1 - dim)};
    const std::string where = " of " + what + " over " + std::to_string(dim);
    expect_right("sum" + where, false,
                 [&] { return difference(sum(matrix, {dim}), wanted.sums, summed, shape); });
    expect_right("mean" + where, !floats,
                 [&] { return difference(mean(matrix, {dim}), wanted.means, summed, shape); });
    if (matrix.size(dim) == 0) continue;
    expect_right("max" + where, dtype == DType::kU64, [&] {
      const auto [values, places] = max(matrix, dim);
      const std::string wrong = difference(values, wanted.largest, dtype, shape);
      return wrong.empty() ? difference(places, wanted.places, DType::kI64, shape) : wrong;
    });
  }
  const Tensor row = matrix.reshape({1, matrix.numel()});
  expect_right("sum of all of " + what, false,
               [&] { return difference(sum(matrix), reduced(row, 1).sums, summed, {}); });
  if (matrix.numel() == 0) return;
  expect_right("max of all of " + what, dtype == DType::kU64,
               [&] { return difference(max(matrix), reduced(row, 1).largest, dtype, {}); });
}

}  // namespace

void sweep_reductions(Device device) {
  for (const DType dtype : kAll) {
    for (const bool finite : {true, false}) {
      const auto make = [&](std::int64_t count) {
        return pattern(count, dtype, true, finite).to(device);
      };
      const std::string name = std::string(name_of(dtype)) + (finite ? ", " : ", any values, ");
      for (const std::int64_t n : sizes_on(device)) {
        check_reductions(name + "3 x " + std::to_string(n), make(3 * n).view({3, n}));
        check_reductions(name + std::to_string(n) + " x 3", make(3 * n).view({n, 3}));
      }
      check_reductions(name + "strided", make(5 * 66).view({5, 66}).slice(1, 0, 66, 2));
      check_reductions(name + "not aligned", make(35).narrow(0, 2, 33).view({3, 11}));
      if (finite && size_of(dtype) != 2) {
        check_reductions(name + "large", make(2 * large_on(device)).view({2, large_on(device)}));
      }
    }
  }
}

}  // namespace dl::testing
