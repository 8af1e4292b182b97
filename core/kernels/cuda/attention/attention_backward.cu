#include <cmath>

#include "core/kernels/cuda/attention/attention_kernels.h"
#include "core/kernels/cuda/attention/attention_tiles.h"
#include "core/kernels/cuda/common/line_group.h"

namespace dl::kernels::cuda {
namespace {

// products[row] = sum of grad * out over a row of a head.
template <typename T>
__global__ void __launch_bounds__(kGroupThreads)
    row_products_kernel(AttentionShape shape, Lines lines, HeadRows grad, HeadRows out,
                        float* products) {
  __shared__ float shared[kGroupThreads];
  const std::int64_t row = result_of_group(lines);
  const bool present = row < shape.batches * shape.queries;
  float total = 0;
  if (present) {
    const std::int64_t batch = row / shape.queries;
    const std::int64_t at = row % shape.queries;
    const T* const g = head_of<T>(shape, grad, batch) + at * grad.row_step;
    const T* const o = head_of<T>(shape, out, batch) + at * out.row_step;
    for (int i = static_cast<int>(lines.lane()); i < shape.width;
         i += static_cast<int>(lines.lanes)) {
      total += wide(g[i]) * wide(o[i]);
    }
  }
  total = lines.combine(total, shared, Add());
  if (present && lines.lane() == 0) products[row] = total;
}

// What both kernels of the gradient do with a tile of queries and one of keys. The shares, and the
// gradients of the scores, take the place of the products from which they are made.
template <typename T, int kWidth, int kQueries_, int kKeys_>
struct Backward {
  static constexpr int kQueries = kQueries_;
  static constexpr int kKeys = kKeys_;
  static constexpr int kStep = Tiles<T, kWidth>::kStep;
  static constexpr int kShareStep = kKeys + kSkew<T>;
  using Scores = Mine<kQueries, kKeys>;
  using Parts = Division<kQueries, kKeys>;

  static constexpr int kGradAt = Tiles<T, kWidth>::template kBytes<kQueries>;
  static constexpr int kKeysAt = 2 * kGradAt;
  static constexpr int kValuesAt = kKeysAt + Tiles<T, kWidth>::template kBytes<kKeys>;
  static constexpr int kScoresAt = kValuesAt + Tiles<T, kWidth>::template kBytes<kKeys>;
  static constexpr int kShareGradsAt = kScoresAt + kQueries * Scores::kStep * 4;
  static constexpr int kBytes = kShareGradsAt + kQueries * Scores::kStep * 4;
  static_assert(kQueries * kShareStep * static_cast<int>(sizeof(T)) <= kShareGradsAt - kScoresAt);
  static_assert(kBytes <= 48 << 10);
  // Results in f32, in the place of the tiles of elements.
  static_assert((kQueries > kKeys ? kQueries : kKeys) * (kWidth + 4) * 4 <= kScoresAt);

  unsigned char* memory;
  __device__ T* query() const { return reinterpret_cast<T*>(memory); }
  __device__ T* grad() const { return reinterpret_cast<T*>(memory + kGradAt); }
  __device__ T* key() const { return reinterpret_cast<T*>(memory + kKeysAt); }
  __device__ T* value() const { return reinterpret_cast<T*>(memory + kValuesAt); }
  // After compute(): [kQueries][kShareStep].
  __device__ T* shares() const { return reinterpret_cast<T*>(memory + kScoresAt); }
  __device__ T* score_grads() const { return reinterpret_cast<T*>(memory + kShareGradsAt); }

  __device__ void load_queries(const AttentionShape& shape, const AttentionGradients& in,
                               std::int64_t batch, int first) const {
    load_rows<kQueries, kWidth>(shape, in.query, batch, first, shape.queries, query());
    load_rows<kQueries, kWidth>(shape, in.grad, batch, first, shape.queries, grad());
  }
  __device__ void load_keys(const AttentionShape& shape, const AttentionGradients& in,
                            std::int64_t batch, int first) const {
    load_rows<kKeys, kWidth>(shape, in.key, batch, first, shape.keys, key());
    load_rows<kKeys, kWidth>(shape, in.value, batch, first, shape.keys, value());
  }

  // The shares behind dropout, and the gradients of the scores before the scale. All threads of the
  // block must call it, behind a barrier after the loads; a barrier ends it.
  __device__ void compute(const AttentionShape& shape, const AttentionGradients& in,
                          std::int64_t batch, int first_query, int first_key) const {
    float* const scores = reinterpret_cast<float*>(memory + kScoresAt);
    float* const share_grads = reinterpret_cast<float*>(memory + kShareGradsAt);
    const int corner = Parts::first_row() * Scores::kStep + Parts::first_column();
    {
      WarpTile<T, Parts::kColumnsOfWarp> products;
      products.template add_product<Order::kRows, Order::kColumns>(
          query() + Parts::first_row() * kStep, kStep, key() + Parts::first_column() * kStep, kStep,
          kWidth);
      products.store(scores + corner, Scores::kStep);
    }
    {
      WarpTile<T, Parts::kColumnsOfWarp> products;
      products.template add_product<Order::kRows, Order::kColumns>(
          grad() + Parts::first_row() * kStep, kStep, value() + Parts::first_column() * kStep,
          kStep, kWidth);
      products.store(share_grads + corner, Scores::kStep);
    }
    __syncthreads();
    const int row = first_query + Scores::row();
    const bool present = row < shape.queries;
    const std::int64_t number = batch * shape.queries + row;
    const float stat = present ? kLog2E * in.stats[number] : 0;
    const float product = present ? in.products[number] : 0;
    const float scale = shape.scale * kLog2E;
    const float up = 1 / shape.keep;
    Pack<T, 4> kept_shares[Scores::kGroups];
    Pack<T, 4> grads[Scores::kGroups];
#pragma unroll
    for (int g = 0; g < Scores::kGroups; ++g) {
      const int column = Scores::column(g);
      const int from = Scores::row() * Scores::kStep + column;
      const auto four = *reinterpret_cast<const Pack<float, 4>*>(scores + from);
      const auto four_grads = *reinterpret_cast<const Pack<float, 4>*>(share_grads + from);
      const unsigned kept = kept_of_four(shape, batch, row, first_key + column);
      for (int e = 0; e < 4; ++e) {
        const bool seen = present && is_seen(shape, row, first_key + column + e);
        const float share = seen ? exp2f(four.at[e] * scale - stat) : 0;
        const float factor = (kept >> e & 1) != 0 ? up : 0;
        kept_shares[g].at[e] = narrow<T>(share * factor);
        grads[g].at[e] = narrow<T>(seen ? share * (four_grads.at[e] * factor - product) : 0);
      }
    }
    __syncthreads();  // the products have been read
#pragma unroll
    for (int g = 0; g < Scores::kGroups; ++g) {
      const int to = Scores::row() * kShareStep + Scores::column(g);
      *reinterpret_cast<Pack<T, 4>*>(shares() + to) = kept_shares[g];
      *reinterpret_cast<Pack<T, 4>*>(score_grads() + to) = grads[g];
    }
    __syncthreads();
  }
};

// Stores a tile's sums in memory that no warp reads any more, and writes them from there.
template <int kRows, int kWidth, typename T, typename Tile>
__device__ void write_tile(const AttentionShape& shape, const Tile& tile, float* memory,
                           const HeadRows& to, std::int64_t batch, int first, int rows,
                           float factor) {
  using Parts = Division<kRows, kWidth>;
  tile.store(memory + Parts::first_row() * (kWidth + 4) + Parts::first_column(), kWidth + 4);
  __syncthreads();
  store_rows<kRows, kWidth, T>(shape, memory, to, batch, first, rows,
                               [factor](int) { return factor; });
  __syncthreads();
}

template <typename T, int kWidth>
using KeyBackward = Backward<T, kWidth, 32, Tiles<T, kWidth>::kNarrow ? 64 : 32>;
template <typename T, int kWidth>
using QueryBackward = Backward<T, kWidth, Tiles<T, kWidth>::kNarrow ? 64 : 32, 32>;

template <typename T, int kWidth>
__global__ void __launch_bounds__(kTileThreads, 3)
    key_gradients_kernel(AttentionShape shape, AttentionGradients in) {
  using B = KeyBackward<T, kWidth>;
  using Parts = Division<B::kKeys, kWidth>;
  alignas(128) __shared__ unsigned char memory[B::kBytes];
  const B tile{memory};
  const int tiles = (shape.keys + B::kKeys - 1) / B::kKeys;
  const int first = static_cast<int>(blockIdx.x % tiles) * B::kKeys;
  const std::int64_t batch = blockIdx.x / tiles;
  tile.load_keys(shape, in, batch, first);
  WarpTile<T, Parts::kColumnsOfWarp> dkey;
  WarpTile<T, Parts::kColumnsOfWarp> dvalue;
  const int begin = shape.causal ? first / B::kQueries * B::kQueries : 0;
  for (int at = begin; at < shape.queries; at += B::kQueries) {
    tile.load_queries(shape, in, batch, at);
    __syncthreads();
    tile.compute(shape, in, batch, at, first);
    dvalue.template add_product<Order::kColumns, Order::kRows>(
        tile.shares() + Parts::first_row(), B::kShareStep, tile.grad() + Parts::first_column(),
        B::kStep, B::kQueries);
    dkey.template add_product<Order::kColumns, Order::kRows>(
        tile.score_grads() + Parts::first_row(), B::kShareStep,
        tile.query() + Parts::first_column(), B::kStep, B::kQueries);
    __syncthreads();
  }
  __syncthreads();  // a tile that no query sees has only been loaded
  float* const results = reinterpret_cast<float*>(memory);
  write_tile<B::kKeys, kWidth, T>(shape, dvalue, results, in.dvalue, batch, first, shape.keys, 1);
  write_tile<B::kKeys, kWidth, T>(shape, dkey, results, in.dkey, batch, first, shape.keys,
                                  shape.scale);
}

template <typename T, int kWidth>
__global__ void __launch_bounds__(kTileThreads, 3)
    query_gradients_kernel(AttentionShape shape, AttentionGradients in) {
  using B = QueryBackward<T, kWidth>;
  using Parts = Division<B::kQueries, kWidth>;
  alignas(128) __shared__ unsigned char memory[B::kBytes];
  const B tile{memory};
  const int tiles = (shape.queries + B::kQueries - 1) / B::kQueries;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * B::kQueries;
  const std::int64_t batch = blockIdx.x / tiles;
  tile.load_queries(shape, in, batch, first);
  WarpTile<T, Parts::kColumnsOfWarp> dquery;
  const int end = shape.causal ? min(shape.keys, first + B::kQueries) : shape.keys;
  for (int at = 0; at < end; at += B::kKeys) {
    tile.load_keys(shape, in, batch, at);
    __syncthreads();
    tile.compute(shape, in, batch, first, at);
    dquery.template add_product<Order::kRows, Order::kRows>(
        tile.score_grads() + Parts::first_row() * B::kShareStep, B::kShareStep,
        tile.key() + Parts::first_column(), B::kStep, B::kKeys);
    __syncthreads();
  }
  write_tile<B::kQueries, kWidth, T>(shape, dquery, reinterpret_cast<float*>(memory), in.dquery,
                                     batch, first, shape.queries, shape.scale);
}

}  // namespace

void attention_backward_launch(const AttentionShape& shape, const AttentionGradients& tensors,
                               cudaStream_t stream) {
  const Lines lines = lines_for(shape.width, false);
  with_tiles(shape, [&]<typename T, int kWidth>() {
    row_products_kernel<T>
        <<<blocks_of_groups(shape.batches * shape.queries, lines), kGroupThreads, 0, stream>>>(
            shape, lines, tensors.grad, tensors.out, tensors.products);
    key_gradients_kernel<T, kWidth>
        <<<tiles_of(shape, shape.keys, KeyBackward<T, kWidth>::kKeys), kTileThreads, 0, stream>>>(
            shape, tensors);
    query_gradients_kernel<T, kWidth>
        <<<tiles_of(shape, shape.queries, QueryBackward<T, kWidth>::kQueries), kTileThreads, 0,
           stream>>>(shape, tensors);
  });
}

}  // namespace dl::kernels::cuda
