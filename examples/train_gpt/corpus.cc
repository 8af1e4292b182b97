#include "examples/train_gpt/corpus.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/text/utf8.h"
#include "nn/serialize/input_file.h"

namespace dl::examples::gpt {
namespace {

constexpr std::int64_t kBytes = 256;

std::vector<std::int64_t> bytes_of(std::string_view text) {
  std::vector<std::int64_t> tokens(text.size());
  std::ranges::transform(text, tokens.begin(),
                         [](char byte) { return static_cast<unsigned char>(byte); });
  return tokens;
}

// One token before the first sample's targets, and a sample.
void require_sample(std::int64_t tokens, const CorpusOptions& options, std::int64_t all,
                    const char* part, const char* help) {
  DL_CHECK(tokens > options.context, kInvalidArgument,
           "--text {} has {} tokens, and {} of them are {}; --context {} needs {} or more: give a "
           "longer text, a smaller --context, or a {}",
           options.path, all, tokens, part, options.context, options.context + 1, help);
}

}  // namespace

Tokenizer::Tokenizer(const std::string& folder) {
  if (!folder.empty()) pairs_.emplace(folder + "/vocab.json", folder + "/merges.txt");
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  return pairs_ ? pairs_->encode(text) : bytes_of(text);
}

std::string Tokenizer::decode(std::span<const std::int64_t> tokens) const {
  if (pairs_) return pairs_->decode(tokens);
  std::string text;
  for (const std::int64_t token : tokens) text += static_cast<char>(token);
  return text;
}

std::int64_t Tokenizer::size() const noexcept {
  return pairs_ ? pairs_->vocab_size() : kBytes;
}

std::optional<std::int64_t> Tokenizer::end_of_text() const {
  return pairs_ ? pairs_->token_to_id(text::kEndOfText) : std::nullopt;
}

std::string read_text(const std::string& path) {
  const nn::InputFile file(path);
  DL_CHECK(file.size() > 0, kParse, "--text {} is empty", path);
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    DL_CHECK(length > 0, kParse,
             "--text {} is not UTF-8: byte {} is {:#04x}; convert it, for example with iconv", path,
             i, static_cast<unsigned>(static_cast<unsigned char>(text[i])));
    i += length;
  }
  return text;
}

TokenSamples::TokenSamples(std::vector<std::int32_t> tokens, std::int64_t context)
    : tokens_(std::move(tokens)),
      context_(context),
      fields_{{.name = "input", .dtype = DType::kI64, .shape = {context}},
              {.name = "target", .dtype = DType::kI64, .shape = {context}}} {}

std::int64_t TokenSamples::size() const noexcept {
  return (static_cast<std::int64_t>(tokens_.size()) - 1) / context_;
}

void TokenSamples::read(std::int64_t index, std::span<const std::span<std::byte>> out) const {
  const auto first = tokens_.begin() + index * context_;
  std::copy_n(first, context_, reinterpret_cast<std::int64_t*>(out[0].data()));
  std::copy_n(first + 1, context_, reinterpret_cast<std::int64_t*>(out[1].data()));
}

Corpus read_corpus(const CorpusOptions& options, const Tokenizer& tokenizer) {
  const std::vector<std::int64_t> tokens = tokenizer.encode(read_text(options.path));
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto held_out =
      static_cast<std::int64_t>(static_cast<double>(count) * options.val_fraction);
  require_sample(count - held_out, options, count, "for training", "smaller --val-fraction");
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return std::make_unique<TokenSamples>(
        std::vector<std::int32_t>(tokens.begin() + begin, tokens.begin() + end), options.context);
  };
  Corpus corpus{.tokens = count, .train = part(0, count - held_out)};
  if (options.val_fraction > 0) {
    require_sample(held_out, options, count, "held out", "larger --val-fraction (0: none)");
    corpus.val = part(count - held_out, count);
  }
  return corpus;
}

}  // namespace dl::examples::gpt
