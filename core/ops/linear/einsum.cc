#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "core/ops/common.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/linear/product.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace dl {
namespace {

constexpr std::string_view kName = "einsum";
constexpr std::string_view kDots = "...";

// The dimensions that a term of the equation names: letters, and '.' for "...".
using Letters = std::string;

Letters letters_of(std::string_view term, std::string_view equation) {
  Letters letters;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == ' ') continue;
    if (term.substr(i).starts_with(kDots) && letters.find('.') == Letters::npos) {
      letters += '.';
      i += kDots.size() - 1;
      continue;
    }
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    DL_CHECK(is_letter, kInvalidArgument,
             "{}: '{}' in \"{}\" is no letter; wanted letters and one \"...\" an operand, as in "
             "\"bij,bjk->bik\"",
             kName, c, equation);
    letters += c;
  }
  return letters;
}

// What the equation says of these operands.
struct Sum {
  std::vector<Letters> operands;
  Letters result;
  std::size_t dots = 0;  // the dimensions of "..."
};

// The dimensions of an operand's "...".
std::size_t dots_of(const Letters& letters, const Tensor& operand, std::size_t number) {
  const bool has_dots = letters.find('.') != Letters::npos;
  const std::size_t named = letters.size() - (has_dots ? 1 : 0);
  const auto rank = static_cast<std::size_t>(operand.dim());
  DL_CHECK(has_dots ? rank >= named : rank == named, kShape,
           "{}: operand {} has shape {}, the equation names {}{} dimensions of it", kName, number,
           operand.sizes().str(), has_dots ? "at least " : "", named);
  return rank - named;
}

Letters implied_result(const std::vector<Letters>& operands) {
  const Letters all = std::accumulate(operands.begin(), operands.end(), Letters());
  Letters result = all.find('.') == Letters::npos ? "" : ".";
  Letters sorted = all;
  std::ranges::sort(sorted);
  for (const char c : sorted) {
    if (c != '.' && std::ranges::count(all, c) == 1) result += c;
  }
  return result;
}

Sum read(std::string_view equation, std::span<const Tensor> operands) {
  Sum sum;
  const std::size_t arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  for (bool more = true; more;) {
    const std::size_t comma = left.find(',');
    sum.operands.push_back(letters_of(left.substr(0, comma), equation));
    more = comma != std::string_view::npos;
    if (more) left.remove_prefix(comma + 1);
  }
  DL_CHECK(sum.operands.size() == operands.size(), kInvalidArgument,
           "{}: \"{}\" names {} operands, got {}", kName, equation, sum.operands.size(),
           operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    check_defined(operands[i], kName, "an operand");
    sum.dots = std::max(sum.dots, dots_of(sum.operands[i], operands[i], i));
  }
  if (arrow == std::string_view::npos) {
    sum.result = implied_result(sum.operands);
    return sum;
  }
  sum.result = letters_of(equation.substr(arrow + 2), equation);
  for (const char c : sum.result) {
    DL_CHECK(std::ranges::count(sum.result, c) == 1, kInvalidArgument,
             "{}: the result of \"{}\" has '{}' twice", kName, equation, c);
    const bool is_there = std::ranges::any_of(
        sum.operands, [&](const Letters& letters) { return letters.find(c) != Letters::npos; });
    DL_CHECK(c == '.' || is_there, kInvalidArgument,
             "{}: the result of \"{}\" has '{}', but no operand has it", kName, equation, c);
  }
  return sum;
}

// The dimensions in which all operands are multiplied: those of the result, then the summed ones.
struct Places {
  std::array<std::size_t, 128> of{};  // of a letter; of '.', the first one of "..."
  std::size_t result = 0;
  std::size_t all = 0;
};

Places places_of(const Sum& sum) {
  Places places;
  Letters seen;
  const auto add = [&](const Letters& letters) {
    for (const char c : letters) {
      if (seen.find(c) != Letters::npos) continue;
      seen += c;
      places.of[static_cast<std::size_t>(c)] = places.all;
      places.all += c == '.' ? sum.dots : 1;
    }
  };
  add(sum.result);
  places.result = places.all;
  for (const Letters& letters : sum.operands) add(letters);
  return places;
}

// The operand with all dimensions in their places, of size 1 if it lacks them.
Tensor placed(Tensor operand, Letters letters, const Sum& sum, const Places& places,
              std::size_t number) {
  const std::size_t own_dots = dots_of(letters, operand, number);
  const std::size_t dots = letters.find('.');
  if (dots != Letters::npos) letters.replace(dots, 1, own_dots, '.');
  for (std::size_t i = 0; i < letters.size(); ++i) {
    while (letters[i] != '.' && letters.find(letters[i], i + 1) != Letters::npos) {
      const std::size_t j = letters.find(letters[i], i + 1);
      const auto first = static_cast<std::int64_t>(i);
      const auto second = static_cast<std::int64_t>(j);
      DL_CHECK(operand.size(first) == operand.size(second), kShape,
               "{}: operand {} has '{}' twice, with the sizes {} and {}", kName, number, letters[i],
               operand.size(first), operand.size(second));
      operand = movedim(diagonal(operand, 0, first, second), -1, first);
      letters.erase(j, 1);
    }
  }
  std::vector<std::pair<std::size_t, std::int64_t>> dims;  // place, dimension
  std::size_t dot = 0;
  for (std::size_t d = 0; d < letters.size(); ++d) {
    const std::size_t first = places.of[static_cast<std::size_t>(letters[d])];
    const std::size_t place = letters[d] == '.' ? first + sum.dots - own_dots + dot++ : first;
    dims.emplace_back(place, static_cast<std::int64_t>(d));
  }
  std::ranges::sort(dims);
  Dims order;
  for (const auto& [place, d] : dims) order.push_back(d);
  Tensor result = operand.permute(order);
  std::size_t next = 0;
  for (std::size_t place = 0; place < places.all; ++place) {
    if (next < dims.size() && dims[next].first == place) {
      ++next;
    } else {
      result = result.unsqueeze(static_cast<std::int64_t>(place));
    }
  }
  return result;
}

// The sizes of all places; a size of 1 is broadcast.
Shape common_sizes(const std::vector<Tensor>& operands, std::size_t rank) {
  Shape sizes(rank, 1);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Shape& own = operands[i].sizes();
    for (std::size_t d = 0; d < rank; ++d) {
      DL_CHECK(own[d] == sizes[d] || own[d] == 1 || sizes[d] == 1, kShape,
               "{}: a dimension of operand {} has size {}, an operand before has {}", kName, i,
               own[d], sizes[d]);
      if (own[d] != 1) sizes[d] = own[d];
    }
  }
  return sizes;
}

// left right, summed over the dimensions `summed`, which stay with size 1: a batch of matrix
// products over the dimensions that both have.
Tensor multiplied(Tensor left, Tensor right, const std::vector<bool>& summed) {
  Dims only_left;
  Dims only_right;
  Dims both;
  Dims inner;
  Dims left_alone;
  Dims right_alone;
  Dims ones;  // of size 1 in the product
  for (std::size_t d = 0; d < summed.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    const bool in_left = left.size(dim) != 1;
    const bool in_right = right.size(dim) != 1;
    if (summed[d] && in_left && in_right) {
      inner.push_back(dim);
    } else if (summed[d]) {
      if (in_left) left_alone.push_back(dim);
      if (in_right) right_alone.push_back(dim);
      ones.push_back(dim);
    } else {
      (in_left && in_right ? both : in_left ? only_left : only_right).push_back(dim);
    }
  }
  if (!left_alone.empty()) left = sum(left, left_alone, {.keepdim = true});
  if (!right_alone.empty()) right = sum(right, right_alone, {.keepdim = true});
  if (inner.empty()) return mul(left, right);
  const auto count = [](const Tensor& tensor, const Dims& dims) {
    std::int64_t product = 1;
    for (const std::int64_t d : dims) product *= tensor.size(d);
    return product;
  };
  const auto joined = [](std::initializer_list<const Dims*> parts) {
    Dims all;
    for (const Dims* part : parts) {
      for (const std::int64_t d : *part) all.push_back(d);
    }
    return all;
  };
  const std::int64_t batch = count(left, both);
  const std::int64_t terms = count(left, inner);
  const std::int64_t rows = count(left, only_left);
  const std::int64_t columns = count(right, only_right);
  // A dimension that an operand lacks has size 1 there, and may stand anywhere.
  const Tensor a = left.permute(joined({&both, &only_left, &inner, &only_right, &ones}))
                       .reshape({batch, rows, terms});
  const Tensor b = right.permute(joined({&both, &inner, &only_right, &only_left, &ones}))
                       .reshape({batch, terms, columns});
  Shape shape;
  for (const std::int64_t d : both) shape.push_back(left.size(d));
  for (const std::int64_t d : only_left) shape.push_back(left.size(d));
  for (const std::int64_t d : only_right) shape.push_back(right.size(d));
  for (std::size_t i = 0; i < inner.size() + ones.size(); ++i) shape.push_back(1);
  const Dims from = joined({&both, &only_left, &only_right, &inner, &ones});
  Dims back(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    back[static_cast<std::size_t>(from[i])] = static_cast<std::int64_t>(i);
  }
  return matmul(a, b).view(shape).permute(back);
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands) {
  DL_CHECK(!operands.empty(), kInvalidArgument, "{}: at least one operand was wanted", kName);
  const Sum sum = read(equation, operands);
  const Places places = places_of(sum);
  std::vector<Tensor> factors;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    factors.push_back(placed(operands[i], sum.operands[i], sum, places, i));
  }
  const Shape sizes = common_sizes(factors, places.all);
  Tensor result = factors[0];
  for (std::size_t i = 1; i < factors.size(); ++i) {
    // What no later operand has is summed over now.
    std::vector<bool> summed(places.all, false);
    for (std::size_t d = places.result; d < places.all; ++d) {
      summed[d] = sizes[d] != 1 &&
                  std::all_of(factors.begin() + static_cast<std::ptrdiff_t>(i) + 1, factors.end(),
                              [&](const Tensor& later) { return later.sizes()[d] == 1; });
    }
    result = multiplied(result, factors[i], summed);
  }
  if (places.all > places.result) {
    Dims rest;
    for (std::size_t d = places.result; d < places.all; ++d) {
      rest.push_back(static_cast<std::int64_t>(d));
    }
    const Shape shape(std::span<const std::int64_t>(result.sizes()).first(places.result));
    result = factors.size() > 1 ? result.reshape(shape) : dl::sum(result, rest);
  }
  const bool shows_operand = std::ranges::any_of(
      operands, [&](const Tensor& operand) { return operand.storage() == result.storage(); });
  return shows_operand ? result : detail::drop_base(result);
}

}  // namespace dl
