#include "nn/text/byte_level_bpe.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/core/support.h"
#include "tests/nn/data/bytes.h"
#include "tests/parity/arrays.h"

namespace dl::text {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A folder with a vocabulary and its merges.
class Files {
 public:
  Files(std::string_view vocab_text, std::string_view merges_text)
      : vocab(folder_.write("vocab.json", std::as_bytes(std::span(vocab_text)))),
        merges(folder_.write("merges.txt", std::as_bytes(std::span(merges_text)))) {}

 private:
  data::TemporaryDirectory folder_;

 public:
  const std::string vocab;
  const std::string merges;
};

// The 256 bytes, numbered as they are written, and `more`, which begins with a comma.
std::string small_vocabulary(const parity::Arrays& arrays, const std::string& more = "") {
  const std::string& whole = arrays.raw("vocab");
  // The first token is kEndOfText, and the bytes follow it.
  std::size_t end = 0;
  for (int commas = 0; commas <= 256; ++commas) end = whole.find(", \"", end + 1);
  return whole.substr(0, end) + more + "}";
}

TEST(ByteLevelBPE, AgreesWithHuggingFace) {
  const parity::Arrays arrays("tokens");
  const Files files(arrays.raw("vocab"), arrays.raw("merges"));
  const ByteLevelBPETokenizer tokenizer(files.vocab, files.merges);
  EXPECT_EQ(tokenizer.vocab_size(), 420);
  int texts = 0;
  for (; arrays.has(fmt::format("text.{}", texts)); ++texts) {
    const std::string& text = arrays.raw(fmt::format("text.{}", texts));
    const auto tokens = tokenizer.encode(text);
    EXPECT_EQ(tokens, arrays.get<std::int64_t>(fmt::format("tokens.{}", texts))) << text;
    EXPECT_EQ(tokenizer.decode(tokens), text);
  }
  EXPECT_EQ(texts, 137);
}

TEST(ByteLevelBPE, AnyBytesComeBack) {
  const parity::Arrays arrays("tokens");
  const Files files(arrays.raw("vocab"), arrays.raw("merges"));
  const ByteLevelBPETokenizer tokenizer(files.vocab, files.merges);
  EXPECT_TRUE(tokenizer.encode("").empty());
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  text += "\xe2\x82 \xf0\x9f the \xc0\x80\xed\xa0\x80's";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  // One word whose joining would take hours if each join read the whole word again.
  const std::string word(1'000'000, 'e');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(word)), word);
}

TEST(ByteLevelBPE, SpecialTokensStandForThemselves) {
  const parity::Arrays arrays("tokens");
  const std::string vocab = small_vocabulary(arrays, R"(, "<a>": 300, "<a>b": 301, "日": 302)");
  const Files files(vocab, "");
  const ByteLevelBPETokenizer plain(files.vocab, files.merges, {.special_tokens = {{}}});
  EXPECT_EQ(plain.encode(kEndOfText).size(), kEndOfText.size());
  const ByteLevelBPETokenizer special(files.vocab, files.merges,
                                      {.special_tokens = {{"<a>", "<a>b", "日"}}});
  EXPECT_THAT(
      special.encode("<a>b<a>日<a"),
      testing::ElementsAre(301, 300, 302, *special.token_to_id("<"), *special.token_to_id("a")));
  EXPECT_EQ(special.decode(std::vector<std::int64_t>{300, 302}), "<a>日");
  EXPECT_EQ(special.vocab_size(), 303);
  EXPECT_EQ(special.token_to_id("absent"), std::nullopt);
}

TEST(ByteLevelBPE, DecodeRefusesNumbersWithoutAToken) {
  const parity::Arrays arrays("tokens");
  const Files files(small_vocabulary(arrays, R"(, "ab": 300)"), "");
  const ByteLevelBPETokenizer tokenizer(files.vocab, files.merges);
  for (const std::int64_t token : {-1, 299, 301}) {
    EXPECT_THAT([&] { tokenizer.decode(std::vector<std::int64_t>{token}); },
                ThrowsMessage<Error>(HasSubstr(fmt::format(
                    "decode: no token has the number {}; the vocabulary has 0 to 300", token))));
  }
}

TEST(ByteLevelBPE, WrongFilesAreRefusedByName) {
  const parity::Arrays arrays("tokens");
  const std::string bytes = small_vocabulary(arrays);
  const auto expect = [](std::string_view vocab, std::string_view merges, std::string_view text) {
    const Files files(vocab, merges);
    EXPECT_THAT([&] { ByteLevelBPETokenizer(files.vocab, files.merges); },
                ThrowsMessage<Error>(HasSubstr(std::string(text))))
        << text;
  };
  expect("", "", "vocab.json: not JSON from byte");
  expect(bytes.substr(0, 99), "", "vocab.json: not JSON from byte");
  expect("[]", "", "vocab.json: found an array, wanted an object of tokens and numbers");
  expect("7", "", "found 7, wanted an object");
  expect(R"({"a": {"b": 1}})", "", "token \"a\" has an object, wanted a number from 0 to 16777215");
  expect(R"({"a": -1})", "", "token \"a\" has -1, wanted a number");
  expect(R"({"a": 1.5})", "", "token \"a\" has 1.5, wanted a number");
  expect(R"({"a": 99999999999})", "", "token \"a\" has 99999999999, wanted a number");
  expect(R"({"a": 1, "a": 2})", "", "token \"a\" appears twice");
  expect(R"({"a": 1, "b": 1})", "", "number 1 stands for \"b\" and for another token");
  // 17 bytes would need memory for 16 million numbers.
  expect(R"({"a": 16777215})", "",
         "token \"a\" has 16777215, wanted less than 16388 in a file of 1");
  expect(R"({"a": 1})", "", "is this a byte-level vocabulary?");
  expect(bytes, "a\n", "merges.txt: line 1 is \"a\", wanted two tokens with a space between them");
  expect(bytes, "#version: 0.2\na b c\n", "line 2 is \"a b c\", wanted two tokens");
  expect(bytes, "a b\n", "merges.txt: line 1 needs token \"ab\", which ");
  expect(small_vocabulary(arrays, R"(, "ab": 300)"), "a b\r\n\na b",
         "line 3 repeats the pair \"a b\"");
  const Files files(bytes, "");
  EXPECT_THAT(
      [&] { ByteLevelBPETokenizer(files.vocab, files.merges, {.special_tokens = {{"<pad>"}}}); },
      ThrowsMessage<Error>(HasSubstr("vocab.json: no special token \"<pad>\"")));
  EXPECT_THAT([&] { ByteLevelBPETokenizer("/absent", files.merges); },
              ThrowsMessage<Error>(HasSubstr("/absent")));
}

}  // namespace
}  // namespace dl::text
