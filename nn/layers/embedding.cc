#include "nn/layers/embedding.h"

#include <fmt/format.h>

#include "core/autograd/grad_mode.h"
#include "core/ops/index/embedding.h"
#include "core/tensor/factories.h"
#include "nn/module/init.h"

namespace dl::nn {
namespace {

EmbeddingOptions checked(std::int64_t rows, std::int64_t width, EmbeddingOptions options) {
  DL_CHECK(rows > 0 && width > 0, kInvalidArgument,
           "Embedding: {} rows of {} numbers, wanted at least 1 each", rows, width);
  if (!options.padding_idx) return options;
  std::int64_t& row = *options.padding_idx;
  DL_CHECK(row >= -rows && row < rows, kInvalidArgument,
           "Embedding: padding_idx is {}, wanted one of {} rows", row, rows);
  if (row < 0) row += rows;
  return options;
}

}  // namespace

Embedding::Embedding(std::int64_t rows, std::int64_t width, EmbeddingOptions given)
    : num_embeddings(rows),
      embedding_dim(width),
      options(checked(rows, width, given)),
      weight(register_parameter("weight", empty({rows, width}, {.dtype = given.dtype}))) {
  reset_parameters();
}

void Embedding::reset_parameters() {
  check_not_moved("reset_parameters");
  init::normal_(weight);
  const NoGradGuard no_grad;
  if (options.padding_idx) weight.detach().select(0, *options.padding_idx).zero_();
}

Tensor Embedding::forward(const Tensor& input) {
  check_not_moved("a call");
  try {
    return embedding(weight, input, options.padding_idx);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIndex) throw;
    throw_error(ErrorKind::kIndex, "Embedding: num_embeddings is {}; {}", num_embeddings,
                error.what());
  }
}

std::string Embedding::extra_repr() const {
  std::string text = fmt::format("{}, {}", num_embeddings, embedding_dim);
  if (options.padding_idx) text += fmt::format(", padding_idx={}", *options.padding_idx);
  return text;
}

}  // namespace dl::nn
