#include <cmath>
#include <limits>

#include "core/kernels/cuda/attention/attention_kernels.h"
#include "core/kernels/cuda/attention/attention_tiles.h"

namespace dl::kernels::cuda {
namespace {

template <typename T, int kWidth>
struct Forward {
  static constexpr int kQueries = Tiles<T, kWidth>::kNarrow ? 64 : 32;
  static constexpr int kKeys = 64;
  using Scores = Mine<kQueries, kKeys>;
  static constexpr int kShareStep = kKeys + kSkew<T>;
  // Offsets in the block's memory. The shares take the place of the scores; the results that of the
  // queries and keys.
  static constexpr int kKeysAt = Tiles<T, kWidth>::template kBytes<kQueries>;
  static constexpr int kScoresAt = kKeysAt + Tiles<T, kWidth>::template kBytes<kKeys>;
  static constexpr int kFactorsAt = kScoresAt + kQueries * Scores::kStep * 4;
  static constexpr int kLargestAt = kFactorsAt + kQueries * 16 * 4;
  static constexpr int kBytes = kLargestAt + kTileThreads * 4;
  static_assert(kQueries * kShareStep * static_cast<int>(sizeof(T)) <= kFactorsAt - kScoresAt);
  static_assert(kQueries * (kWidth + 4) * 4 <= kScoresAt && kBytes <= 48 << 10);
};

template <typename T, int kWidth>
__global__ void __launch_bounds__(kTileThreads, 3)
    attention_kernel(AttentionShape shape, HeadRows query, HeadRows key, HeadRows value,
                     HeadRows out, float* stats) {
  using F = Forward<T, kWidth>;
  using Scores = typename F::Scores;
  using ScoreParts = Division<F::kQueries, F::kKeys>;
  using OutParts = Division<F::kQueries, kWidth>;
  constexpr int kStep = Tiles<T, kWidth>::kStep;
  alignas(128) __shared__ unsigned char memory[F::kBytes];
  T* const q = reinterpret_cast<T*>(memory);
  T* const kv = reinterpret_cast<T*>(memory + F::kKeysAt);  // keys, then values
  float* const scores = reinterpret_cast<float*>(memory + F::kScoresAt);
  T* const shares = reinterpret_cast<T*>(memory + F::kScoresAt);
  float* const factors = reinterpret_cast<float*>(memory + F::kFactorsAt);
  float* const largest = reinterpret_cast<float*>(memory + F::kLargestAt);

  const int tiles = (shape.queries + F::kQueries - 1) / F::kQueries;
  // The longest rows of a causal mask first.
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * F::kQueries;
  const std::int64_t batch = blockIdx.x / tiles;
  const int row = first + Scores::row();
  load_rows<F::kQueries, kWidth>(shape, query, batch, first, shape.queries, q);
  WarpTile<T, OutParts::kColumnsOfWarp> result;
  float most = -std::numeric_limits<float>::infinity();  // of the row so far
  float sum = 0;                                         // of this thread's part of the row
  const float scale = shape.scale * kLog2E;
  const float up = 1 / shape.keep;
  const int end = shape.causal ? min(shape.keys, first + F::kQueries) : shape.keys;
  for (int at = 0; at < end; at += F::kKeys) {
    load_rows<F::kKeys, kWidth>(shape, key, batch, at, shape.keys, kv);
    __syncthreads();
    {
      WarpTile<T, ScoreParts::kColumnsOfWarp> products;
      products.template add_product<Order::kRows, Order::kColumns>(
          q + ScoreParts::first_row() * kStep, kStep, kv + ScoreParts::first_column() * kStep,
          kStep, kWidth);
      products.store(scores + ScoreParts::first_row() * Scores::kStep + ScoreParts::first_column(),
                     Scores::kStep);
    }
    __syncthreads();
    float mine[Scores::kGroups][4];
    float top = most;
#pragma unroll
    for (int g = 0; g < Scores::kGroups; ++g) {
      const int column = Scores::column(g);
      const auto four =
          *reinterpret_cast<const Pack<float, 4>*>(scores + Scores::row() * Scores::kStep + column);
      for (int e = 0; e < 4; ++e) {
        mine[g][e] = is_seen(shape, row, at + column + e) ? four.at[e] * scale
                                                          : -std::numeric_limits<float>::infinity();
        if (mine[g][e] > top) top = mine[g][e];
      }
    }
    largest[threadIdx.x] = top;
    __syncthreads();
    for (int lane = 0; lane < Scores::kLanes; ++lane) {
      top = fmaxf(top, largest[Scores::row() * Scores::kLanes + lane]);
    }
    // If all scores so far are -infinity, later ones may not be.
    const float base = top == -std::numeric_limits<float>::infinity() ? 0 : top;
    const float factor = most == top ? 1 : exp2f(most - top);
    most = top;
    sum *= factor;
#pragma unroll
    for (int g = 0; g < Scores::kGroups; ++g) {
      const unsigned kept = kept_of_four(shape, batch, row, at + Scores::column(g));
      Pack<T, 4> four;
      for (int e = 0; e < 4; ++e) {
        const float share = exp2f(mine[g][e] - base);
        sum += share;
        four.at[e] = narrow<T>((kept >> e & 1) != 0 ? share * up : 0.0f);
      }
      *reinterpret_cast<Pack<T, 4>*>(shares + Scores::row() * F::kShareStep + Scores::column(g)) =
          four;
    }
    for (int i = Scores::lane(); i < 16; i += Scores::kLanes) {
      factors[16 * Scores::row() + i] = factor;
    }
    load_rows<F::kKeys, kWidth>(shape, value, batch, at, shape.keys, kv);
    __syncthreads();
    result.scale_rows(factors + 16 * OutParts::first_row());
    result.template add_product<Order::kRows, Order::kRows>(
        shares + OutParts::first_row() * F::kShareStep, F::kShareStep,
        kv + OutParts::first_column(), kStep, F::kKeys);
    __syncthreads();
  }
  float* const results = reinterpret_cast<float*>(memory);
  result.store(results + OutParts::first_row() * (kWidth + 4) + OutParts::first_column(),
               kWidth + 4);
  largest[threadIdx.x] = sum;
  __syncthreads();
  const auto sum_of = [&](int r) {
    float total = 0;
    for (int lane = 0; lane < Scores::kLanes; ++lane) total += largest[r * Scores::kLanes + lane];
    return total;
  };
  if (Scores::lane() == 0 && row < shape.queries) {
    stats[batch * shape.queries + row] = kLn2 * (most + log2f(sum_of(Scores::row())));
  }
  store_rows<F::kQueries, kWidth, T>(shape, results, out, batch, first, shape.queries,
                                     [&](int r) { return 1 / sum_of(r); });
}

}  // namespace

void attention_launch(const AttentionShape& shape, const HeadRows& query, const HeadRows& key,
                      const HeadRows& value, const HeadRows& out, float* stats,
                      cudaStream_t stream) {
  with_tiles(shape, [&]<typename T, int kWidth>() {
    attention_kernel<T, kWidth>
        <<<tiles_of(shape, shape.queries, Forward<T, kWidth>::kQueries), kTileThreads, 0, stream>>>(
            shape, query, key, value, out, stats);
  });
}

}  // namespace dl::kernels::cuda
