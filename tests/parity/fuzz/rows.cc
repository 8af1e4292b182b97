// The operations that have a row in a list of core/, looked up by the row's name.
#include <cmath>
#include <limits>

#include "core/ops/elementwise/activation.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/elementwise/numeric.h"
#include "core/ops/logic/logic.h"
#include "core/ops/order/order.h"
#include "core/ops/reduce/reduce.h"
#include "tests/parity/fuzz/case.h"

namespace dl::fuzz {
namespace {

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);
using TwoAlong = std::pair<Tensor, Tensor> (*)(const Tensor&, std::int64_t, ReduceOptions);
using NumberFunction = Tensor (*)(const Tensor&, Scalar);

Tensor add_scaled(const Tensor& a, const Tensor& b) {
  Tensor y = a.clone();
  return y.add_(b, 2);
}

void add_binary(Operations& operations) {
  const std::pair<const char*, BinaryFunction> rows[] = {
#define DL_BINARY(enumerator, name, ...) {#name, &name},
#include "core/elementwise/list.def"
      {"gt", &gt},
      {"ge", &ge},
  };
  for (const auto& [name, f] : rows) {
    operations[name] = [f](const Case& c) { return Results{f(c[0], c[1])}; };
  }
  const std::pair<const char*, NumberFunction> with_number[] = {
      {"add", &add},
      {"sub", &sub},
      {"mul", &mul},
      {"div", &div},
      {"fmod", &fmod},
      {"remainder", &remainder},
      {"floor_divide", &floor_divide},
      {"pow", &pow},
      {"eq", &eq},
      {"ne", &ne},
      {"lt", &lt},
      {"le", &le},
      {"gt", &gt},
      {"ge", &ge},
      {"bitwise_and", &bitwise_and},
      {"bitwise_or", &bitwise_or},
      {"bitwise_xor", &bitwise_xor},
      {"bitwise_left_shift", &bitwise_left_shift},
      {"copysign", &copysign},
      {"xlogy", &xlogy},
  };
  for (const auto& [name, f] : with_number) {
    operations[std::string(name) + ".number"] = [f](const Case& c) {
      return Results{f(c[0], c.scalar("other"))};
    };
  }
  operations["sub.from_number"] = [](const Case& c) { return Results{c.scalar("other") - c[0]}; };
  operations["div.from_number"] = [](const Case& c) { return Results{c.scalar("other") / c[0]}; };
  operations["pow.from_number"] = [](const Case& c) {
    return Results{pow(c.scalar("other"), c[0])};
  };
  const std::pair<const char*, Tensor& (Tensor::*)(const Tensor&)> in_place[] = {
      {"sub_", &Tensor::sub_}, {"mul_", &Tensor::mul_}, {"div_", &Tensor::div_}};
  for (const auto& [name, f] : in_place) {
    operations[name] = [f](const Case& c) {
      Tensor y = c[0].clone();
      return Results{(y.*f)(c[1])};
    };
  }
  operations["add_"] = [](const Case& c) {
    Tensor y = c[0].clone();
    return Results{y.add_(c[1], c.scalar("alpha"))};
  };
  operations["xlogy.from_number"] = [](const Case& c) {
    return Results{xlogy(c.scalar("other"), c[0])};
  };
  operations["xlogy_"] = [](const Case& c) { return Results{c[0].clone().xlogy_(c[1])}; };
  operations["pow_"] = [](const Case& c) { return Results{c[0].clone().pow_(c[1])}; };
  operations["hypot_"] = [](const Case& c) { return Results{c[0].clone().hypot_(c[1])}; };
  operations["copysign_"] = [](const Case& c) { return Results{c[0].clone().copysign_(c[1])}; };
  operations["fmod_"] = [](const Case& c) { return Results{c[0].clone().fmod_(c[1])}; };
  operations["lt_"] = [](const Case& c) { return Results{c[0].clone().lt_(c[1])}; };
  operations["logical_and_"] = [](const Case& c) {
    return Results{c[0].clone().logical_and_(c[1])};
  };
  operations["lerp_"] = [](const Case& c) {
    return Results{c[0].clone().lerp_(c[1], c.number("weight"))};
  };
  operations["addcmul"] = [](const Case& c) {
    return Results{addcmul(c[0], c[1], c[2], c.scalar("value"))};
  };
  operations["addcmul_"] = [](const Case& c) {
    return Results{c[0].clone().addcmul_(c[1], c[2], c.scalar("value"))};
  };
  operations["addcdiv"] = [](const Case& c) {
    return Results{addcdiv(c[0], c[1], c[2], c.scalar("value"))};
  };
  operations["nan_to_num"] = [](const Case& c) {
    const auto number = [&](const char* name) {
      return c.has(name) ? std::optional<double>(c.number(name)) : std::nullopt;
    };
    return Results{nan_to_num(c[0], c.number("nan"), number("posinf"), number("neginf"))};
  };
  operations["where"] = [](const Case& c) { return Results{where(c[0], c[1], c[2])}; };
  operations["lerp"] = [](const Case& c) { return Results{lerp(c[0], c[1], c[2])}; };
  operations["lerp.number"] = [](const Case& c) {
    return Results{lerp(c[0], c[1], c.number("weight"))};
  };
  operations["clamp.tensors"] = [](const Case& c) { return Results{clamp(c[0], c[1], c[2])}; };
  operations["clamp"] = [](const Case& c) {
    return Results{clamp(c[0], c.scalar_if("min"), c.scalar_if("max"))};
  };
  operations["masked_fill"] = [](const Case& c) {
    return Results{masked_fill(c[0], c[1], c.scalar("value"))};
  };
}

DimList list_of(const Case& c) {
  return c.has("dims") ? DimList(c.dims("dims")) : DimList();
}

void add_reductions(Operations& operations) {
  for (const kernels::ReductionFacts& row : kernels::kReductionFacts) {
    if (!row.has_method) continue;
    operations[std::string(row.name)] = [fn = row.fn](const Case& c) {
      return Results{reduce(fn, c[0], list_of(c), {.keepdim = c.flag("keepdim")})};
    };
  }
  operations["var"] = [](const Case& c) {
    return Results{
        var(c[0], list_of(c), {.correction = c.number("p"), .keepdim = c.flag("keepdim")})};
  };
  operations["std"] = [](const Case& c) {
    return Results{
        std(c[0], list_of(c), {.correction = c.number("p"), .keepdim = c.flag("keepdim")})};
  };
  operations["norm"] = [](const Case& c) {
    return Results{norm(c[0], c.number("p"), list_of(c), {.keepdim = c.flag("keepdim")})};
  };
  for (const kernels::ExtremeFacts& row : kernels::kExtremeFacts) {
    operations[std::string(row.name)] = [fn = row.fn](const Case& c) -> Results {
      if (!c.has("dim")) return {extreme(fn, c[0])};
      const auto [values, places] =
          extreme(fn, c[0], c.whole("dim"), {.keepdim = c.flag("keepdim")});
      return {values, places};
    };
    operations[std::string(row.arg_name)] = [fn = row.fn](const Case& c) -> Results {
      if (!c.has("dim")) return {index_of_extreme(fn, c[0])};
      return {index_of_extreme(fn, c[0], c.whole("dim"), {.keepdim = c.flag("keepdim")})};
    };
  }
  operations["cumsum"] = [](const Case& c) { return Results{cumsum(c[0], c.whole("dim"))}; };
  operations["cumprod"] = [](const Case& c) { return Results{cumprod(c[0], c.whole("dim"))}; };
  for (const bool ignores : {false, true}) {
    operations[ignores ? "nanmedian" : "median"] = [ignores](const Case& c) -> Results {
      if (!c.has("dim")) return {ignores ? nanmedian(c[0]) : median(c[0])};
      const auto f = ignores ? static_cast<TwoAlong>(&nanmedian) : static_cast<TwoAlong>(&median);
      const auto [values, places] = f(c[0], c.whole("dim"), {.keepdim = c.flag("keepdim")});
      return {values, places};
    };
  }
  operations["kthvalue"] = [](const Case& c) {
    const auto [values, places] =
        kthvalue(c[0], c.whole("k"), c.whole("dim"), {.keepdim = c.flag("keepdim")});
    return Results{values, places};
  };
  const auto dims_if = [](const Case& c) {
    return c.has("dim") ? DimList(c.whole("dim")) : DimList();
  };
  operations["nanmean"] = [=](const Case& c) {
    return Results{nanmean(c[0], dims_if(c), {.keepdim = c.flag("keepdim")})};
  };
  operations["aminmax"] = [=](const Case& c) {
    const auto [least, most] = aminmax(c[0], dims_if(c), {.keepdim = c.flag("keepdim")});
    return Results{least, most};
  };
  for (const bool consecutive : {false, true}) {
    operations[consecutive ? "unique_consecutive" : "unique"] = [=](const Case& c) {
      const UniqueOptions all{.return_inverse = true, .return_counts = true};
      const UniqueResult found = consecutive ? unique_consecutive(c[0], all) : unique(c[0], all);
      return Results{found.values, found.inverse, found.counts};
    };
  }
  operations["sort"] = [](const Case& c) {
    const auto [values, places] = sort(c[0], c.whole("dim"), {.descending = c.flag("descending")});
    return Results{values, places};
  };
  operations["argsort"] = [](const Case& c) {
    return Results{argsort(c[0], c.whole("dim"), {.descending = c.flag("descending")})};
  };
  operations["topk"] = [](const Case& c) {
    const auto [values, places] =
        topk(c[0], c.whole("k"), c.whole("dim"), {.largest = c.flag("largest")});
    return Results{values, places};
  };
}

}  // namespace

void add_rows(Operations& operations) {
  for (const kernels::UnaryFacts& row : kernels::kUnaryFacts) {
    const auto parameters = [](const Case& c) {
      kernels::Parameters p;
      if (c.has("a")) p.a = c.number("a");
      if (c.has("b")) p.b = c.number("b");
      return p;
    };
    const std::string name =
        std::string(row.name) +
        (row.fn == kernels::UnaryFn::kPow || row.fn == kernels::UnaryFn::kClamp ? ".row" : "");
    operations[name] = [=, fn = row.fn](const Case& c) {
      return Results{unary(fn, c[0], parameters(c))};
    };
    operations[name + "_"] = [=, fn = row.fn](const Case& c) {
      Tensor y = c[0].clone();
      return Results{unary_(fn, y, parameters(c))};
    };
  }
  add_binary(operations);
  add_reductions(operations);
}

}  // namespace dl::fuzz
