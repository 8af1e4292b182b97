#include "nn/data/readers/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/error.h"
#include "tests/nn/data/bytes.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

IdxArray parse(const Bytes& bytes) {
  return parse_idx(bytes, "f", {.max_bytes = 1 << 20});
}

void expect_refused(const Bytes& bytes, const std::string& text) {
  EXPECT_THAT([&] { parse(bytes); }, testing::ThrowsMessage<Error>(text));
}

TEST(Idx, ReadsBytesOfAnyShape) {
  const IdxArray array = parse(idx_header(8, {2, 1, 3}) + bytes_of({1, 2, 3, 4, 5, 255}));
  EXPECT_EQ(array.dtype, DType::kU8);
  EXPECT_THAT(array.shape, ElementsAre(2, 1, 3));
  EXPECT_EQ(array.bytes, bytes_of({1, 2, 3, 4, 5, 255}));
}

TEST(Idx, TurnsWiderElementsToThisMachinesOrder) {
  const IdxArray ints = parse(idx_header(0x0B, {2}) + bytes_of({0x01, 0x02, 0xff, 0xfe}));
  EXPECT_EQ(ints.dtype, DType::kI16);
  std::int16_t i[2];
  std::memcpy(i, ints.bytes.data(), sizeof(i));
  EXPECT_THAT(i, ElementsAre(0x0102, -2));
  const IdxArray floats = parse(idx_header(0x0D, {1}) + bytes_of({0x3f, 0xc0, 0, 0}));
  float f = 0;
  std::memcpy(&f, floats.bytes.data(), sizeof(f));
  EXPECT_EQ(f, 1.5F);
}

TEST(Idx, ReadsGzipAsTheSameArray) {
  const Bytes plain = idx_header(8, {300}) + Bytes(300, std::byte{7});
  EXPECT_EQ(parse(gzip(plain)).bytes, Bytes(300, std::byte{7}));
}

TEST(Idx, ReadsGzipOfSeveralMembers) {
  EXPECT_EQ(parse(gzip(idx_header(8, {2})) + gzip(bytes_of({1, 2}))).bytes, bytes_of({1, 2}));
}

TEST(Idx, AnArrayMayBeEmpty) {
  EXPECT_TRUE(parse(idx_header(8, {0, 28, 28})).bytes.empty());
}

TEST(Idx, RefusesOtherFilesByTheirFirstBytes) {
  expect_refused(
      bytes_of({'P', 'K', 3, 4}),
      "f is not an IDX file: it begins with 0x504b0304, wanted 0x0000TTDD with a type of "
      "08, 09, 0b, 0c, 0d, 0e and 1 to 255 dimensions");
  EXPECT_THROW(parse(bytes_of({0, 0, 0x0A, 1, 0, 0, 0, 0})), Error);  // no such type
  EXPECT_THROW(parse(bytes_of({0, 0, 8, 0})), Error);                 // no dimension
}

TEST(Idx, RefusesTruncatedFiles) {
  expect_refused({}, "f is truncated: it ends inside the magic number of the IDX header");
  expect_refused(bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0}),
                 "f is truncated: it ends inside the dimensions of the IDX header");
  expect_refused(
      idx_header(8, {5}) + bytes_of({1, 2, 3}),
      "f is truncated: its header announces 5 bytes of elements, there can be at most 3");
  expect_refused(gzip(idx_header(8, {5}) + bytes_of({1, 2, 3})),
                 "f is truncated: its header announces 5 bytes of elements, it has 3");
}

TEST(Idx, RefusesDataBeyondTheEnd) {
  const std::string text = "f has data beyond the 1 bytes of elements that its header announces";
  expect_refused(idx_header(8, {1}) + bytes_of({1, 2}), text);
  expect_refused(gzip(idx_header(8, {1}) + bytes_of({1, 2})), text);
}

TEST(Idx, RefusesDimensionsThatNoMachineHolds) {
  expect_refused(idx_header(8, {0xffffffff, 0xffffffff, 0xffffffff}),
                 "f announces more elements than memory can address");
  expect_refused(idx_header(8, {1 << 30}),
                 "f announces 1073741824 bytes of elements, wanted at most 1048576");
}

TEST(Idx, BelievesNoCompressedFileThatClaimsMoreThanDeflateCanHold) {
  // 40 bytes that announce a gigabyte: refused before a byte of it is allocated.
  const Bytes bomb = gzip(idx_header(8, {1 << 30}));
  EXPECT_THAT([&] { parse_idx(bomb, "f"); }, testing::ThrowsMessage<Error>(HasSubstr(
                                                 "announces 1073741824 bytes of elements, there "
                                                 "can be at most")));
}

TEST(Idx, ABombBehindAnHonestHeaderIsNotInflated) {
  EXPECT_THAT([] { parse(gzip(idx_header(8, {4}) + Bytes(std::size_t{64} << 20))); },
              testing::ThrowsMessage<Error>(HasSubstr("data beyond the 4 bytes")));
}

TEST(Idx, RefusesDamagedAndTruncatedGzip) {
  Bytes damaged = gzip(idx_header(8, {300}) + Bytes(300, std::byte{7}));
  Bytes cut = damaged;
  cut.resize(damaged.size() - 9);
  EXPECT_THAT([&] { parse(cut); },
              testing::ThrowsMessage<Error>(HasSubstr("f is a truncated gzip file")));
  damaged[damaged.size() - 6] ^= std::byte{1};  // the checksum
  EXPECT_THAT([&] { parse(damaged); },
              testing::ThrowsMessage<Error>("f is a damaged gzip file: incorrect data check"));
  EXPECT_THROW(parse(bytes_of({0x1f, 0x8b})), Error);
}

TEST(Idx, ReadsAFileAndItsCompressedForm) {
  const TemporaryDirectory dir;
  dir.write("plain", idx_header(8, {1}) + bytes_of({1}));
  dir.write("packed.gz", gzip(idx_header(8, {1}) + bytes_of({2})));
  EXPECT_EQ(read_idx(dir.path() + "/plain").bytes, bytes_of({1}));
  EXPECT_EQ(read_idx(dir.path() + "/packed").bytes, bytes_of({2}));
  EXPECT_EQ(read_idx(dir.path() + "/packed.gz").bytes, bytes_of({2}));
}

TEST(Idx, NamesTheFileThatIsNotThere) {
  try {
    read_idx("/nowhere/train-images");
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_STREQ(error.what(), "open /nowhere/train-images: No such file or directory");
  }
  EXPECT_THAT([] { read_idx("/tmp"); },
              testing::ThrowsMessage<Error>("/tmp is not a regular file"));
}

}  // namespace
}  // namespace dl::data
