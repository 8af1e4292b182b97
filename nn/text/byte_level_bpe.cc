#include "nn/text/byte_level_bpe.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <queue>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "core/base/text/utf8.h"
#include "nn/data/readers/file.h"
#include "nn/text/pre_tokenizer.h"

namespace dl::text {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kBytes = 256;
// GPT-2's vocabulary has 1 MB and 50,257 tokens; the largest in use have 256,000.
constexpr std::size_t kMostFileBytes = std::size_t{256} << 20U;
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 24U;
// Numbers without a token that a vocabulary may have for each token, and besides. A larger number
// in a small file would need memory for all numbers below it.
constexpr std::uint64_t kMostGapsPerToken = 3;
constexpr std::uint64_t kMostGaps = std::uint64_t{1} << 14U;

// Vocabularies write each byte as one character that shows: itself if it is a graphic character of
// Latin-1, else U+0100, U+0101, ... in the order of the bytes.
constexpr bool shows_itself(std::size_t byte) noexcept {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// The character of two bytes of UTF-8 at most that stands for `byte`, and nothing for others.
class ByteNames {
 public:
  ByteNames() {
    std::size_t next = kBytes;
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
      const std::size_t point = shows_itself(byte) ? byte : next++;
      constexpr std::size_t kAscii = 0x80;
      names_[byte] = point < kAscii ? std::string(1, static_cast<char>(point))
                                    : std::string{static_cast<char>(0xc0U | (point >> 6U)),
                                                  static_cast<char>(0x80U | (point & 0x3fU))};
      bytes_.emplace(names_[byte], static_cast<char>(byte));
    }
  }

  const std::string& name(std::size_t byte) const noexcept { return names_[byte]; }

  // The bytes of a token's name; nullopt if one of its characters stands for no byte.
  std::optional<std::string> bytes_of(std::string_view name) const {
    std::string bytes;
    for (std::size_t i = 0; i < name.size();) {
      const std::size_t length = utf8_length(name, i);
      const auto found = bytes_.find(std::string(name.substr(i, length)));
      if (found == bytes_.end()) return std::nullopt;
      bytes += found->second;
      i += length;
    }
    return bytes;
  }

 private:
  std::array<std::string, kBytes> names_{};
  std::unordered_map<std::string, char> bytes_{};
};

// Receives vocab.json (nlohmann's SAX interface), so that repeated names are seen.
class VocabularyReader {
 public:
  explicit VocabularyReader(std::string_view file) : file_(file) {}

  std::vector<std::pair<std::string, std::uint64_t>> tokens{};

  bool null() { return refuse("null"); }
  bool boolean(bool value) { return refuse(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return refuse(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return refuse(text); }
  bool number_unsigned(std::uint64_t value) {
    if (!in_object_ || value >= kMostTokens) return refuse(std::to_string(value));
    tokens.emplace_back(std::move(name_), value);
    return true;
  }
  bool string(std::string&) { return refuse("a string"); }
  bool binary(Json::binary_t&) { return refuse("binary data"); }
  bool key(std::string& name) {
    name_ = std::move(name);
    return true;
  }
  bool start_object(std::size_t) {
    return std::exchange(in_object_, true) ? refuse("an object") : true;
  }
  bool end_object() { return true; }
  bool start_array(std::size_t) { return refuse("an array"); }
  bool end_array() { return true; }
  [[noreturn]] bool parse_error(std::size_t byte, const std::string&, const Json::exception&) {
    throw_error(ErrorKind::kParse, "{}: not JSON from byte {} on; is the file whole?", file_, byte);
  }

 private:
  [[noreturn]] bool refuse(std::string_view found) {
    if (!in_object_)
      throw_error(ErrorKind::kParse, "{}: found {}, wanted an object of tokens and numbers", file_,
                  found);
    throw_error(ErrorKind::kParse, "{}: token {} has {}, wanted a number from 0 to {}", file_,
                quoted_name(name_), found, kMostTokens - 1);
  }

  std::string_view file_;
  std::string name_{};
  bool in_object_ = false;
};

std::string read_text(const std::string& path) {
  const std::vector<std::byte> bytes = data::read_file(path, kMostFileBytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

// A word's tokens as a list that joins neighbours in O(n log n), for words of any length.
struct ByteLevelBPETokenizer::Word {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Symbol {
    Token token;
    std::size_t previous;
    std::size_t next;
  };
  // A pair of neighbours that can be joined. It is out of date if one of them has changed.
  struct Candidate {
    std::size_t rank;
    std::size_t left;
    Token left_token;
    Token right_token;
    Token result;
    bool operator>(const Candidate& other) const noexcept {
      return std::tie(rank, left) > std::tie(other.rank, other.left);
    }
  };
  std::vector<Symbol> symbols{};
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates{};
};

ByteLevelBPETokenizer::ByteLevelBPETokenizer(const std::string& vocab, const std::string& merges,
                                             TokenizerOptions options) {
  read_vocabulary(vocab, options);
  read_merges(merges, vocab);
}

std::uint64_t ByteLevelBPETokenizer::pair_of(Token left, Token right) noexcept {
  return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint64_t>(right);
}

void ByteLevelBPETokenizer::read_vocabulary(const std::string& path,
                                            const TokenizerOptions& options) {
  VocabularyReader reader(path);
  Json::sax_parse(read_text(path), &reader);
  const ByteNames names;
  const std::uint64_t most = (kMostGapsPerToken + 1) * reader.tokens.size() + kMostGaps;
  for (auto& [name, id] : reader.tokens) {
    DL_CHECK(id < most, kParse, "{}: token {} has {}, wanted less than {} in a file of {} tokens",
             path, quoted_name(name), id, most, reader.tokens.size());
    const auto token = static_cast<Token>(id);
    DL_CHECK(ids_.emplace(name, token).second, kParse, "{}: token {} appears twice", path,
             quoted_name(name));
    if (bytes_.size() <= id) bytes_.resize(id + 1);
    DL_CHECK(!bytes_[id], kParse, "{}: number {} stands for {} and for another token", path, id,
             quoted_name(name));
    // A name that cannot come from a text is kept as it is: a special token of another model.
    bytes_[id] = names.bytes_of(name).value_or(name);
  }
  byte_tokens_.resize(kBytes);
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    const auto found = token_to_id(names.name(byte));
    DL_CHECK(found, kParse, "{}: no token {} for byte {}; is this a byte-level vocabulary?", path,
             quoted_name(names.name(byte)), byte);
    byte_tokens_[byte] = static_cast<Token>(*found);
  }
  if (options.special_tokens) {
    special_ = *options.special_tokens;
  } else if (token_to_id(kEndOfText)) {
    special_.emplace_back(kEndOfText);
  }
  for (const std::string& token : special_) {
    const auto found = token_to_id(token);
    DL_CHECK(!token.empty() && found, kParse, "{}: no special token {}", path, quoted_name(token));
    bytes_[static_cast<std::size_t>(*found)] = token;
  }
  std::ranges::stable_sort(special_, std::greater<>(), &std::string::size);
}

void ByteLevelBPETokenizer::read_merges(const std::string& path, const std::string& vocab) {
  const std::string text = read_text(path);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    DL_CHECK(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
             kParse, "{}: line {} is {}, wanted two tokens with a space between them", path, number,
             quoted_name(line));
    const std::string left(line.substr(0, space));
    const std::string right(line.substr(space + 1));
    const auto id_of = [&](const std::string& token) {
      const auto found = token_to_id(token);
      DL_CHECK(found, kParse, "{}: line {} needs token {}, which {} does not have", path, number,
               quoted_name(token), vocab);
      return static_cast<Token>(*found);
    };
    const Merge merge{.rank = merges_.size(), .result = id_of(left + right)};
    DL_CHECK(merges_.emplace(pair_of(id_of(left), id_of(right)), merge).second, kParse,
             "{}: line {} repeats the pair {}", path, number, quoted_name(line));
  }
}

std::optional<std::int64_t> ByteLevelBPETokenizer::token_to_id(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

void ByteLevelBPETokenizer::encode_word(std::string_view bytes, Word& word,
                                        std::vector<std::int64_t>& tokens) const {
  std::vector<Word::Symbol>& symbols = word.symbols;
  symbols.clear();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    symbols.push_back({.token = byte_tokens_[static_cast<unsigned char>(bytes[i])],
                       .previous = i - 1,  // kNone for the first
                       .next = i + 1 < bytes.size() ? i + 1 : Word::kNone});
  const auto consider = [&](std::size_t left) {
    if (left == Word::kNone || symbols[left].next == Word::kNone) return;
    const Token a = symbols[left].token;
    const Token b = symbols[symbols[left].next].token;
    const auto found = merges_.find(pair_of(a, b));
    if (found == merges_.end()) return;
    word.candidates.push({found->second.rank, left, a, b, found->second.result});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);
  constexpr Token kJoined = -1;
  while (!word.candidates.empty()) {
    const Word::Candidate best = word.candidates.top();
    word.candidates.pop();
    Word::Symbol& left = symbols[best.left];
    if (left.token != best.left_token || left.next == Word::kNone ||
        symbols[left.next].token != best.right_token)
      continue;
    left.token = best.result;
    Word::Symbol& right = symbols[left.next];
    right.token = kJoined;
    left.next = right.next;
    if (left.next != Word::kNone) symbols[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (std::size_t i = 0; i != Word::kNone; i = symbols[i].next) tokens.push_back(symbols[i].token);
}

void ByteLevelBPETokenizer::encode_plain(std::string_view text, Word& word,
                                         std::vector<std::int64_t>& tokens) const {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t length = gpt2_word_length(text, begin);
    encode_word(text.substr(begin, length), word, tokens);
    begin += length;
  }
}

std::vector<std::int64_t> ByteLevelBPETokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  Word word;
  std::size_t plain = 0;                  // the first byte that has no tokens yet
  std::array<bool, kBytes> begins_one{};  // by the first byte of a special token
  for (const std::string& token : special_) begins_one[static_cast<unsigned char>(token[0])] = true;
  // With no special token the loop would look for nothing at each byte.
  for (std::size_t i = 0; !special_.empty() && i < text.size(); ++i) {
    if (!begins_one[static_cast<unsigned char>(text[i])]) continue;
    const auto special = std::ranges::find_if(
        special_, [rest = text.substr(i)](const auto& token) { return rest.starts_with(token); });
    if (special == special_.end()) continue;
    encode_plain(text.substr(plain, i - plain), word, tokens);
    tokens.push_back(*token_to_id(*special));
    plain = i + special->size();
    i = plain - 1;
  }
  encode_plain(text.substr(plain), word, tokens);
  return tokens;
}

std::string ByteLevelBPETokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens) {
    DL_CHECK(token >= 0 && token < vocab_size() && bytes_[static_cast<std::size_t>(token)],
             kInvalidArgument, "decode: no token has the number {}; the vocabulary has 0 to {}",
             token, vocab_size() - 1);
    text += *bytes_[static_cast<std::size_t>(token)];
  }
  return text;
}

}  // namespace dl::text
