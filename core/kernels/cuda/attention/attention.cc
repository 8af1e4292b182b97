#include <cstdint>

#include "core/kernels/cuda/attention/attention_kernels.h"
#include "core/kernels/cuda/attention/cudnn_attention.h"
#include "core/kernels/cuda/runtime/launch.h"
#include "core/kernels/declared/softmax.h"

namespace dl::kernels::cuda {
namespace {

HeadRows head_rows_of(const Tensor& x) {
  const Strides& strides = x.strides();
  return {.data = x.data_ptr(),
          .batch_step = strides[0],
          .head_step = strides[1],
          .row_step = strides[2]};
}

bool is_in_packs(const Tensor& x) {
  const auto count = static_cast<std::int64_t>(16 / size_of(x.dtype()));
  bool fits = x.size(3) % count == 0 && reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
  for (std::size_t d = 0; d < 3; ++d) fits = fits && x.strides()[d] % count == 0;
  return fits;
}

template <typename... Tensors>
AttentionShape shape_of(const AttentionArgs& args, const random::PhiloxSeed& seed,
                        const Tensor& query, const Tensor& key, const Tensors&... others) {
  return {.dtype = query.dtype(),
          .heads = static_cast<int>(query.size(1)),
          .batches = query.size(0) * query.size(1),
          .queries = static_cast<int>(query.size(2)),
          .keys = static_cast<int>(key.size(2)),
          .width = static_cast<int>(query.size(3)),
          .causal = args.causal,
          .in_packs = is_in_packs(query) && is_in_packs(key) && (is_in_packs(others) && ...),
          .scale = static_cast<float>(args.scale),
          .keep = static_cast<float>(1 - args.dropout_p),
          .seed = seed};
}

}  // namespace

void fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                     const AttentionArgs& args, const random::PhiloxSeed& seed, const Tensor& out,
                     const Tensor& stats) {
  const Launch launch;
  const AttentionShape shape = shape_of(args, seed, query, key, value, out);
  const HeadRows rows[] = {head_rows_of(query), head_rows_of(key), head_rows_of(value),
                           head_rows_of(out)};
  if (cudnn_attention(shape, rows[0], rows[1], rows[2], rows[3], stats.data<float>(), launch)) {
    return;
  }
  attention_launch(shape, rows[0], rows[1], rows[2], rows[3], stats.data<float>(), launch.stream());
  DL_CUDA_LAUNCHED("fused_attention");
}

void fused_attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                              const Tensor& value, const Tensor& out, const Tensor& stats,
                              const AttentionArgs& args, const random::PhiloxSeed& seed,
                              const Tensor& dquery, const Tensor& dkey, const Tensor& dvalue) {
  const Launch launch;
  const Workspace products(sizeof(float) * static_cast<std::size_t>(stats.numel()),
                           launch.stream());
  const AttentionShape shape =
      shape_of(args, seed, query, key, value, grad, out, dquery, dkey, dvalue);
  const AttentionGradients tensors{.grad = head_rows_of(grad),
                                   .query = head_rows_of(query),
                                   .key = head_rows_of(key),
                                   .value = head_rows_of(value),
                                   .out = head_rows_of(out),
                                   .stats = stats.data<float>(),
                                   .products = products.as<float>(),
                                   .dquery = head_rows_of(dquery),
                                   .dkey = head_rows_of(dkey),
                                   .dvalue = head_rows_of(dvalue)};
  if (cudnn_attention_backward(shape, tensors, launch)) return;
  attention_backward_launch(shape, tensors, launch.stream());
  DL_CUDA_LAUNCHED("fused_attention_backward");
}

}  // namespace dl::kernels::cuda
