// Files of the format before PyTorch 1.6.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "nn/serialize/pth/pth.h"
#include "tests/nn/data/bytes.h"
#include "tests/nn/serialize/pth_files.h"

namespace dl::nn {
namespace {

using data::TemporaryDirectory;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;
using namespace std::string_literals;

// A storage of float32 as these files name it; `view`: a pickled value.
std::string legacy_storage(std::int64_t count, std::string_view key = "7",
                           const std::string& view = "N") {
  return "(" + pickled_text("storage") + "ctorch\nFloatStorage\n" + pickled_text(key) +
         pickled_text("cpu") + pickled_int(count) + view + "tQ";
}

std::string keys_of(const std::vector<std::string>& keys) {
  std::string list = "](";
  for (const std::string& key : keys) list += pickled_text(key);
  return list + "e";
}

// The bytes of one storage: 0, 1, 2, ...
std::string floats(std::uint64_t count) {
  std::string bytes = number_bytes(count, 8);
  for (std::uint64_t i = 0; i < count; ++i) {
    bytes += number_bytes(std::bit_cast<std::uint32_t>(static_cast<float>(i)), 4);
  }
  return bytes;
}

const std::string kHead(
    "\x80\x02\x8a\nl\xfc\x9c"
    "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.",
    25);

std::string legacy_file(const std::string& value, const std::string& keys,
                        const std::string& storages) {
  return kHead + "\x80\x02" + value + ".\x80\x02" + keys + "." + storages;
}

class PthLegacy : public testing::Test {
 protected:
  Value load(const std::string& bytes) const {
    dir_.write("f", std::as_bytes(std::span(bytes)));
    return load_pth(path());
  }
  std::string path() const { return dir_.path() + "/f"; }
  void expect_refused(const std::string& bytes, const std::string& text) const {
    EXPECT_THAT([&] { load(bytes); },
                ThrowsMessage<Error>(testing::AllOf(StartsWith(path()), HasSubstr(text))))
        << text;
  }

  TemporaryDirectory dir_;
};

const std::string kFourFloats =
    legacy_file(pickled_tensor(0, {4}, {1}, legacy_storage(4)), keys_of({"7"}), floats(4));

TEST_F(PthLegacy, StoragesStandInTheOrderOfTheirKeys) {
  const Value read = load(legacy_file("(" + pickled_tensor(0, {2}, {1}, legacy_storage(2, "b")) +
                                          pickled_tensor(1, {2}, {1}, legacy_storage(3, "a")) +
                                          pickled_tensor(0, {3}, {1}, legacy_storage(3, "a")) + "t",
                                      keys_of({"a", "b"}), floats(3) + floats(2)));
  const Value::List& tensors = read.as_list();
  EXPECT_EQ(tensors[0].as_tensor().at<float>({1}), 1.0F);
  EXPECT_EQ(tensors[1].as_tensor().at<float>({1}), 2.0F);
  EXPECT_EQ(tensors[1].as_tensor().storage(), tensors[2].as_tensor().storage());
}

// As files of PyTorch before 0.4 have them.
TEST_F(PthLegacy, ViewsOfStoragesShareTheirMemory) {
  const std::string view = "(" + pickled_text("8") + pickled_int(2) + pickled_int(3) + "t";
  const Value read =
      load(legacy_file("(" + pickled_tensor(1, {2}, {1}, legacy_storage(6, "7", view)) +
                           pickled_tensor(0, {6}, {1}, legacy_storage(6)) + "t",
                       keys_of({"7"}), floats(6)));
  const Tensor& part = read.as_list()[0].as_tensor();
  EXPECT_EQ(part.at<float>({0}), 3.0F);
  EXPECT_EQ(part.storage_offset(), 3);
  EXPECT_EQ(part.storage(), read.as_list()[1].as_tensor().storage());
  expect_refused(legacy_file(pickled_tensor(1, {3}, {1}, legacy_storage(6, "7", view)),
                             keys_of({"7"}), floats(6)),
                 "has a tensor that reaches outside its storage");
  const std::string outside = "(" + pickled_text("8") + pickled_int(4) + pickled_int(3) + "t";
  expect_refused(legacy_file(pickled_tensor(0, {1}, {1}, legacy_storage(6, "7", outside)),
                             keys_of({"7"}), floats(6)),
                 "has a view of a storage that is not (key, first element, elements) inside it");
}

// Python 2's str, OrderedDict with pairs, _rebuild_tensor, and storages of torch.cuda.
TEST_F(PthLegacy, ReadsWhatPython2Wrote) {
  const std::string storage = std::string("(U\x07storagectorch.cuda\nFloatStorage\nU\x01") +
                              "7U\x06"
                              "cuda:0K\x02NtQ";
  const std::string tensor =
      "ctorch._utils\n_rebuild_tensor\n(" + storage + "K\0K\x02\x85K\x01\x85tR"s;
  const Value read = load(legacy_file("ccollections\nOrderedDict\n](](U\x01w" + tensor + "ee\x85R",
                                      keys_of({"7"}), floats(2)));
  EXPECT_EQ(read.at("w").as_tensor().at<float>({1}), 1.0F);
}

TEST_F(PthLegacy, PicklesLongerThanTheFirstReadAreRead) {
  const std::string text(3 << 20, 'x');
  const Value read = load(
      legacy_file("(" + pickled_text(text) + pickled_tensor(0, {4}, {1}, legacy_storage(4)) + "t",
                  keys_of({"7"}), floats(4)));
  EXPECT_EQ(read.as_list()[0].as_string(), text);
  EXPECT_EQ(read.as_list()[1].as_tensor().at<float>({3}), 3.0F);
}

TEST_F(PthLegacy, AFileThatIsNotWhatItShouldBeIsOneSentence) {
  const std::string tensor = pickled_tensor(0, {4}, {1}, legacy_storage(4));
  std::string other_version = kFourFloats;
  other_version[18] = '\x02';
  const struct {
    std::string bytes;
    std::string text;
  } kRows[] = {
      {legacy_file(tensor, keys_of({}), ""), ": it has no bytes of storage \"7\""},
      {legacy_file(tensor, "K\1", ""), ": the keys of its storages are no list"},
      {legacy_file(tensor, "]K\1a", ""), ": it has bytes of storage \"\", which no tensor has"},
      {legacy_file(tensor, keys_of({"7", "8"}), floats(4) + floats(4)),
       ": it has bytes of storage \"8\", which no tensor has"},
      {legacy_file(tensor, keys_of({"7", "7"}), floats(4) + floats(4)),
       ": it has bytes of storage \"7\", which no tensor has or which comes twice"},
      {legacy_file(tensor, keys_of({"7"}), floats(5)),
       ": storage \"7\" has 5 elements, but its tensors' storage has 4"},
      {kFourFloats.substr(0, kFourFloats.size() - 1),
       " is truncated: storage \"7\" takes 16 bytes, and 15 are"},
      {kFourFloats.substr(0, kFourFloats.size() - 17), " is truncated before storage \"7\""},
      {kFourFloats.substr(0, kFourFloats.size() - 30), " is truncated: it ends inside its pickles"},
      {other_version, ": its format has another version than 1001"},
      {legacy_file("cos\nsystem\n", keys_of({}), ""), "names \"os.system\""},
  };
  for (const auto& row : kRows) expect_refused(row.bytes, row.text);
}

TEST_F(PthLegacy, AnyCutOrByteTurnedAroundGivesValuesOrAnError) {
  EXPECT_EQ(load(kFourFloats).as_tensor().at<float>({3}), 3.0F);
  for (std::size_t i = 0; i < kFourFloats.size(); ++i) {
    EXPECT_THROW(load(kFourFloats.substr(0, i)), Error) << i;
    std::string bytes = kFourFloats;
    bytes[i] = static_cast<char>(~bytes[i]);
    try {
      load(bytes);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith(path())) << i;
    }
  }
}

}  // namespace
}  // namespace dl::nn
