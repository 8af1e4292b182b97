#include "nn/serialize/safetensors_header.h"

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

void expect_refused(std::string_view json, const std::string& text, std::uint64_t bytes = 24) {
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
  const std::string bytes = format_safetensors_header(header);
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
  expect_refused("[1]", "f is not a safetensors file: its header does not begin with {");
  EXPECT_THAT([] { parse(R"({"a":)"); },
              ThrowsMessage<Error>(HasSubstr("f: the header is not JSON: ")));
  expect_refused(R"({"a":1})", R"(f: tensor "a" is described by number, wanted an object)");
  expect_refused(R"({"a":{"a":{"a":{"a":{}}}}})",
                 "f: the header is nested deeper than a header is");
  expect_refused(R"({"__metadata__":[]})", "f: __metadata__ is no object of texts");
  expect_refused(R"({"__metadata__":{"k":1}})", R"(f: "k" in __metadata__ is no text)");
}

TEST(SafetensorsHeader, RefusesNamesAndFieldsTwice) {
  expect_refused(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                 R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                 R"(f: "a" appears twice in the header)", 1);
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                 R"(f: "dtype" appears twice in the header)", 1);
}

TEST(SafetensorsHeader, RefusesTensorsThatMakeNoSense) {
  expect_refused(R"({"a":{"shape":[],"data_offsets":[0,1]}})", R"(f: tensor "a" has no dtype)");
  expect_refused(R"({"a":{"dtype":"F8_E4M3","shape":[24],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has dtype "F8_E4M3", wanted one of F16, BF16, F32, F64, I8, U8, )"
                 "I16, U16, I32, U32, I64, U64, BOOL");
  expect_refused(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})",
                 R"(f: tensor "a" has "-1" in its shape, wanted whole numbers of at least 0)");
  expect_refused(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]}})",
                 R"(f: tensor "a" has more elements than memory can address)");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
                 R"(f: tensor "a" has data_offsets [1, 0], wanted a begin and an end)");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,24]}})",
                 R"(f: tensor "a" has 24 bytes, but its dtype and shape make 8)");
  expect_refused(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":0}})",
                 R"(f: tensor "a" has an unknown field "x")", 1);
}

TEST(SafetensorsHeader, RefusesGapsOverlapsAndWrongSizes) {
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                 R"(f: tensor "a" begins at byte 1 of the data, wanted 0: no gaps, no overlaps)",
                 3);
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                 R"(f: tensor "b" begins at byte 1 of the data, wanted 2: no gaps, no overlaps)",
                 3);
  expect_refused(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})",
                 "f is truncated: its header announces 5 bytes of tensors, 3 are there", 3);
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                 "f has 1 bytes beyond the 2 that its header announces", 3);
}

TEST(SafetensorsHeader, WritesNoNameThatAReaderWouldRefuse) {
  const auto named = [](std::vector<std::string> names) {
    SafetensorsHeader header;
    for (std::string& name : names) header.entries.push_back({.name = std::move(name)});
    return format_safetensors_header(header);
  };
  EXPECT_THAT([&] { named({"a", "a"}); },
              ThrowsMessage<Error>(R"(safetensors: two tensors are called "a")"));
  EXPECT_THROW(named({"__metadata__"}), Error);
  EXPECT_THAT([&] { named({"\xff"}); }, ThrowsMessage<Error>(HasSubstr("is not UTF-8")));
}

}  // namespace
}  // namespace dl::nn
