#include "core/ops/index/embedding.h"

#include "core/ops/common.h"
#include "core/ops/index/indexing.h"
#include "core/ops/layout.h"
#include "core/tape/recorder.h"

namespace dl {
namespace {

// Input: weight. Saved: the index, flat.
struct EmbeddingBackward final : Node {
  std::string_view name() const noexcept override { return "embedding"; }
  void backward(BackwardContext& context) override {
    const Tensor grad = laid_out(context.grad_output());
    const Tensor d = zeros(weight_shape, {.dtype = grad.dtype(), .device = grad.device()});
    const Tensor rows = as_strided(grad, {saved(0).numel(), weight_shape[1]}, {weight_shape[1], 1},
                                   grad.storage_offset());
    call<Op::kIndexSelectBackward>(grad.device(), rows, 0, saved(0), d);
    if (padding_idx) d.select(0, *padding_idx).zero_();
    context.give(0, d);
  }
  void backward_recorded(BackwardContext& context) override {
    const Tensor& g = context.grad_output();
    const Tensor& index = saved(0);
    Tensor rows = g.reshape({index.numel(), weight_shape[1]});
    if (padding_idx) {
      rows = masked(rows, index.ne(*padding_idx).unsqueeze(1).expand(rows.sizes()));
    }
    const Tensor none = zeros(weight_shape, {.dtype = g.dtype(), .device = g.device()});
    context.give(0, index_add(none, 0, index, rows));
  }
  Shape weight_shape;
  std::optional<std::int64_t> padding_idx;
};

void check_rows(const Tensor& flat, std::int64_t rows) {
  const std::int64_t* const numbers = flat.data<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    DL_CHECK(numbers[i] >= 0 && numbers[i] < rows, kIndex,
             "embedding: element {} of the index is {}, wanted a row in [0, {})", i, numbers[i],
             rows);
  }
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& index,
                 std::optional<std::int64_t> padding_idx) {
  check_defined(weight, "embedding", "the weight");
  check_defined(index, "embedding", "the index");
  check_same_device(weight, index, "embedding");
  check_floating(weight, "embedding");
  DL_CHECK(weight.dim() == 2, kShape, "embedding: the weight has shape {}, wanted [rows, width]",
           weight.sizes().str());
  DL_CHECK(index.dtype() == DType::kI64, kDType, "embedding: the index is {}, wanted int64",
           name_of(index.dtype()));
  const std::int64_t rows = weight.size(0);
  DL_CHECK(!padding_idx || (*padding_idx >= -rows && *padding_idx < rows), kIndex,
           "embedding: padding_idx is {}, wanted a row of {}", *padding_idx, rows);
  const Tensor table = laid_out(weight);
  const Tensor flat = laid_out(index).detach().view({index.numel()});
  if (!index.is_cuda()) tape::run("embedding", 0, &check_rows, flat, rows);
  Shape shape = index.sizes();
  shape.push_back(weight.size(1));
  Tensor result = empty(shape, {.dtype = weight.dtype(), .device = weight.device()});
  call<Op::kIndexSelect>(weight.device(), table.detach(), 0, flat,
                         result.view({flat.numel(), weight.size(1)}));
  if (auto* node = record<EmbeddingBackward>(result, weight)) {
    node->weight_shape = weight.sizes();
    if (padding_idx) node->padding_idx = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
    node->save(flat);
  }
  return result;
}

}  // namespace dl
