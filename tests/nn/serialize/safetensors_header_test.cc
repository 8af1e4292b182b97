#include "nn/serialize/safetensors_header.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "core/base/error.h"

namespace dl::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

SafetensorsHeader parse(std::string_view json, std::uint64_t data_bytes = 24) {
  return parse_safetensors_header(json, data_bytes, "f");
}

void expect_invalid(std::string_view json, const std::string& text, std::uint64_t bytes = 24) {
  EXPECT_THAT([&] { parse(json, bytes); }, ThrowsMessage<Error>(text)) << json;
}

TEST(SafetensorsHeader, ListsTensorsInTheOrderOfTheirBytes) {
  const SafetensorsHeader header =
      parse(R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},)"
            R"("a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}   )");
  EXPECT_THAT(header.metadata, ElementsAre(std::pair("k", "v")));
  ASSERT_EQ(header.entries.size(), 2U);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_TRUE(header.entries[0].shape.empty());
  EXPECT_EQ(header.entries[1].dtype, DType::kF32);
  EXPECT_THAT(header.entries[1].shape, ElementsAre(2, 2));
}

TEST(SafetensorsHeader, ReadsWhatItWrites) {
  SafetensorsHeader header;
  header.metadata["format"] = "pt";
  header.entries = {
      {.name = "w \"quoted\" \u00fc", .dtype = DType::kBF16, .shape = {3, 4}, .end = 24}};
  const std::string bytes = format_safetensors_header(header, "f");
  EXPECT_EQ(bytes.size() % 8, 0U);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ(length, bytes.size() - 8);
  const SafetensorsHeader again = parse(bytes.substr(8));
  EXPECT_EQ(again.metadata, header.metadata);
  EXPECT_EQ(again.entries[0].name, header.entries[0].name);
  EXPECT_EQ(again.entries[0].shape, header.entries[0].shape);
}

TEST(SafetensorsHeader, RefusesLengthsThatTheFileDoesNotHave) {
  std::array<std::byte, 8> prefix{};
  const auto length = [&](std::uint64_t value, std::uint64_t file) {
    std::memcpy(prefix.data(), &value, sizeof(value));
    return safetensors_header_length(prefix, file, "f");
  };
  EXPECT_EQ(length(2, 10), 2U);
  EXPECT_THAT([&] { length(3, 10); },
              ThrowsMessage<Error>("f is truncated: its header takes 3 bytes, 2 are there"));
  EXPECT_THAT([&] { length(2, 7); },
              ThrowsMessage<Error>("f has 7 bytes, a safetensors file has at least 8"));
  EXPECT_THAT([&] { length(0x0403504b00000000, 1 << 20); },
              ThrowsMessage<Error>(HasSubstr("f is not a safetensors file: it begins with a header "
                                             "length of 289")));
}

TEST(SafetensorsHeader, RefusesWhatIsNotItsJson) {
  expect_invalid("[1]", "f is not a safetensors file: its header does not begin with {");
  EXPECT_THAT([] { parse(R"({"a":)"); },
              ThrowsMessage<Error>(HasSubstr("f: the header is not JSON from byte ")));
  expect_invalid(R"({"a":1})", R"(f: tensor "a" is described by number, wanted an object)");
  expect_invalid(R"({"a":{"a":{"a":{"a":{}}}}})", R"(f: tensor "a" has no dtype)");
  expect_invalid(R"({"a":[1]})", R"(f: tensor "a" is described by array, wanted an object)");
  expect_invalid(R"({"__metadata__":[]})", "f: __metadata__ is no object of texts");
  expect_invalid(R"({"__metadata__":{"k":1}})", R"(f: "k" in __metadata__ is no text)");
  expect_invalid(R"({"__metadata__":{"k":{}}})", R"(f: "k" in __metadata__ is no text)");
  expect_invalid(R"({"__metadata__":{},"__metadata__":{}})",
                 R"(f: "__metadata__" appears twice in the header)");
  EXPECT_THAT([] { parse(R"({} x)", 0); },
              ThrowsMessage<Error>(HasSubstr("f: the header is not JSON from byte ")));
}

TEST(SafetensorsHeader, RefusesNamesAndFieldsTwice) {
  expect_invalid(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                 R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                 R"(f: "a" appears twice in the header)", 1);
  expect_invalid(R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                 R"(f: "dtype" appears twice in the header)", 1);
  expect_invalid(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":1,"x":2}})",
                 R"(f: "x" appears twice in the header)", 1);
  expect_invalid(R"({"__metadata__":{"k":"1","k":"2"}})", R"(f: "k" appears twice in the header)");
}

TEST(SafetensorsHeader, SkipsWhatItDoesNotKnowAndSaysWhy) {
  const SafetensorsHeader header =
      parse(R"({"f8":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
            R"("a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
            R"("x":{"dtype":"U8","shape":[2],"scale":{"by":[1,[2]],"shape":["?"]},)"
            R"("data_offsets":[8,10]},)"
            R"("c":{"dtype":"C64","shape":[99999999999999,99999999999999],"data_offsets":[6,8]}})",
            10);
  ASSERT_EQ(header.entries.size(), 1U);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[0].begin, 4U);
  ASSERT_EQ(header.skipped.size(), 3U);
  EXPECT_EQ(header.skipped[0].name, "f8");
  EXPECT_EQ(header.skipped[0].reason, R"(its dtype is "F8_E4M3", which dlrun does not have)");
  EXPECT_EQ(header.skipped[1].name, "x");
  EXPECT_EQ(header.skipped[1].reason, R"(it has a field "scale", which is unknown here)");
  EXPECT_EQ(header.skipped[2].name, "c");
}

TEST(SafetensorsHeader, HoldsWhatItSkipsAgainstTheFileToo) {
  const auto f8 = [](const char* offsets) {
    return fmt::format(R"({{"f8":{{"dtype":"F8_E5M2","shape":[4],"data_offsets":{}}}}})", offsets);
  };
  expect_invalid(f8("[0,5]"),
                 "f is truncated: its header announces 5 bytes of tensors, 4 are there", 4);
  expect_invalid(f8("[1,4]"),
                 R"(f: tensor "f8" begins at byte 1 of the data, wanted 0: no gaps, no overlaps)",
                 4);
  expect_invalid(f8("[4,0]"),
                 R"(f: tensor "f8" has data_offsets [4, 0], wanted a begin and an end)", 4);
  expect_invalid(R"({"a":{"x":1,"dtype":"U8","shape":[]}})",
                 R"(f: tensor "a" has no data_offsets)");
  EXPECT_EQ(parse(f8("[0,3]"), 3).skipped.size(), 1U) << "of an unknown dtype, the size is too";
}

TEST(SafetensorsHeader, RefusesTensorsThatMakeNoSense) {
  expect_invalid(R"({"a":{"shape":[],"data_offsets":[0,1]}})", R"(f: tensor "a" has no dtype)");
  expect_invalid(R"({"a":{"dtype":1,"shape":[24],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has a dtype that is no text)");
  expect_invalid(R"({"a":{"dtype":["U8"],"shape":[24],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has a dtype that is no text)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":24,"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has a shape that is no list)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has a shape that is no list)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":[[2]],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has "array" in its shape, wanted whole numbers of at least 0)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":["2"],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has "2" in its shape, wanted whole numbers of at least 0)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":[2.5],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has "2.5" in its shape, wanted whole numbers of at least 0)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})",
                 R"(f: tensor "a" has "-1" in its shape, wanted whole numbers of at least 0)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]}})",
                 R"(f: tensor "a" has more elements than memory can address)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})",
                 R"(f: tensor "a" has more elements than memory can address)", 0);
  std::string sizes = "1";
  for (int i = 0; i < 64; ++i) sizes += ",1";
  expect_invalid(R"({"a":{"dtype":"U8","shape":[)" + sizes + R"(],"data_offsets":[0,1]}})",
                 R"(f: tensor "a" has 65 dimensions, wanted at most 64)");
  expect_invalid(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
                 R"(f: tensor "a" has data_offsets [1, 0], wanted a begin and an end)");
  expect_invalid(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has 24 bytes, but its dtype and shape make 8)");
}

TEST(SafetensorsHeader, RefusesGapsOverlapsAndWrongSizes) {
  expect_invalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                 R"(f: tensor "a" begins at byte 1 of the data, wanted 0: no gaps, no overlaps)",
                 3);
  expect_invalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                 R"(f: tensor "b" begins at byte 1 of the data, wanted 2: no gaps, no overlaps)",
                 3);
  expect_invalid(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})",
                 "f is truncated: its header announces 5 bytes of tensors, 3 are there", 3);
  expect_invalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                 "f has 1 bytes beyond the 2 that its header announces", 3);
}

TEST(SafetensorsHeader, NamesTheFileWhateverIsDamaged) {
  const std::string whole =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},)"
      R"("a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}})";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char replacement : {'\0', '9', '"', '[', ']', '{', '}', ',', ':', '-', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = replacement;
      try {
        parse_safetensors_header(damaged, 24, "some/file");
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("some/file")) << damaged;
      }
    }
  }
}

TEST(SafetensorsHeader, WritesNoNameThatAReaderWouldRefuse) {
  const auto named = [](std::vector<std::string> names) {
    SafetensorsHeader header;
    for (std::string& name : names) header.entries.push_back({.name = std::move(name)});
    return format_safetensors_header(header, "f");
  };
  EXPECT_THAT([&] { named({"a", "a"}); }, ThrowsMessage<Error>(R"(f: two tensors are called "a")"));
  EXPECT_THAT([&] { named({"__metadata__"}); },
              ThrowsMessage<Error>("f: a tensor cannot be called __metadata__, the format reserves "
                                   "that name"));
  EXPECT_THAT([&] { named({"\xff"}); },
              ThrowsMessage<Error>("f: the tensor's name \"\\xff\" is not UTF-8"));
  EXPECT_THAT([] { format_safetensors_header({.metadata = {{"k", "\xff"}}}, "f"); },
              ThrowsMessage<Error>("f: the metadata's text \"\\xff\" is not UTF-8"));
}

}  // namespace
}  // namespace dl::nn
