#include "core/kernels/cuda/attention/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>

#include "core/device/math_flags.h"
#include "core/kernels/cuda/cudnn/shape_plans.h"
#include "core/kernels/cuda/runtime/handles.h"
#include "core/kernels/cuda/runtime/real_runtime.h"
#include "core/tensor/dtype_types.h"

namespace dl::kernels::cuda {
namespace {

// All that a plan depends on.
struct Key {
  std::int64_t backward;
  std::int64_t dtype;
  std::int64_t heads, batches, queries, keys, width;
  std::int64_t causal;
  std::int64_t scale;
  std::array<std::array<std::int64_t, 3>, 8> steps;
  friend bool operator==(const Key&, const Key&) = default;
};

using AttentionPlans = dnn::ShapePlans<Key>;

Key key_of(bool backward, const AttentionShape& s, std::initializer_list<HeadRows> tensors) {
  Key key{.backward = backward ? 1 : 0,
          .dtype = static_cast<std::int64_t>(s.dtype),
          .heads = s.heads,
          .batches = s.batches,
          .queries = s.queries,
          .keys = s.keys,
          .width = s.width,
          .causal = s.causal ? 1 : 0,
          .scale = std::bit_cast<std::int32_t>(s.scale),
          .steps = {}};
  std::size_t i = 0;
  for (const HeadRows& rows : tensors) {
    key.steps[i++] = {rows.batch_step, rows.head_step, rows.row_step};
  }
  return key;
}

bool takes(const AttentionShape& shape, std::initializer_list<HeadRows> tensors,
           const Launch& launch) {
  if (!dnn::plans_are_made(launch) || shape.dtype == DType::kF32 || shape.keep < 1 ||
      !shape.in_packs || shape.queries < 2 || shape.keys < 2) {
    return false;
  }
  // cuDNN counts elements in 32 bits, and no row may be another's.
  return shape.batches * std::max(shape.queries, shape.keys) * shape.width <=
             std::numeric_limits<std::int32_t>::max() &&
         std::ranges::all_of(tensors, [](const HeadRows& rows) {
           return rows.batch_step > 0 && rows.head_step > 0 && rows.row_step > 0;
         });
}

// The plan of a key, or null if there is none.
dnn::Plan* find(const Key& key, const std::function<dnn::Graph()>& make_graph) {
  const auto describe = [&key] {
    return fmt::format("{} x {} heads of {} queries and {} keys, {} wide, in {}",
                       key.batches / key.heads, key.heads, key.queries, key.keys, key.width,
                       name_of(static_cast<DType>(key.dtype)));
  };
  return of_this_thread<AttentionPlans>().find(
      key, make_graph, {"scaled_dot_product_attention", describe}, key.backward == 0);
}

}  // namespace

bool cudnn_attention(const AttentionShape& shape, const HeadRows& query, const HeadRows& key,
                     const HeadRows& value, const HeadRows& out, float* stats,
                     const Launch& launch) {
  const auto tensors = {query, key, value, out};
  if (!takes(shape, tensors, launch)) return false;
  dnn::Plan* const plan = find(key_of(false, shape, tensors),
                               [&] { return attention_graph(shape, query, key, value, out); });
  if (plan == nullptr) return false;
  return dnn::run(*plan, {query.data, key.data, value.data, out.data, stats}, launch);
}

bool cudnn_attention_backward(const AttentionShape& shape, const AttentionGradients& in,
                              const Launch& launch) {
  const dl::detail::MathFlags& flags = *dl::cuda::opener().math;
  const auto tensors = {in.grad, in.query, in.key, in.value, in.out, in.dquery, in.dkey, in.dvalue};
  if (flags.cudnn_deterministic.load(std::memory_order_relaxed) || !takes(shape, tensors, launch)) {
    return false;
  }
  dnn::Plan* const plan =
      find(key_of(true, shape, tensors), [&] { return attention_backward_graph(shape, in); });
  if (plan == nullptr) return false;
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(shape.batches) *
                            static_cast<std::size_t>(shape.queries) *
                            static_cast<std::size_t>(shape.width);
  const Workspace sum(bytes, launch.stream());
  DL_CUDA_CHECK(cudaMemsetAsync(sum.data(), 0, bytes, launch.stream()));
  return dnn::run(*plan,
                  {in.grad.data, in.query.data, in.key.data, in.value.data, in.out.data,
                   const_cast<float*>(in.stats), in.products, sum.data(), in.dvalue.data,
                   in.dkey.data, in.dquery.data},
                  launch);
}

}  // namespace dl::kernels::cuda
