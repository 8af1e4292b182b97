#include "core/kernels/cuda/attention/cudnn_attention.h"

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "core/base/log/log.h"
#include "core/device/math_flags.h"
#include "core/kernels/cuda/runtime/handles.h"
#include "core/kernels/cuda/runtime/real_runtime.h"
#include "core/kernels/lru_cache.h"
#include "core/tensor/dtype_types.h"

namespace dl::kernels::cuda {
namespace {

constexpr std::size_t kPlans = 256;
constexpr int kFirstCapability = 80;
// Earlier ones need masks in the place of lengths that are no multiples of 128.
constexpr std::size_t kFirstVersion = 91600;

// All that a plan depends on.
struct Key {
  std::int64_t kind;  // forward or backward, and whether it must be deterministic
  std::int64_t dtype;
  std::int64_t heads, batches, queries, keys, width;
  std::int64_t causal;
  std::int64_t scale;
  std::array<std::array<std::int64_t, 3>, 8> steps;
  friend bool operator==(const Key&, const Key&) = default;
};

struct AttentionPlans {
  LruCache<Key, dnn::Plan> plans{kPlans};
};

Key key_of(std::int64_t kind, const AttentionShape& s, std::initializer_list<HeadRows> tensors) {
  Key key{.kind = kind,
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

bool takes(const AttentionShape& shape, const Launch& launch) {
  const dl::detail::MathFlags& flags = *dl::cuda::opener().math;
  static const std::size_t version = cudnnGetVersion();
  return flags.cudnn_enabled.load(std::memory_order_relaxed) && shape.dtype != DType::kF32 &&
         shape.keep >= 1 && shape.in_packs && shape.queries > 1 && shape.keys > 1 &&
         launch.compute_capability() >= kFirstCapability && version >= kFirstVersion;
}

// The plan of a key, or null if cuDNN has none. `graph` makes the graph.
template <typename MakeGraph>
const dnn::Plan* find(const Key& key, bool deterministic, const MakeGraph& graph) {
  const dnn::Plan& plan = of_this_thread<AttentionPlans>().plans.get(key, [&] {
    const dl::cuda::RelaxedCapture relaxed;  // planning loads code and allocates
    auto made = std::make_unique<dnn::Plan>();
    try {
      *made = dnn::plan_of(graph(), {.handle = of_this_thread<DnnHandle>().get()}, deterministic);
    } catch (const Error& error) {
      log::warning(
          "scaled_dot_product_attention: dlrun's own kernel takes the place of cuDNN's: {}",
          error.what());
      return made;
    }
    if (!*made) {
      log::info(
          "scaled_dot_product_attention: cuDNN has no kernel for {} x {} heads of {} queries and "
          "{} "
          "keys {} wide in {}; dlrun's own kernel computes it",
          key.batches / key.heads, key.heads, key.queries, key.keys, key.width,
          name_of(static_cast<DType>(key.dtype)));
    }
    return made;
  });
  return plan ? &plan : nullptr;
}

void run(const dnn::Plan& plan, std::initializer_list<void*> memory, const Launch& launch) {
  cudnnHandle_t handle = of_this_thread<DnnHandle>().get();
  DL_CUDNN_CHECK(cudnnSetStream(handle, launch.stream()));
  const Workspace workspace(plan.workspace(), launch.stream());
  plan.run(handle, std::span<void* const>(memory.begin(), memory.size()), workspace.data());
}

}  // namespace

bool cudnn_attention(const AttentionShape& shape, const HeadRows& query, const HeadRows& key,
                     const HeadRows& value, const HeadRows& out, float* stats,
                     const Launch& launch) {
  if (!takes(shape, launch)) return false;
  const dnn::Plan* const plan = find(key_of(0, shape, {query, key, value, out}), true, [&] {
    return attention_graph(shape, query, key, value, out);
  });
  if (plan == nullptr) return false;
  run(*plan, {query.data, key.data, value.data, out.data, stats}, launch);
  return true;
}

bool cudnn_attention_backward(const AttentionShape& shape, const AttentionGradients& tensors,
                              const Launch& launch) {
  const dl::detail::MathFlags& flags = *dl::cuda::opener().math;
  if (flags.cudnn_deterministic.load(std::memory_order_relaxed) || !takes(shape, launch)) {
    return false;
  }
  const dnn::Plan* const plan =
      find(key_of(1, shape,
                  {tensors.grad, tensors.query, tensors.key, tensors.value, tensors.out,
                   tensors.dquery, tensors.dkey, tensors.dvalue}),
           false, [&] { return attention_backward_graph(shape, tensors); });
  if (plan == nullptr) return false;
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(shape.batches) *
                            static_cast<std::size_t>(shape.queries) *
                            static_cast<std::size_t>(shape.width);
  const Workspace sum(bytes, launch.stream());
  DL_CUDA_CHECK(cudaMemsetAsync(sum.data(), 0, bytes, launch.stream()));
  run(*plan,
      {tensors.grad.data, tensors.query.data, tensors.key.data, tensors.value.data,
       tensors.out.data, const_cast<float*>(tensors.stats), tensors.products, sum.data(),
       tensors.dvalue.data, tensors.dkey.data, tensors.dquery.data},
      launch);
  return true;
}

}  // namespace dl::kernels::cuda
