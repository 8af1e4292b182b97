// Operations of places, shapes, copies and products.
#include "core/ops/elementwise/activation.h"
#include "core/ops/index/index.h"
#include "core/ops/index/indexing.h"
#include "core/ops/linear/product.h"
#include "core/ops/logic/logic.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/factories.h"
#include "tests/parity/fuzz/case.h"

namespace dl::fuzz {
namespace {

std::optional<std::int64_t> dim_if(const Case& c) {
  return c.has("dim") ? std::optional<std::int64_t>(c.whole("dim")) : std::nullopt;
}

PadMode mode_named(const std::string& name) {
  if (name == "reflect") return PadMode::kReflect;
  if (name == "replicate") return PadMode::kReplicate;
  return name == "circular" ? PadMode::kCircular : PadMode::kConstant;
}

void add_places(Operations& operations) {
  const auto add = [&](const char* name, Operation f) { operations[name] = std::move(f); };
  // clang-format off
  add("gather", [](const Case& c) { return Results{gather(c[0], c.whole("dim"), c[1])}; });
  add("scatter", [](const Case& c) { return Results{scatter(c[0], c.whole("dim"), c[1], c[2])}; });
  add("scatter.number", [](const Case& c) { return Results{scatter(c[0], c.whole("dim"), c[1], c.scalar("value"))}; });
  add("scatter_add", [](const Case& c) { return Results{scatter_add(c[0], c.whole("dim"), c[1], c[2])}; });
  add("index_add", [](const Case& c) { return Results{index_add(c[0], c.whole("dim"), c[1], c[2], c.scalar("alpha"))}; });
  add("index_select", [](const Case& c) { return Results{index_select(c[0], c.whole("dim"), c[1])}; });
  add("index_copy", [](const Case& c) { return Results{index_copy(c[0], c.whole("dim"), c[1], c[2])}; });
  add("index_fill", [](const Case& c) { return Results{index_fill(c[0], c.whole("dim"), c[1], c.scalar("value"))}; });
  add("index_fill.tensor", [](const Case& c) { return Results{index_fill(c[0], c.whole("dim"), c[1], c[2])}; });
  add("masked_scatter", [](const Case& c) { return Results{masked_scatter(c[0], c[1], c[2])}; });
  add("scatter_reduce", [](const Case& c) { return Results{scatter_reduce(c[0], c.whole("dim"), c[1], c[2], c.word("reduce"), {.include_self = c.flag("include_self")})}; });
  add("bincount", [](const Case& c) { return Results{bincount(c[0], c[1], c.whole("minlength"))}; });
  add("pixel_shuffle", [](const Case& c) { return Results{pixel_shuffle(c[0], c.whole("factor"))}; });
  add("pixel_unshuffle", [](const Case& c) { return Results{pixel_unshuffle(c[0], c.whole("factor"))}; });
  add("channel_shuffle", [](const Case& c) { return Results{channel_shuffle(c[0], c.whole("groups"))}; });
  add("prelu", [](const Case& c) { return Results{prelu(c[0], c[1])}; });
  add("glu", [](const Case& c) { return Results{glu(c[0], c.whole("dim"))}; });
  add("take", [](const Case& c) { return Results{take(c[0], c[1])}; });
  add("take_along_dim", [](const Case& c) { return Results{take_along_dim(c[0], c[1], c.whole("dim"))}; });
  add("masked_select", [](const Case& c) { return Results{masked_select(c[0], c[1])}; });
  add("nonzero", [](const Case& c) { return Results{nonzero(c[0])}; });
  add("one_hot", [](const Case& c) { return Results{one_hot(c[0], c.whole("classes"))}; });
  add("index", [](const Case& c) { return Results{c[0].index({c[1]})}; });
  add("index_put_", [](const Case& c) { Tensor y = c[0].clone(); return Results{y.index_put_({c[1]}, c[2])}; });
  add("logical_not", [](const Case& c) { return Results{logical_not(c[0])}; });
  add("bitwise_not", [](const Case& c) { return Results{bitwise_not(c[0])}; });
  add("isnan", [](const Case& c) { return Results{isnan(c[0])}; });
  add("isinf", [](const Case& c) { return Results{isinf(c[0])}; });
  add("isfinite", [](const Case& c) { return Results{isfinite(c[0])}; });
  add("isclose", [](const Case& c) { return Results{isclose(c[0], c[1], {.rtol = c.number("rtol"), .atol = c.number("atol"), .equal_nan = c.flag("equal_nan")})}; });
  // clang-format on
}

void add_views(Operations& operations) {
  const auto add = [&](const char* name, Operation f) { operations[name] = std::move(f); };
  // clang-format off
  add("split", [](const Case& c) { return split(c[0], c.whole("size"), c.whole("dim")); });
  add("split.sizes", [](const Case& c) { return split(c[0], c.dims("sizes"), c.whole("dim")); });
  add("chunk", [](const Case& c) { return chunk(c[0], c.whole("chunks"), c.whole("dim")); });
  add("unbind", [](const Case& c) { return unbind(c[0], c.whole("dim")); });
  add("movedim", [](const Case& c) { return Results{movedim(c[0], c.whole("from"), c.whole("to"))}; });
  add("T", [](const Case& c) { return Results{c[0].T()}; });
  add("mT", [](const Case& c) { return Results{mT(c[0])}; });
  add("reshape", [](const Case& c) { return Results{c[0].reshape(c.dims("shape"))}; });
  add("view", [](const Case& c) { return Results{c[0].view(c.dims("shape"))}; });
  add("flatten", [](const Case& c) { return Results{c[0].flatten(c.whole("from"), c.whole("to"))}; });
  add("transpose", [](const Case& c) { return Results{c[0].transpose(c.whole("from"), c.whole("to"))}; });
  add("permute", [](const Case& c) { return Results{c[0].permute(c.dims("dims"))}; });
  add("select", [](const Case& c) { return Results{c[0].select(c.whole("dim"), c.whole("index"))}; });
  add("slice", [](const Case& c) { return Results{c[0].slice(c.whole("dim"), c.whole("start"), c.whole("stop"), c.whole("step"))}; });
  add("narrow", [](const Case& c) { return Results{c[0].narrow(c.whole("dim"), c.whole("start"), c.whole("length"))}; });
  add("expand", [](const Case& c) { return Results{c[0].expand(c.dims("shape"))}; });
  add("squeeze", [](const Case& c) { return Results{c.has("dim") ? c[0].squeeze(c.whole("dim")) : c[0].squeeze()}; });
  add("unsqueeze", [](const Case& c) { return Results{c[0].unsqueeze(c.whole("dim"))}; });
  add("repeat", [](const Case& c) { return Results{repeat(c[0], c.dims("repeats"))}; });
  add("tile", [](const Case& c) { return Results{tile(c[0], c.dims("repeats"))}; });
  add("repeat_interleave", [](const Case& c) { return Results{repeat_interleave(c[0], c.whole("repeats"), dim_if(c))}; });
  add("repeat_interleave.tensor", [](const Case& c) { return Results{repeat_interleave(c[0], c[1], dim_if(c))}; });
  add("flip", [](const Case& c) { return Results{flip(c[0], c.dims("dims"))}; });
  add("roll", [](const Case& c) { return Results{roll(c[0], c.dims("shifts"), c.dims("dims"))}; });
  add("tril", [](const Case& c) { return Results{tril(c[0], c.whole("diagonal"))}; });
  add("triu", [](const Case& c) { return Results{triu(c[0], c.whole("diagonal"))}; });
  add("diagonal", [](const Case& c) { return Results{diagonal(c[0], c.whole("offset"), c.whole("dim1"), c.whole("dim2"))}; });
  add("diag", [](const Case& c) { return Results{diag(c[0], c.whole("diagonal"))}; });
  add("pad", [](const Case& c) { return Results{pad(c[0], c.dims("pads"), mode_named(c.word("mode")), c.has("value") ? c.scalar("value") : Scalar(0))}; });
  add("cat", [](const Case& c) { return Results{cat(c.tensors(), c.whole("dim"))}; });
  add("stack", [](const Case& c) { return Results{stack(c.tensors(), c.whole("dim"))}; });
  add("to", [](const Case& c) { return Results{c[0].to(dtype_named(c.word("dtype")))}; });
  add("clone", [](const Case& c) { return Results{c[0].clone()}; });
  add("contiguous", [](const Case& c) { return Results{c[0].contiguous()}; });
  add("copy_", [](const Case& c) { Tensor y = c[0].clone(); return Results{y.copy_(c[1])}; });
  add("fill_", [](const Case& c) { Tensor y = c[0].clone(); return Results{y.fill_(c.scalar("value"))}; });
  // clang-format on
}

}  // namespace

void add_shapes(Operations& operations) {
  add_places(operations);
  add_views(operations);
  const auto add = [&](const char* name, Operation f) { operations[name] = std::move(f); };
  // clang-format off
  add("matmul", [](const Case& c) { return Results{matmul(c[0], c[1])}; });
  add("mm", [](const Case& c) { return Results{mm(c[0], c[1])}; });
  add("bmm", [](const Case& c) { return Results{bmm(c[0], c[1])}; });
  add("mv", [](const Case& c) { return Results{mv(c[0], c[1])}; });
  add("dot", [](const Case& c) { return Results{dot(c[0], c[1])}; });
  add("outer", [](const Case& c) { return Results{outer(c[0], c[1])}; });
  add("addmm", [](const Case& c) { return Results{addmm(c[0], c[1], c[2], {.beta = c.number("beta"), .alpha = c.number("alpha")})}; });
  add("full", [](const Case& c) { return Results{full(c.dims("shape"), c.scalar("value"), {.dtype = dtype_named(c.word("dtype"))})}; });
  add("arange", [](const Case& c) { return Results{arange(c.scalar("start"), c.scalar("end"), c.scalar("step"), {.dtype = dtype_named(c.word("dtype"))})}; });
  add("linspace", [](const Case& c) { return Results{linspace(c.number("start"), c.number("end"), c.whole("steps"), {.dtype = dtype_named(c.word("dtype"))})}; });
  add("eye", [](const Case& c) { return Results{eye(c.whole("rows"), c.whole("columns"), {.dtype = dtype_named(c.word("dtype"))})}; });
  // clang-format on
}

}  // namespace dl::fuzz
