#include "nn/data/readers/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "tests/nn/data/bytes.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

IdxArray u8(std::vector<std::int64_t> shape, Bytes bytes) {
  return {.dtype = DType::kU8, .shape = std::move(shape), .bytes = std::move(bytes)};
}

void expect_not_joined(const IdxArray& images, const IdxArray& labels, const std::string& text) {
  EXPECT_THAT([&] { join_mnist(images, "i", labels, "l"); }, ThrowsMessage<Error>(text));
}

TEST(Mnist, JoinsImagesAndLabels) {
  const LabelledImages set =
      join_mnist(u8({2, 1, 2}, bytes_of({1, 2, 3, 4})), "i", u8({2}, bytes_of({9, 0})), "l");
  EXPECT_EQ(set.count, 2);
  EXPECT_EQ(set.channels, 1);
  EXPECT_EQ(set.height, 1);
  EXPECT_EQ(set.width, 2);
  EXPECT_THAT(set.labels, ElementsAre(9, 0));
}

TEST(Mnist, RefusesFilesThatDoNotBelongTogether) {
  const IdxArray images = u8({2, 1, 1}, bytes_of({1, 2}));
  expect_not_joined(images, u8({1}, bytes_of({1})), "i holds 2 images, l holds 1 labels");
  expect_not_joined(images, u8({2}, bytes_of({1, 10})), "l: sample 1 has label 10, wanted 0 to 9");
  expect_not_joined(u8({2}, bytes_of({1, 2})), u8({2}, bytes_of({1, 2})),
                    "i holds uint8 [2], wanted images uint8 [count, height, width]");
  expect_not_joined(images, images, "l holds uint8 [2, 1, 1], wanted labels uint8 [count]");
  expect_not_joined(u8({2, 0, 5}, {}), u8({2}, bytes_of({1, 2})),
                    "i holds uint8 [2, 0, 5], wanted images uint8 [count, height, width]");
}

TEST(Mnist, ReadsTheDigitsThatComeWithDlrun) {
  const std::string dir = std::string(std::getenv("DLRUN_TEST_SOURCE")) + "/examples/data/digits";
  const LabelledImages train = read_mnist(dir, Split::kTrain);
  EXPECT_EQ(train.count, 1433);
  EXPECT_EQ(train.height, 8);
  EXPECT_EQ(train.pixels.size(), 1433U * 64);
  EXPECT_EQ(read_mnist(dir, Split::kTest).count, 364);
}

Bytes cifar_record(int label, int value) {
  return bytes_of({label}) + Bytes(3072, static_cast<std::byte>(value));
}

TEST(Cifar10, ReadsRecords) {
  LabelledImages images;
  append_cifar10(cifar_record(3, 10) + cifar_record(9, 20), "f", images);
  append_cifar10(cifar_record(1, 30), "g", images);
  EXPECT_EQ(images.count, 3);
  EXPECT_THAT(images.labels, ElementsAre(3, 9, 1));
  EXPECT_EQ(images.pixels.size(), 3U * 3072);
  EXPECT_EQ(images.pixels[3072], std::byte{20});
}

TEST(Cifar10, RefusesPartsOfRecordsAndOddLabels) {
  LabelledImages images;
  EXPECT_THAT(
      [&] { append_cifar10(Bytes(3072), "f", images); },
      ThrowsMessage<Error>("f has 3072 bytes, wanted a multiple of 3073 (a label and 3 x 32 "
                           "x 32 values a record)"));
  EXPECT_THROW(append_cifar10({}, "f", images), Error);
  EXPECT_THAT([&] { append_cifar10(cifar_record(10, 0), "f", images); },
              ThrowsMessage<Error>("f: sample 0 has label 10, wanted 0 to 9"));
}

TEST(Cifar10, ReadsTheFilesOfASplitInTheirFolderOrAboveIt) {
  const TemporaryDirectory dir;
  for (int i = 1; i <= 5; ++i) {
    dir.write("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", cifar_record(i, i));
  }
  dir.write("cifar-10-batches-bin/test_batch.bin", cifar_record(7, 7));
  EXPECT_THAT(read_cifar10(dir.path(), Split::kTrain).labels, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(read_cifar10(dir.path() + "/cifar-10-batches-bin", Split::kTest).labels,
              ElementsAre(7));
}

TEST(Cifar10, NamesTheFileThatIsNotThere) {
  const TemporaryDirectory dir;
  EXPECT_THAT(
      [&] { read_cifar10(dir.path(), Split::kTest); },
      ThrowsMessage<Error>("open " + dir.path() + "/test_batch.bin: No such file or directory"));
}

TEST(Cifar100, ReadsFineLabels) {
  const TemporaryDirectory dir;
  dir.write("cifar-100-binary/train.bin",
            bytes_of({19}) + cifar_record(99, 10) + bytes_of({0}) + cifar_record(4, 20));
  dir.write("test.bin", bytes_of({1}) + cifar_record(2, 30));
  const LabelledImages train = read_cifar100(dir.path(), Split::kTrain);
  EXPECT_EQ(train.classes, 100);
  EXPECT_THAT(train.labels, ElementsAre(99, 4));
  EXPECT_EQ(train.pixels[0], std::byte{10});
  EXPECT_EQ(train.pixels[3072], std::byte{20});
  EXPECT_THAT([&] { read_cifar100(dir.path(), Split::kTest); },
              ThrowsMessage<Error>("open " + dir.path() +
                                   "/cifar-100-binary/test.bin: No such file or directory"));
  LabelledImages images;
  EXPECT_THAT([&] { append_cifar100(Bytes(3073), "f", images); },
              ThrowsMessage<Error>("f has 3073 bytes, wanted a multiple of 3074 (two labels and 3 "
                                   "x 32 x 32 values a record)"));
  EXPECT_THAT([&] { append_cifar100(bytes_of({1}) + cifar_record(100, 0), "f", images); },
              ThrowsMessage<Error>("f: sample 0 has label 100, wanted 0 to 99"));
}

}  // namespace
}  // namespace dl::data
