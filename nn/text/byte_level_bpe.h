// The tokenizer of GPT-2: byte-pair encoding of the bytes of a text (Radford et al. 2019; Sennrich
// et al. 2016), with the files of OpenAI and Hugging Face. Every text has an encoding, and decode()
// gives its bytes back.
//
// Thread-safety: const functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dl::text {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

struct TokenizerOptions {
  // Tokens that stand for themselves in a text and are not divided. Unset: kEndOfText, if the
  // vocabulary has it.
  std::optional<std::vector<std::string>> special_tokens{};
};

class ByteLevelBPETokenizer {
 public:
  // `vocab`: a JSON object of tokens and their numbers (vocab.json); `merges`: a line for each pair
  // of tokens that is joined, the first pair first, after an optional line "#version: ..."
  // (merges.txt). Throws kNotFound, kIo or kParse, with the file's name: among others if the
  // vocabulary lacks one of the 256 bytes, a part or the result of a merge, or a special token.
  ByteLevelBPETokenizer(const std::string& vocab, const std::string& merges,
                        TokenizerOptions options = {});

  // The numbers of the tokens of `text`, which may be any bytes.
  std::vector<std::int64_t> encode(std::string_view text) const;
  // The bytes of these tokens. One token may end within a character of UTF-8. Throws
  // kInvalidArgument for a number that the vocabulary does not have.
  std::string decode(std::span<const std::int64_t> tokens) const;

  // The largest number plus 1: the rows of an embedding for these tokens.
  std::int64_t vocab_size() const noexcept { return static_cast<std::int64_t>(bytes_.size()); }
  // `token` as vocab.json writes it, for example "Ġthe" or "<|endoftext|>".
  std::optional<std::int64_t> token_to_id(std::string_view token) const;

 private:
  using Token = std::int32_t;
  struct Merge {
    std::size_t rank;
    Token result;
  };
  struct Word;  // what is being joined

  static std::uint64_t pair_of(Token left, Token right) noexcept;
  void read_vocabulary(const std::string& path, const TokenizerOptions& options);
  void read_merges(const std::string& path, const std::string& vocab);
  void encode_word(std::string_view bytes, Word& word, std::vector<std::int64_t>& tokens) const;
  void encode_plain(std::string_view text, Word& word, std::vector<std::int64_t>& tokens) const;

  std::unordered_map<std::string, Token> ids_;       // by the name in vocab.json
  std::vector<std::optional<std::string>> bytes_;    // by number; nullopt: no such token
  std::vector<Token> byte_tokens_;                   // [256]
  std::unordered_map<std::uint64_t, Merge> merges_;  // by pair_of()
  std::vector<std::string> special_;                 // not empty, the longest first
};

}  // namespace dl::text
