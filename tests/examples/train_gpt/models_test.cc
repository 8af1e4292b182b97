#include "examples/train_gpt/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "core/ops/logic/logic.h"
#include "core/tensor/factories.h"
#include "tests/support/temp_dir.h"

namespace dl::examples::gpt {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Options small_options() {
  return {.context = 8, .layers = 2, .heads = 2, .width = 8};
}

// The names of a state without "transformer.", and without the last layer, as in OpenAI's files.
nn::StateDict published(const nn::StateDict& state) {
  nn::StateDict names;
  for (const nn::NamedTensor& one : state) {
    if (one.name.starts_with("transformer.")) {
      names.push_back({one.name.substr(std::string("transformer.").size()), one.tensor});
    }
  }
  names.push_back({"h.0.attn.bias", ones({1, 1, 8, 8})});
  return names;
}

TEST(GptModels, HaveTheSizesOfTheirNames) {
  const Sizes medium = sizes_of({.model = "gpt2-medium"});
  EXPECT_EQ(medium.layers, 24);
  EXPECT_EQ(medium.width, 1024);
  EXPECT_EQ(medium.positions, 1024);
  EXPECT_EQ(sizes_of({.model = "gpt-nano", .width = 96}).width, 96);
  for (const ModelRow& row : models()) {
    if (!row.name.starts_with("gpt2")) continue;
    const nn::models::GPT2Options want = nn::models::gpt2_options(row.name);
    EXPECT_EQ(row.sizes.layers, want.n_layer) << row.name;
    EXPECT_EQ(row.sizes.heads, want.n_head) << row.name;
    EXPECT_EQ(row.sizes.width, want.n_embd) << row.name;
  }
}

TEST(GptModels, TakeWeightsWithEitherNames) {
  const auto trained = make_model(small_options(), 11, nullptr);
  const tests::TempDir dir;
  nn::save_safetensors(dir.path() + "/all.safetensors", trained->state_dict());
  nn::save_safetensors(dir.path() + "/published.safetensors", published(trained->state_dict()));
  for (const char* name : {"/all.safetensors", "/published.safetensors"}) {
    const nn::Safetensors weights = read_weights(dir.path() + name);
    // The file's number of positions stays, also if the samples are shorter.
    Options options = small_options();
    options.context = 4;
    const auto model = make_model(options, 11, &weights);
    EXPECT_EQ(model->transformer.options.n_positions, 8);
    for (const auto& [parameter, tensor] : trained->named_parameters()) {
      EXPECT_TRUE(equal(model->get_parameter(parameter), tensor)) << name << ' ' << parameter;
    }
  }
}

TEST(GptModels, TakeWeightsOfAFolder) {
  const auto trained = make_model(small_options(), 11, nullptr);
  const tests::TempDir dir;
  EXPECT_THAT([&] { read_weights(dir.path()); },
              ThrowsMessage<Error>("--load " + dir.path() +
                                   " is a folder without model.safetensors or "
                                   "model.safetensors.index.json"));
  // Two shards, each with every second tensor.
  nn::StateDict shards[2];
  std::string index = R"({"metadata": {}, "weight_map": {)";
  const nn::StateDict state = published(trained->state_dict());
  for (std::size_t i = 0; i < state.size(); ++i) {
    shards[i % 2].push_back(state[i]);
    index += (i > 0 ? ", \"" : "\"") + state[i].name + "\": \"" + std::to_string(i % 2) +
             ".safetensors\"";
  }
  for (int i = 0; i < 2; ++i) {
    nn::save_safetensors(dir.path() + "/" + std::to_string(i) + ".safetensors", shards[i]);
  }
  std::ofstream(dir.path() + "/model.safetensors.index.json") << index << "}}";
  EXPECT_EQ(read_weights(dir.path()).tensors.size(), state.size());
  nn::save_safetensors(dir.path() + "/model.safetensors", {{"one", ones({1})}});
  EXPECT_EQ(read_weights(dir.path()).tensors.size(), 1U) << "one file goes before an index";
}

TEST(GptModels, RefuseWeightsOfOthersInOneSentence) {
  const nn::Safetensors weights{.tensors = make_model(small_options(), 11, nullptr)->state_dict(),
                                .metadata = {},
                                .path = "F"};
  const auto refused = [](const Options& options, std::int64_t token_kinds,
                          const nn::Safetensors& given, const std::string& text) {
    EXPECT_THAT([&] { make_model(options, token_kinds, &given); },
                ThrowsMessage<Error>(HasSubstr(text)));
  };
  refused(small_options(), 256, weights,
          "--load F is of a model for 11 kinds of tokens, and bytes have 256; give the --tokenizer "
          "that the weights were trained with");
  Options other = small_options();
  other.tokenizer = "T";
  refused(other, 12, weights, "11 kinds of tokens, and --tokenizer T has 12;");
  other = small_options();
  other.layers = 3;
  refused(other, 11, weights,
          "--load F is of a model of 2 layers and width 8, and --model gpt-micro has 3 and 8; give "
          "its --model, or --layers and --width");
  other = small_options();
  other.context = 9;
  refused(other, 11, weights, "--context 9 is more than the 8 positions of --load F");
  refused(small_options(), 11,
          {.tensors = {{"conv1.weight", ones({1, 1})}}, .metadata = {}, .path = "F"},
          "--load F has no weights of a GPT-2: there is no matrix wte.weight");
  nn::Safetensors without_norm = weights;
  std::erase_if(without_norm.tensors, [](const nn::NamedTensor& one) {
    return one.name == "transformer.h.1.ln_2.weight";
  });
  refused(small_options(), 11, without_norm, "--load F has no transformer.h.1.ln_2.weight");
}

}  // namespace
}  // namespace dl::examples::gpt
