#include "examples/train_gpt/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/nn/data/bytes.h"
#include "tests/parity/arrays.h"

namespace dl::examples::gpt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string write(const data::TemporaryDirectory& dir, const std::string& name,
                  const std::string& text) {
  return dir.write(name, std::as_bytes(std::span(text)));
}

std::vector<std::int64_t> values_of(const Tensor& tensor) {
  const auto* const first = tensor.data<std::int64_t>();
  return {first, first + tensor.numel()};
}

TEST(Tokenizer, TakesBytesWithoutAFolder) {
  const Tokenizer tokenizer("");
  EXPECT_EQ(tokenizer.size(), 256);
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
  const std::string text("a\xc3\xbc\0z", 5);
  EXPECT_THAT(tokenizer.encode(text), ElementsAre(97, 0xc3, 0xbc, 0, 122));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Tokenizer, ReadsTheFilesOfAFolder) {
  const parity::Arrays arrays("tokens");
  const data::TemporaryDirectory dir;
  write(dir, "vocab.json", arrays.raw("vocab"));
  write(dir, "merges.txt", arrays.raw("merges"));
  const Tokenizer tokenizer(dir.path());
  EXPECT_EQ(tokenizer.size(), 420);
  EXPECT_EQ(tokenizer.end_of_text(), 0);
  EXPECT_EQ(tokenizer.encode(arrays.raw("text.3")), arrays.get<std::int64_t>("tokens.3"));
  EXPECT_EQ(tokenizer.decode(arrays.get<std::int64_t>("tokens.3")), arrays.raw("text.3"));
}

TEST(Corpus, HasSamplesAndWhatFollowsThem) {
  const data::TemporaryDirectory dir;
  // 10 tokens for training, whose last one is a target only, and 5 that are held out.
  const Corpus corpus =
      read_corpus({.path = write(dir, "t", "abcdefghijklmno"), .context = 4, .val_fraction = 0.34},
                  Tokenizer(""));
  EXPECT_EQ(corpus.tokens, 15);
  ASSERT_EQ(corpus.train->size(), 2);
  const data::Sample second = corpus.train->get(1);
  EXPECT_THAT(values_of(second[0]), ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_THAT(values_of(second[1]), ElementsAre('f', 'g', 'h', 'i'));
  ASSERT_EQ(corpus.val->size(), 1);
  EXPECT_THAT(values_of(corpus.val->get(0)[0]), ElementsAre('k', 'l', 'm', 'n'));
  EXPECT_THAT(values_of(corpus.val->get(0)[1]), ElementsAre('l', 'm', 'n', 'o'));
}

TEST(Corpus, MayHoldNothingOut) {
  const data::TemporaryDirectory dir;
  const Corpus corpus = read_corpus(
      {.path = write(dir, "t", "abcde"), .context = 4, .val_fraction = 0}, Tokenizer(""));
  EXPECT_EQ(corpus.train->size(), 1);
  EXPECT_EQ(corpus.val, nullptr);
}

TEST(Corpus, OfTooFewTokensIsRefused) {
  const data::TemporaryDirectory dir;
  const std::string path = write(dir, "t", "abcdefghij");
  const Tokenizer bytes("");
  EXPECT_THAT([&] { read_corpus({.path = path, .context = 9, .val_fraction = 0.5}, bytes); },
              ThrowsMessage<Error>("--text " + path +
                                   " has 10 tokens, and 5 of them are for training; --context 9 "
                                   "needs 10 or more: give a longer text, a smaller --context, or "
                                   "a smaller --val-fraction"));
  EXPECT_THAT([&] { read_corpus({.path = path, .context = 4, .val_fraction = 0.1}, bytes); },
              ThrowsMessage<Error>(HasSubstr("and 1 of them are held out; --context 4 needs 5")));
}

TEST(Corpus, IsRefusedIfItsFileIsNoText) {
  const data::TemporaryDirectory dir;
  const auto refused = [&](const std::string& path, const std::string& text) {
    EXPECT_THAT([&] { read_text(path); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  refused("/nowhere/t", "open /nowhere/t: No such file");
  refused(dir.path(), dir.path());
  refused(write(dir, "empty", ""), "empty is empty");
  refused(write(dir, "latin", "gr\xfc\xdf"),
          "latin is not UTF-8: byte 2 is 0xfc; convert it, for example with iconv");
  refused(write(dir, "cut", "gr\xc3"), "cut is not UTF-8: byte 2 is 0xc3");
}

}  // namespace
}  // namespace dl::examples::gpt
