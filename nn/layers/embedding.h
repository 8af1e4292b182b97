// Embedding: a table of learned vectors, selected by index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nn/module/module.h"

namespace dl::nn {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx{};  // a row that is initially 0 and gets no gradient
  DType dtype = DType::kF32;
};

class Embedding : public Module {
 public:
  // Throws kInvalidArgument unless sizes are positive and padding_idx is a row.
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, EmbeddingOptions options = {});

  // input, int64 of any shape -> [input..., embedding_dim]. Throws kIndex.
  Tensor forward(const Tensor& input) override;
  // Draws N(0, 1), as PyTorch does.
  void reset_parameters();
  std::string extra_repr() const override;

  std::int64_t num_embeddings;
  std::int64_t embedding_dim;
  EmbeddingOptions options;
  Tensor& weight;  // [num_embeddings, embedding_dim]
};

}  // namespace dl::nn
