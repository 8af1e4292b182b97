#include "tests/core/ops/composed_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/dispatch/kernel_names.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/product.h"
#include "core/ops/logic/search.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"

namespace dl::testing {
namespace {

using Inputs = std::vector<Tensor>;
using Numbers = std::vector<double>;
using indexing::Ellipsis;
using indexing::None;
using indexing::Slice;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

thread_local Device device_of_cases;

// As tensor(), on the device of the cases.
template <typename T>
Tensor placed(std::initializer_list<T> values) {
  return tensor(values).to(device_of_cases);
}
template <typename T>
Tensor placed(std::initializer_list<std::initializer_list<T>> rows) {
  return tensor(rows).to(device_of_cases);
}

Tensor weighted(const std::vector<Tensor>& parts, std::int64_t dim, bool stacked = false) {
  std::vector<Tensor> scaled;
  for (const Tensor& part : parts) scaled.push_back(part * static_cast<double>(scaled.size() + 1));
  return stacked ? stack(scaled, dim) : cat(scaled, dim);
}

Tensor assigned(const Tensor& x, const std::function<void(Tensor&)>& write) {
  Tensor y = x.clone();
  write(y);
  return y;
}

Tensor both(const std::pair<Tensor, Tensor>& two) {
  return stack({two.first, two.second});
}

Tensor reduced_to(const Inputs& in, std::string_view reduce, bool include_self) {
  return in[0].scatter_reduce(1, placed({{3, 3}, {1, 2}, {2, 2}}), in[1], reduce,
                              {.include_self = include_self});
}

Tensor odd_numbers() {
  return placed({1.0, kNaN, kInf, -kInf, 0.0});
}
Tensor truths() {
  return placed({0.0, 2.0, -1.0, kNaN});
}

}  // namespace

// clang-format off
const std::vector<ComposedCase>& composed_cases() {
  using I = const Inputs&;
  static const std::vector<ComposedCase> cases{
      {"pow", [](I in) { return pow(abs(in[0]) + 0.3, in[1]); }},
      {"pow of a number", [](I in) { return pow(1.7, in[0]); }},
      {"pow to a number", [](I in) { return in[0].pow(3); }},
      {"pow of integers", [](I) { return placed({2, -3, 0, 7, -1, 1}).pow(placed({10, 3, 0, -1, -3, -2})); }},
      {"pow of integers to a number", [](I) { return pow(placed({2, -3, 0, 7}), 5); }},
      {"atan2", [](I in) { return in[0].atan2(in[1]); }},
      {"fmod", [](I in) { return in[0].fmod(in[1]); }},
      {"fmod by a number", [](I in) { return fmod(in[0], -0.7); }},
      {"fmod of integers", [](I) { return fmod(placed({7, -7, 7, -7, 0}), placed({3, 3, -3, -3, 5})); }},
      {"remainder", [](I in) { return in[0] % in[1]; }},
      {"remainder by a number", [](I in) { return in[0] % -0.7; }},
      {"remainder of integers", [](I) { return placed({7, -7, 7, -7, 0}) % placed({3, 3, -3, -3, 5}); }},
      {"floor_divide", [](I in) { return in[0].floor_divide(in[1]); }},
      {"floor_divide of integers", [](I) { return floor_divide(placed({7, -7, 7, -7, 0}), placed({3, 3, -3, -3, 5})); }},
      {"lerp", [](I in) { return lerp(in[0], in[1], in[2]); }},
      {"lerp by a number", [](I in) { return in[0].lerp(in[1], 0.3); }},
      {"where", [](I in) { return where(in[0] > 0.1, in[0], in[1]); }},
      {"where with a number", [](I in) { return where(in[0] > 0.1, in[0], -1.5); }},
      {"clamp by tensors", [](I in) { return in[0].clamp(in[1] - 0.5, in[2] + 0.5); }},
      {"clamp from below", [](I in) { return in[0].clamp_min(-0.3); }},
      {"clamp from above", [](I in) { return in[0].clamp({}, 0.3); }},
      {"clamp of integers", [](I) { return placed({-5, 0, 3, 9}).clamp(-1, 4); }},
      {"clamp of integers by a half", [](I) { return placed({-5, 0, 3, 9}).clamp(0.5, 4); }},
      {"masked_fill", [](I in) { return in[0].masked_fill(in[0] > 0.2, -3.5); }},
      {"masked_fill by a tensor", [](I in) { return (in[0] * 2).masked_fill(placed({true, false, true, false}), in[1]); }},
      {"hypot", [](I in) { return in[0].hypot(in[1]); }},
      {"logaddexp", [](I in) { return in[0].logaddexp(in[1]); }},
      {"logaddexp2", [](I in) { return in[0].logaddexp2(in[1]); }},
      {"xlogy", [](I in) { return in[0].xlogy(abs(in[1])); }},
      {"xlogy of a number", [](I in) { return xlogy(-2.5, abs(in[0])); }},
      {"xlogy with a number", [](I in) { return in[0].xlogy(0.3); }},
      {"xlogy of zeros", [](I in) { return xlogy(where(in[0] > 0, in[0], 0.0), abs(in[1])); }},
      {"xlogy of integers", [](I) { return xlogy(placed({0, 2, -3, 0}), placed({0, 3, 7, -1})); }},
      {"copysign", [](I in) { return in[0].copysign(in[1]); }},
      {"copysign of a number", [](I in) { return in[0].copysign(-0.0); }},
      {"gcd", [](I) { return gcd(placed({12, -12, 0, 0, 7}), placed({18, 18, -5, 0, 13})); }},
      {"heaviside", [](I) { return placed({-3, 0, 2}).heaviside(placed({5, 7, 9})); }},
      {"addcmul", [](I in) { return in[0].addcmul(in[1], in[2], -1.5); }},
      {"addcmul of integers", [](I) { return addcmul(placed({1, 2}), placed({3, -4}), placed({5, 6}), -2); }},
      {"addcdiv", [](I in) { return in[0].addcdiv(in[1], in[2], 0.5); }},
      {"nan_to_num", [](I in) { return where(in[0] > 1, kNaN, where(in[0] < -1, -kInf, in[0])).nan_to_num(0.5, {}, -2.5); }},
      {"pow_", [](I in) { return (abs(in[0]) + 0.3).pow_(in[1]); }},
      {"hypot_", [](I in) { return (in[0] * 2).hypot_(in[1]); }},
      {"xlogy_", [](I in) { return (in[0] * 2).xlogy_(abs(in[1])); }},
      {"addcmul_", [](I in) { return (in[0] * 2).addcmul_(in[1], in[2], 3); }},
      {"lerp_", [](I in) { return (in[0] * 2).lerp_(in[1], 0.3); }},
      {"remainder_ by a number", [](I in) { return (in[0] * 2).remainder_(0.7); }},
      {"lt_", [](I in) { return in[0].detach().clone().lt_(0.3); }},
      {"cumsum_", [](I in) { return (in[0] * 2).cumsum_(1); }},
      {"index_fill_", [](I in) { return (in[0] * 2).index_fill_(1, placed({2, 0}), in[1]); }},
      {"nanmean", [](I in) { return where(in[0] > 1, kNaN, in[0]).nanmean(1); }},
      {"nansum of all", [](I in) { return where(in[0] > 1, kNaN, in[0]).nansum(); }},
      {"aminmax", [](I in) { return both(in[0].aminmax(1)); }},
      {"cumprod", [](I in) { return in[0].cumprod(1); }},
      {"cumprod of zeros", [](I in) { return where(abs(in[0]) < 0.5, 0.0, in[0]).cumprod(0); }},
      {"cumprod of integers", [](I) { return placed({2, -3, 4}).cumprod(0); }},
      {"median", [](I in) { return in[0].median(1).first; }},
      {"median of all", [](I in) { return in[0].median(); }},
      {"median with NaN", [](I) { return placed({{1.0, kNaN, 0.0, 2.0}, {3.0, 1.0, 2.0, 0.0}}).median(1).second; }},
      {"nanmedian", [](I in) { return where(in[0] > 1, kNaN, in[0]).nanmedian(0, {.keepdim = true}).first; }},
      {"nanmedian of all", [](I in) { return where(in[0] > 1, kNaN, in[0]).nanmedian(); }},
      {"quantile", [](I in) { return in[0].quantile(0.3, 1); }},
      {"quantile of all", [](I in) { return quantile(in[0], 0.77, {}, {.keepdim = true}); }},
      {"quantile of several shares", [](I in) { return quantile(in[0], placed({0.0, 0.41, 1.0}).to(in[0].dtype()), 0, {.keepdim = true}); }},
      {"quantile, lower", [](I in) { return quantile(in[0], 0.4, 1, {.interpolation = "lower"}); }},
      {"quantile, midpoint", [](I in) { return quantile(in[0], 0.4, 1, {.interpolation = "midpoint"}); }},
      {"quantile, nearest", [](I in) { return quantile(in[0], 0.4, 1, {.interpolation = "nearest"}); }},
      {"quantile with NaN", [](I in) { return quantile(where(in[0] > 1.9, kNaN, in[0].detach()), 0.5, 1).isnan(); }},
      {"nanquantile", [](I in) { return where(in[0] > 1, kNaN, in[0]).nanquantile(0.3, -1); }},
      {"nanquantile of several shares", [](I in) { return nanquantile(where(in[0] > 1, kNaN, in[0]), placed({0.9, 0.2}).to(in[0].dtype())); }},
      {"kthvalue", [](I in) { return in[0].kthvalue(3, 1).first; }},
      {"kthvalue's place", [](I in) { return in[0].kthvalue(2, 0, {.keepdim = true}).second; }},
      {"mode", [](I in) { return (round(in[0]) * in[0] / in[0]).mode().first; }},
      {"mode's place", [](I) { return mode(placed({{3, 1, 3, 1, 2}, {5, 4, 4, 5, 5}, {7, 6, 5, 4, 3}})).second; }},
      {"mode of columns", [](I) { return mode(placed({{3., 1., 4.}, {3., 7., 4.}, {2., 1., 0.5}}), 0, {.keepdim = true}).first; }},
      {"searchsorted", [](I in) { return searchsorted(sort(in[0], 1).first, in[1].detach().expand({3, 5})); }},
      {"searchsorted, right", [](I) {
         return searchsorted(placed({1, 3, 3, 5, 9}), placed({{3, 0}, {9, 10}}), {.right = true});
       }},
      {"searchsorted with NaN", [](I) { return searchsorted(placed({1.0, 2.0, kNaN}), placed({kNaN, 5.0, 2.0})); }},
      {"searchsorted of a number", [](I) { return searchsorted(placed({1, 3, 3, 5, 9}), 3.5); }},
      {"searchsorted with a sorter", [](I) {
         const Tensor mixed = placed({9, 1, 5, 3});
         return searchsorted(mixed, placed({4, 9, 0}), {.sorter = argsort(mixed)});
       }},
      {"bucketize", [](I in) { return bucketize(in[0].detach(), placed({-1.0, -0.2, 0.4, 1.1})); }},
      {"bucketize, right", [](I) { return bucketize(placed({{3, 6, 9}, {3, 6, 9}}), placed({1, 3, 5, 7, 9}), {.right = true}); }},
      {"unique rows", [](I) {
         const UniqueResult found = unique(placed({{2, 1}, {0, 5}, {2, 1}, {0, 4}}), 0, {.return_inverse = true, .return_counts = true});
         return cat({found.values.view({-1}), found.inverse, found.counts});
       }},
      {"unique columns", [](I) { return unique(placed({{2, 1, 2}, {0, 5, 0}}), -1).values; }},
      {"unique", [](I) { return unique(placed({3, 1, 3, 0, 1})).values; }},
      {"unique, the inverse", [](I) { return unique(placed({{3, 1, 3}, {0, 1, 1}}), {.return_inverse = true}).inverse; }},
      {"unique, the counts", [](I) { return unique(placed({3, 1, 3, 0, 1}), {.return_counts = true}).counts; }},
      {"unique_consecutive", [](I) {
         const UniqueResult found = unique_consecutive(placed({3, 3, 1, 3, 3, 3}), {.return_counts = true});
         return stack({found.values, found.counts});
       }},
      {"bincount", [](I) { return bincount(placed({3, 1, 3, 0, 1}), {}, 6); }},
      {"bincount with weights", [](I) { return placed({3, 1, 3}).bincount(placed({0.5, 1.0, 2.0})); }},
      {"bitwise_left_shift", [](I) { return placed({1, -2, 3, 4}).bitwise_left_shift(placed({3, 70, -1, 63})); }},
      {"bitwise_right_shift", [](I) { return placed({100, -2, 3, -5}).bitwise_right_shift(placed({3, 70, -1, 1})); }},
      {"logical_and", [](I in) { return logical_and(in[0] > 0, truths()); }},
      {"logical_or", [](I in) { return logical_or(in[0] > 0, truths()); }},
      {"logical_xor", [](I in) { return logical_xor(in[0] > 0, truths()); }},
      {"logical_not", [](I in) { return (in[0] > 0).logical_not(); }},
      {"bitwise_and", [](I) { return placed({12, -5, 7}) & placed({10, 6, -1}); }},
      {"bitwise_or", [](I) { return placed({12, -5, 7}) | 9; }},
      {"bitwise_xor", [](I) { return placed({12, -5, 7}) ^ placed({10, 6, -1}); }},
      {"bitwise_not", [](I) { return ~placed({12, -5, 7}); }},
      {"bits of bools", [](I in) { return ((in[0] > 0) & (in[0] < 1)) | (~(in[0] > -1) ^ (in[0] > 1.5)); }},
      {"isnan", [](I) { return odd_numbers().isnan(); }},
      {"isinf", [](I) { return odd_numbers().isinf(); }},
      {"isfinite", [](I) { return odd_numbers().isfinite(); }},
      {"isclose", [](I) { return placed({1.0, 1.0, kNaN, kInf, 0.0}).isclose(placed({1.000009, 1.0001, kNaN, kInf, 1e-9})); }},
      {"gather", [](I in) { return in[0].gather(1, placed({{3, 0}, {1, 1}, {2, 2}})); }},
      {"gather of a part", [](I in) { return gather(in[0], 0, placed({{3, 0}, {1, 1}})); }},
      {"scatter", [](I in) { return in[0].scatter(1, placed({{3, 0}, {1, 2}, {2, 0}}), in[1]); }},
      {"scatter a number", [](I in) { return in[0].scatter(0, placed({{1, 0, 1, 2}}), 2.5); }},
      {"scatter_add", [](I in) { return in[0].scatter_add(1, placed({{3, 3}, {1, 2}, {2, 2}}), in[1]); }},
      {"index_add", [](I in) { return in[0].index_add(1, placed({2, 0, 2}), in[1], -1.5); }},
      {"index_select", [](I in) { return in[0].index_select(1, placed({2, 0, 2})); }},
      {"index_copy", [](I in) { return in[0].index_copy(1, placed({2, 0, 3}), in[1]); }},
      {"index_fill", [](I in) { return in[0].index_fill(1, placed({2, 0, -1}), -1.5); }},
      {"index_fill by a tensor", [](I in) { return in[0].index_fill(0, placed({2, 0}), in[1]); }},
      {"masked_scatter", [](I in) { return in[0].masked_scatter(placed({true, false, true, false}), in[1]); }},
      {"scatter_reduce sum", [](I in) { return reduced_to(in, "sum", true); }},
      {"scatter_reduce prod", [](I in) { return reduced_to(in, "prod", true); }},
      {"scatter_reduce mean", [](I in) { return reduced_to(in, "mean", true); }},
      {"scatter_reduce amax", [](I in) { return reduced_to(in, "amax", true); }},
      {"scatter_reduce amin", [](I in) { return reduced_to(in, "amin", true); }},
      {"scatter_reduce of the source alone, sum", [](I in) { return reduced_to(in, "sum", false); }},
      {"scatter_reduce of the source alone, prod", [](I in) { return reduced_to(in, "prod", false); }},
      {"scatter_reduce of the source alone, mean", [](I in) { return reduced_to(in, "mean", false); }},
      {"scatter_reduce of the source alone, amax", [](I in) { return reduced_to(in, "amax", false); }},
      {"scatter_reduce of the source alone, amin", [](I in) { return reduced_to(in, "amin", false); }},
      {"scatter_reduce of zeros", [](I in) {
         return where(in[0] > 1, 0.0, in[0]).scatter_reduce(0, placed({{1, 0, 1, 2}, {1, 1, 1, 2}}), where(in[1] > 0.5, 0.0, in[1]), "prod");
       }},
      {"scatter_reduce of integers", [](I) { return placed({7, 1, 2}).scatter_reduce(0, placed({0, 0, 2}), placed({3, -20, 8}), "mean"); }},
      {"take", [](I in) { return in[0].take(placed({{5, 0}, {-1, 5}})); }},
      {"take_along_dim", [](I in) { return in[0].take_along_dim(placed({{3, 0}}), 1); }},
      {"masked_select", [](I in) { return in[0].masked_select(placed({true, false, true, true})); }},
      {"nonzero", [](I in) { return (in[0] > 0.3).nonzero(); }},
      {"one_hot", [](I) { return one_hot(placed({{2, 0}, {1, 2}}), 4); }},
      {"index with integers", [](I in) { return in[0].index({1, -1}); }},
      {"index with slices", [](I in) { return in[0].index({Slice(1, None), Slice(None, None, 2), None, "...", Slice(-3, -1)}); }},
      {"index with a tensor", [](I in) { return in[0].index({placed({2, 0, -1, 2})}); }},
      {"index with tensors", [](I in) { return in[0].index({placed({{2}, {0}}), Slice(), placed({1, -1, 0})}); }},
      {"index with adjacent tensors", [](I in) { return in[0].index({Slice(), placed({{2}, {0}}), placed({1, -1, 0})}); }},
      {"index with all kinds", [](I in) { return in[0].index({1, Ellipsis, placed({1, -1, 0}), None, Slice(1, 3)}); }},
      {"index with a mask", [](I in) { return in[0].index({in[0] > 0.3}); }},
      {"index with a mask of rows", [](I in) { return in[0].index({Slice(), placed({true, false, true, true})}); }},
      {"index_put_", [](I in) { return assigned(in[0], [&](Tensor& y) { y.index_put_({placed({2, 0, 1})}, in[1]); }); }},
      {"index_put_ that adds", [](I in) {
         const TensorIndex places[] = {placed({2, 0, 2}), placed({1, 1, 1})};
         return assigned(in[0], [&](Tensor& y) { index_put_(y, places, in[1], {.accumulate = true}); });
       }},
      {"assignment to slices", [](I in) { return assigned(in[0], [&](Tensor& y) { y.index({Slice(1, None), Slice(None, None, 2)}) = in[1]; }); }},
      {"assignment to a mask", [](I in) { return assigned(in[0], [&](Tensor& y) { y.index({in[0] > 0.3}) = -1.0; }); }},
      {"assignment to mixed places", [](I in) { return assigned(in[0], [&](Tensor& y) { y.index({1, Slice(), placed({0, 3})}) = in[1]; }); }},
      {"split", [](I in) { return weighted(in[0].split(2, 1), 1); }},
      {"split by sizes", [](I in) { return weighted(in[0].split({1, 3, 0, 1}, 1), 1); }},
      {"chunk", [](I in) { return weighted(in[0].chunk(3), 0); }},
      {"unbind", [](I in) { return weighted(in[0].unbind(1), 0, true); }},
      {"movedim", [](I in) { return in[0].movedim({0, 2}, {-1, 0}); }},
      {"swapaxes", [](I in) { return in[0].swapaxes(0, -1); }},
      {"ravel", [](I in) { return in[0].mT().ravel(); }},
      {"atleast_1d", [](I in) { return cat({atleast_1d(in[0]), atleast_1d(in[1])}); }},
      {"atleast_2d", [](I in) { return cat({atleast_2d(in[0]), atleast_2d(in[1]).T()}); }},
      {"atleast_3d", [](I in) { return cat({atleast_3d(in[0]), atleast_3d(in[1]).transpose(0, 1), atleast_3d(in[2])}, 1); }},
      {"hstack", [](I in) { return hstack({in[0], in[1]}); }},
      {"hstack of vectors", [](I in) { return hstack(in); }},
      {"vstack", [](I in) { return vstack({in[0], in[1]}); }},
      {"dstack", [](I in) { return dstack(in); }},
      {"T", [](I in) { return in[0].T(); }},
      {"mT", [](I in) { return in[0].mT(); }},
      {"unflatten", [](I in) { return in[0].unflatten(1, {2, -1}); }},
      {"expand_as", [](I in) { return in[0].expand_as(in[1]) * in[1]; }},
      {"view_as", [](I in) { return in[0].reshape_as(in[1]) * in[1]; }},
      {"meshgrid", [](I in) { return stack(meshgrid(in, GridIndexing::kXY)); }},
      {"repeat", [](I in) { return in[0].repeat({2, 1, 3}); }},
      {"tile", [](I in) { return in[0].tile({3}); }},
      {"repeat_interleave", [](I in) { return in[0].repeat_interleave(2, 1); }},
      {"repeat_interleave by a tensor", [](I in) { return in[0].repeat_interleave(placed({2, 0, 3}), 1); }},
      {"flip", [](I in) { return in[0].flip({0, -1}); }},
      {"fliplr", [](I in) { return in[0].fliplr(); }},
      {"flipud", [](I in) { return in[0].flipud(); }},
      {"roll", [](I in) { return in[0].roll({1, -2}, {0, 1}); }},
      {"roll of all", [](I in) { return in[0].roll({4}); }},
      {"tril", [](I in) { return in[0].tril(-1); }},
      {"triu", [](I in) { return in[0].triu(1); }},
      {"diagonal", [](I in) { return in[0].diagonal(1, 0, 2); }},
      {"trace", [](I in) { return in[0].trace(); }},
      {"diag of a matrix", [](I in) { return in[0].diag(-1); }},
      {"diag of a vector", [](I in) { return in[0].diag(2); }},
      {"pixel_shuffle", [](I in) { return pixel_shuffle(in[0], 2); }},
      {"pixel_unshuffle", [](I in) { return pixel_unshuffle(in[0], 3); }},
      {"channel_shuffle", [](I in) { return channel_shuffle(in[0], 3); }},
      {"prelu", [](I in) { return prelu(in[0], in[1]); }},
      {"prelu of one", [](I in) { return prelu(in[0], in[1]); }},
      {"glu", [](I in) { return glu(in[0], 1); }},
      {"pad", [](I in) { return pad(in[0], {1, 2, 0, 3}, PadMode::kConstant, 0.5); }},
      {"pad that cuts", [](I in) { return pad(in[0], {-1, 2, 1, -2}); }},
      {"pad by reflection", [](I in) { return pad(in[0], {2, 1}, PadMode::kReflect); }},
      {"pad by replication", [](I in) { return pad(in[0], {2, 3, 1, 0}, PadMode::kReplicate); }},
      {"pad in a circle", [](I in) { return pad(in[0], {2, 3}, PadMode::kCircular); }},
      {"mm", [](I in) { return in[0].mm(in[1]); }},
      {"bmm", [](I in) { return in[0].bmm(in[1]); }},
      {"matmul of batches", [](I in) { return in[0].matmul(in[1]); }},
      {"matmul with one matrix", [](I in) { return in[0].matmul(in[1]); }},
      {"matmul of transposes", [](I in) { return in[0].mT().matmul(in[1].mT()); }},
      {"mv", [](I in) { return in[0].mv(in[1]); }},
      {"dot", [](I in) { return in[0].dot(in[1]); }},
      {"outer", [](I in) { return in[0].outer(in[1]); }},
      {"addmm", [](I in) { return addmm(in[0], in[1], in[2], {.beta = 0.5, .alpha = -2}); }},
      {"addmv", [](I in) { return in[0].addmv(in[1], in[2], {.beta = 0.5, .alpha = -2}); }},
      {"addr", [](I in) { return addr(in[0], in[1], in[2], {.alpha = 3}); }},
      {"baddbmm", [](I in) { return in[0].baddbmm(in[1], in[2], {.beta = 0.5, .alpha = -2}); }},
      {"addbmm", [](I in) { return in[0].addbmm(in[1], in[2], {.beta = 0.5, .alpha = -2}); }},
      {"tensordot", [](I in) { return tensordot(in[0], in[1]); }},
      {"tensordot of named dimensions", [](I in) { return tensordot(in[0], in[1], {0, -1}, {2, 0}); }},
      {"einsum", [](I in) { return einsum("ij,jk->ik", in[0], in[1]); }},
      {"einsum of a batch", [](I in) { return einsum("bnqd, bnkd -> bqnk", in[0], in[1]); }},
      {"einsum of a transpose", [](I in) { return einsum("ba", in[0]); }},
      {"einsum of a trace", [](I in) { return einsum("ii", in[0]); }},
      {"einsum of diagonals", [](I in) { return einsum("iji->ij", in[0]); }},
      {"einsum with dots", [](I in) { return einsum("...ij,...jk", in[0], in[1]); }},
      {"einsum with dots inside", [](I in) { return einsum("a...b,b->...a", in[0], in[1]); }},
      {"einsum that sums dots", [](I in) { return einsum("...i->i", in[0]); }},
      {"einsum without a sum", [](I in) { return einsum("i,j->ij", in[0], in[1]); }},
      {"einsum of products", [](I in) { return einsum("ij,ij->", in[0], in[1]); }},
      {"einsum of three", [](I in) { return einsum("bi,oij,bj->bo", in[0], in[1], in[2]); }},
      {"einsum of four", [](I in) { return einsum("ab,bc,cd,da->bd", in); }},
      {"einsum with size 1", [](I in) { return einsum("ij,jk->ik", in[0], in[1]); }},
      {"einsum in upper case", [](I in) { return einsum("bA,aB", in[0], in[1]); }},
      {"einsum with a diagonal in a product", [](I in) { return einsum("iij,jk", in[0], in[1]); }},
      {"einsum of numbers", [](I in) { return einsum(",i->i", in[0], in[1]); }},
      {"einsum of integers", [](I) { return einsum("ij,kj->ki", arange(-6, 6).view({3, 4}), arange(8).view({2, 4})); }},
      {"matmul of integers", [](I) { return arange(-6, 6).view({3, 4}).matmul(arange(8).view({4, 2})); }},
      {"linspace", [](I) { return linspace(-1, 2, 7, {.dtype = DType::kF64}); }},
      {"logspace", [](I) { return logspace(-1, 2, 7, 2, {.dtype = DType::kF64}); }},
      {"eye", [](I) { return eye(3, 4, {.dtype = DType::kF64}); }}};
  return cases;
}
// clang-format on

namespace {

Shape shape_of(const parity::Arrays& arrays, const std::string& name) {
  Shape shape;
  for (const std::size_t size : arrays.shape(name)) {
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

Numbers numbers_of(const parity::Arrays& arrays, const std::string& name) {
  const auto as_numbers = [](const auto& values) { return Numbers(values.begin(), values.end()); };
  const std::string& dtype = arrays.dtype(name);
  if (dtype == "I64") return as_numbers(arrays.get<std::int64_t>(name));
  if (dtype == "BOOL") return as_numbers(arrays.get<std::uint8_t>(name));
  if (dtype == "F32") return as_numbers(arrays.get<float>(name));
  return arrays.get<double>(name);
}

DType dtype_of(const parity::Arrays& arrays, const std::string& name, DType floating) {
  const std::string& dtype = arrays.dtype(name);
  if (dtype == "I64") return DType::kI64;
  return dtype == "BOOL" ? DType::kBool : dtype == "F32" ? DType::kF32 : floating;
}

}  // namespace

OnDeviceOfCases::OnDeviceOfCases(Device device) {
  device_of_cases = device;
}
OnDeviceOfCases::~OnDeviceOfCases() {
  device_of_cases = {};
}

std::vector<Tensor> inputs_of(const parity::Arrays& arrays, const std::string& name, DType dtype) {
  Inputs inputs;
  for (std::size_t i = 0; arrays.has(name + ".x" + std::to_string(i)); ++i) {
    const std::string array = name + ".x" + std::to_string(i);
    const Tensor x = tensor(arrays.get<double>(array), {.dtype = dtype});
    inputs.push_back(x.view(shape_of(arrays, array)).clone());
  }
  return inputs;
}

namespace {

// Copies x into memory with a gap after each element, its dimensions in reverse order.
Tensor scattered(const Tensor& x, Device device) {
  Shape shape = x.sizes();
  std::reverse(shape.begin(), shape.end());
  shape.push_back(2);
  Tensor y = full(shape, 9.0, {.dtype = x.dtype(), .device = device}).select(-1, 1).T();
  return y.copy_(x.to(device));
}

void expect_numbers(const Tensor& got, const Numbers& wanted, double share,
                    const std::string& what) {
  const Numbers numbers = values<double>(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  double largest = 0;
  for (const double x : wanted) largest = std::max(largest, std::isfinite(x) ? std::abs(x) : 0);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], share * largest) << what << " [" << i << "]";
  }
}

}  // namespace

void check_composed(const ComposedCase& c, const parity::Arrays& arrays, DType dtype, bool dense,
                    Device device, double errors) {
  const OnDeviceOfCases here(device);
  const std::string name = c.name;
  const std::string what =
      name + " in " + std::string(name_of(dtype)) + (dense ? "" : ", scattered");
  const double share = errors * (dtype == DType::kF64 ? 1e-12 : 2e-6);
  Inputs inputs = inputs_of(arrays, name, dtype);
  for (Tensor& x : inputs) x = (dense ? x.to(device) : scattered(x, device)).requires_grad_();
  const Tensor y = c.f(inputs);
  const bool shows_input =
      std::ranges::any_of(inputs, [&](const Tensor& x) { return x.storage() == y.storage(); });
  EXPECT_TRUE(shows_input || !y.impl()->base) << what << ": a view of a temporary";
  EXPECT_EQ(y.sizes(), shape_of(arrays, name + ".y")) << what;
  EXPECT_EQ(y.dtype(), dtype_of(arrays, name + ".y", inputs.empty() ? y.dtype() : dtype)) << what;
  expect_numbers(y.detach().cpu(), numbers_of(arrays, name + ".y"), share, what);
  const bool has_gradient = arrays.has(name + ".g0");
  EXPECT_EQ(y.requires_grad(), has_gradient) << what;
  if (!has_gradient || !y.requires_grad()) return;
  const Tensor seed = arange(y.numel()) % 7 - 3;
  y.backward((seed.to(dtype) / 2).view(y.sizes()).to(y.device()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string gradient = name + ".g" + std::to_string(i);
    expect_numbers(inputs[i].grad().cpu(), arrays.get<double>(gradient), share,
                   what + ", " + gradient);
  }
}

}  // namespace dl::testing
