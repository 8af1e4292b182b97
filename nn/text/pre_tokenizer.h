// The words into which GPT-2 divides a text before byte-pair encoding.
//
// Thread-safety: a pure function.
#pragma once

#include <cstddef>
#include <string_view>

namespace dl::text {

// Bytes of the word that begins at `begin`, at least 1; begin < text.size(). The words are those of
// GPT-2's expression, with Unicode's letters (L), numbers (N) and white space:
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// "it's  12 tensors" has the words "it", "'s", " ", " 12" and " tensors".
// A byte of malformed UTF-8 counts as a character that is none of the three.
std::size_t gpt2_word_length(std::string_view text, std::size_t begin) noexcept;

}  // namespace dl::text
