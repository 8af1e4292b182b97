// Fused attention on plain memory (core/kernels/declared/softmax.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/random/philox.h"
#include "core/tensor/dtype.h"

namespace dl::kernels::cuda {

// [batch, heads, rows, width]; distances in elements. The elements of a row are neighbours.
struct HeadRows {
  void* data = nullptr;
  std::int64_t batch_step = 0;
  std::int64_t head_step = 0;
  std::int64_t row_step = 0;
};

struct AttentionShape {
  DType dtype = DType::kF32;
  int heads = 0;
  std::int64_t batches = 0;  // batch * heads
  int queries = 0;
  int keys = 0;
  int width = 0;
  bool causal = false;
  bool in_packs = false;  // all rows begin at multiples of 16 bytes, and have as many
  float scale = 1;
  float keep = 1;  // the probability that dropout keeps a share
  random::PhiloxSeed seed;
};

// Rows are up to 64 elements wide in f32, 128 in f16 and bf16: their tiles fill the shared memory.
void attention_launch(const AttentionShape& shape, const HeadRows& query, const HeadRows& key,
                      const HeadRows& value, const HeadRows& out, float* stats,
                      cudaStream_t stream);

struct AttentionGradients {
  HeadRows grad, query, key, value, out;
  const float* stats = nullptr;
  float* products = nullptr;  // [batches, queries]: of the rows of grad and out; scratch
  HeadRows dquery, dkey, dvalue;
};
void attention_backward_launch(const AttentionShape& shape, const AttentionGradients& tensors,
                               cudaStream_t stream);

}  // namespace dl::kernels::cuda
