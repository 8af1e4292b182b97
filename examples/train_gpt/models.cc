#include "examples/train_gpt/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "examples/support/training/choices/rows.h"

namespace dl::examples::gpt {
namespace {

namespace fs = std::filesystem;
namespace nm = nn::models;

constexpr ModelRow kModels[] = {
    {"gpt-nano", {.layers = 3, .heads = 3, .width = 48}},
    {"gpt-micro", {.layers = 4, .heads = 4, .width = 128}},
    {"gpt-mini", {.layers = 6, .heads = 6, .width = 192}},
    {"gpt2", {.layers = 12, .heads = 12, .width = 768, .positions = 1024}},
    {"gpt2-medium", {.layers = 24, .heads = 16, .width = 1024, .positions = 1024}},
    {"gpt2-large", {.layers = 36, .heads = 20, .width = 1280, .positions = 1024}},
    {"gpt2-xl", {.layers = 48, .heads = 25, .width = 1600, .positions = 1024}},
};

constexpr std::string_view kPrefix = "transformer.";

const Tensor& require_tensor(const nn::Safetensors& weights, const std::string& prefix,
                             const std::string& name) {
  const Tensor* const tensor = nn::find(weights.tensors, prefix + name);
  DL_CHECK(tensor != nullptr && tensor->dim() == 2, kMismatch,
           "--load {} has no weights of a GPT-2: there is no matrix {}", weights.path, name);
  return *tensor;
}

std::int64_t count_layers(const nn::Safetensors& weights, const std::string& prefix) {
  std::int64_t layers = 0;
  while (nn::find(weights.tensors, fmt::format("{}h.{}.ln_1.weight", prefix, layers)) != nullptr) {
    ++layers;
  }
  return layers;
}

// "transformer." or nothing.
std::string prefix_of(const nn::Safetensors& weights) {
  const bool has = std::ranges::any_of(
      weights.tensors, [](const nn::NamedTensor& one) { return one.name.starts_with(kPrefix); });
  return has ? std::string(kPrefix) : "";
}

void require_fit(const Options& options, const Sizes& sizes, std::int64_t token_kinds,
                 const nn::Safetensors& weights, const std::string& prefix) {
  const Tensor& words = require_tensor(weights, prefix, "wte.weight");
  const std::int64_t positions = require_tensor(weights, prefix, "wpe.weight").size(0);
  const std::int64_t layers = count_layers(weights, prefix);
  DL_CHECK(words.size(0) == token_kinds, kMismatch,
           "--load {} is of a model for {} kinds of tokens, and {} {}; give the --tokenizer that "
           "the weights were trained with",
           weights.path, words.size(0),
           options.tokenizer.empty() ? "bytes have" : "--tokenizer " + options.tokenizer + " has",
           token_kinds);
  DL_CHECK(layers == sizes.layers && words.size(1) == sizes.width, kMismatch,
           "--load {} is of a model of {} layers and width {}, and --model {} has {} and {}; give "
           "its --model, or --layers and --width",
           weights.path, layers, words.size(1), options.model, sizes.layers, sizes.width);
  DL_CHECK(options.context <= positions, kMismatch,
           "--context {} is more than the {} positions of --load {}; give a smaller --context",
           options.context, positions, weights.path);
}

}  // namespace

std::span<const ModelRow> models() {
  return kModels;
}

Sizes sizes_of(const Options& options) {
  Sizes sizes = find_row(models(), "--model", options.model).sizes;
  if (options.layers > 0) sizes.layers = options.layers;
  if (options.heads > 0) sizes.heads = options.heads;
  if (options.width > 0) sizes.width = options.width;
  return sizes;
}

nn::Safetensors read_weights(const std::string& path) {
  constexpr std::string_view kNames[] = {"model.safetensors", "model.safetensors.index.json"};
  std::error_code ignored;
  fs::path file = path;
  if (fs::is_directory(path, ignored)) {
    const auto* const name = std::ranges::find_if(
        kNames, [&](std::string_view one) { return fs::exists(fs::path(path) / one, ignored); });
    DL_CHECK(name != std::end(kNames), kNotFound, "--load {} is a folder without {} or {}", path,
             kNames[0], kNames[1]);
    file /= *name;
  }
  return file.extension() == ".json" ? nn::load_sharded_safetensors(file.string())
                                     : nn::load_safetensors(file.string());
}

std::unique_ptr<nm::GPT2LMHeadModel> make_model(const Options& options, std::int64_t token_kinds,
                                                const nn::Safetensors* weights) {
  const Sizes sizes = sizes_of(options);
  nm::GPT2Options model_options{
      .vocab_size = token_kinds,
      .n_positions = sizes.positions > 0 ? sizes.positions : options.context,
      .n_embd = sizes.width,
      .n_layer = sizes.layers,
      .n_head = sizes.heads,
      .resid_pdrop = options.dropout,
      .embd_pdrop = options.dropout,
      .attn_pdrop = options.dropout};
  if (weights == nullptr) return std::make_unique<nm::GPT2LMHeadModel>(model_options);
  const std::string prefix = prefix_of(*weights);
  require_fit(options, sizes, token_kinds, *weights, prefix);
  model_options.n_positions = require_tensor(*weights, prefix, "wpe.weight").size(0);
  auto model = std::make_unique<nm::GPT2LMHeadModel>(model_options);
  nn::Module& part = prefix.empty() ? static_cast<nn::Module&>(model->transformer) : *model;
  // Files of GPT-2 have masks beside the weights (h.0.attn.bias), which are constants.
  const nn::IncompatibleKeys keys = part.load_state_dict(*weights, {.strict = false});
  for (const std::string& name : keys.missing) {
    DL_CHECK(name == "lm_head.weight", kMismatch, "--load {} has no {}", weights->path, name);
  }
  return model;
}

}  // namespace dl::examples::gpt
