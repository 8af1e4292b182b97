// The networks that train_gpt can train, and their weights. A new size is a row in models.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "examples/train_gpt/options.h"
#include "nn/models/sequence/gpt2.h"
#include "nn/serialize/safetensors.h"

namespace dl::examples::gpt {

struct Sizes {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t positions = 0;  // 0: as many as --context
};

struct ModelRow {
  std::string_view name;
  Sizes sizes;
};

std::span<const ModelRow> models();
// The sizes of --model. --layers, --heads and --width replace its own.
Sizes sizes_of(const Options& options);

// Reads a safetensors file, an index of several (model.safetensors.index.json), or a folder with
// model.safetensors or the index. Throws kNotFound with the names, and what the readers throw.
nn::Safetensors read_weights(const std::string& path);

// A network for tokens of so many kinds. `weights` may be null; else the network gets them. They
// have all names of GPT2LMHeadModel, or those of OpenAI's files. Throws kMismatch if the weights
// have another number of tokens, layers or positions or another width; the text names the option.
std::unique_ptr<nn::models::GPT2LMHeadModel> make_model(const Options& options,
                                                        std::int64_t token_kinds,
                                                        const nn::Safetensors* weights);

}  // namespace dl::examples::gpt
