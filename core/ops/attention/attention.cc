#include "core/ops/attention/attention.h"

#include <algorithm>
#include <limits>

#include "core/device/math_flags.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/layout.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"

namespace dl {
namespace {

// The kernels read and write whole rows.
bool has_rows(const Tensor& x) {
  return x.size(3) == 1 || x.strides()[3] == 1;
}
Tensor with_rows(const Tensor& x) {
  return has_rows(x) ? x : x.contiguous();
}
// In the memory order of `like`, unless its rows would not stay whole.
Tensor empty_rows(const Tensor& like) {
  const Tensor made = empty_as_torch(like, like.sizes(), like.dtype());
  return has_rows(made) ? made
                        : empty(like.sizes(), {.dtype = like.dtype(), .device = like.device()});
}

struct FusedAttentionBackward final : Node {
  std::string_view name() const noexcept override { return "scaled_dot_product_attention"; }
  std::string grad_fn_name() const override { return "ScaledDotProductFlashAttentionBackward0"; }
  void backward(BackwardContext& context) override {
    const Tensor& query = saved(0);
    const Tensor& key = saved(1);
    const Tensor& value = saved(2);
    const Tensor gradients[] = {empty_rows(query), empty_rows(key), empty_rows(value)};
    call<Op::kFusedAttentionBackward>(query.device(), with_rows(context.grad_output()), query, key,
                                      value, saved(3), saved(4), args, seed, gradients[0],
                                      gradients[1], gradients[2]);
    for (std::size_t i = 0; i < 3; ++i) {
      if (context.needs(i)) context.give(i, gradients[i]);
    }
  }
  AttentionArgs args;
  random::PhiloxSeed seed;
};

}  // namespace

bool detail::takes_fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   double dropout_p) {
  constexpr std::int64_t kFewestQueries = 8;
  if (!query.is_cuda() || !math_flags.flash_sdp_enabled || query.dim() != 4 || key.dim() != 4 ||
      query.numel() == 0 || key.numel() == 0 || key.sizes() != value.sizes() ||
      query.size(0) != key.size(0) || query.size(1) != key.size(1) ||
      query.size(2) < kFewestQueries || key.device() != query.device() ||
      value.device() != query.device() || !(dropout_p >= 0 && dropout_p < 1)) {
    return false;
  }
  const InputCast cast = autocast_of<Op::kFusedAttention>(query);
  const DType dtype = cast && query.dtype() == DType::kF32 ? cast.dtype() : query.dtype();
  const bool is_short = dtype == DType::kF16 || dtype == DType::kBF16;
  if (!is_short && (dtype != DType::kF32 || math_flags.matmul_tf32)) return false;
  if (query.size(3) > (is_short ? 128 : 64)) return false;
  // Positions and blocks are 32-bit numbers; a block has at least 32 rows.
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t longest = std::max(query.size(2), key.size(2));
  return longest < kMost && query.size(0) * query.size(1) <= kMost / (longest / 32 + 1);
}

Tensor detail::fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionArgs& args) {
  if (const auto cast = autocast_of<Op::kFusedAttention>(query)) {
    return fused_attention(cast(query), cast(key), cast(value), args);
  }
  const Tensor q = with_rows(query);
  const Tensor k = with_rows(key);
  const Tensor v = with_rows(value);
  random::PhiloxSeed seed;
  if (args.dropout_p > 0) {
    const auto shares = q.size(0) * q.size(1) * q.size(2) * k.size(2);
    seed = reserve_words(default_generator(), q.device(), static_cast<std::uint64_t>(shares));
  }
  const Tensor output = empty_rows(q);
  const Tensor stats =
      empty({q.size(0), q.size(1), q.size(2)}, {.dtype = DType::kF32, .device = q.device()});
  call<Op::kFusedAttention>(q.device(), q, k, v, args, seed, output, stats);
  if (auto* node = record<FusedAttentionBackward>(output, q, k, v)) {
    for (const Tensor& tensor : {q, k, v, output, stats}) node->save(tensor);
    node->args = args;
    node->seed = seed;
  }
  return output;
}

}  // namespace dl
