// The text that train_gpt learns: its tokens, and samples of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/data/dataset.h"
#include "nn/text/byte_level_bpe.h"

namespace dl::examples::gpt {

// GPT-2's tokenizer, or the bytes of a text.
class Tokenizer {
 public:
  // `folder` has vocab.json and merges.txt; empty: the tokens are the bytes. Throws as
  // ByteLevelBPETokenizer.
  explicit Tokenizer(const std::string& folder);

  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int64_t> tokens) const;
  // Tokens are below it.
  std::int64_t size() const noexcept;
  // The token after which another text begins.
  std::optional<std::int64_t> end_of_text() const;

 private:
  std::optional<text::ByteLevelBPETokenizer> pairs_{};
};

// Reads a text. Throws kNotFound or kIo, and kParse if it is empty or not UTF-8.
std::string read_text(const std::string& path);

// Samples of `context` tokens, one after another, with the tokens that follow each of them: sample
// i has the tokens from context * i on as input [context], and those from context * i + 1 on as
// target. What does not fill the last sample is left out.
class TokenSamples final : public data::Dataset {
 public:
  TokenSamples(std::vector<std::int32_t> tokens, std::int64_t context);

  std::int64_t size() const noexcept override;
  const std::vector<data::Field>& fields() const noexcept override { return fields_; }
  void read(std::int64_t index, std::span<const std::span<std::byte>> out) const override;

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t context_;
  std::vector<data::Field> fields_;
};

struct Corpus {
  std::int64_t tokens = 0;
  std::unique_ptr<TokenSamples> train{};
  std::unique_ptr<TokenSamples> val{};  // the end of the text; null if nothing is held out
};

struct CorpusOptions {
  std::string path;
  std::int64_t context = 128;
  double val_fraction = 0.1;
};
// Throws as read_text(), and kInvalidArgument if a part of the text has no whole sample.
Corpus read_corpus(const CorpusOptions& options, const Tokenizer& tokenizer);

}  // namespace dl::examples::gpt
