// Reads a file of ONNX field by field, as far as tests look at it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dl::onnx {

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;   // of a number
  std::string_view bytes{};  // of a text or message
};

inline std::vector<Field> fields_of(std::string_view bytes) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; at < bytes.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  std::vector<Field> fields;
  while (at < bytes.size()) {
    const std::uint64_t tag = varint();
    Field field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 2: {
        const std::uint64_t length = varint();
        EXPECT_LE(length, bytes.size() - at);
        field.bytes = bytes.substr(at, length);
        at += length;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        ADD_FAILURE() << "a field of type " << (tag & 7);
        return fields;
    }
    fields.push_back(field);
  }
  return fields;
}

inline std::vector<std::string_view> texts(std::string_view message, std::uint64_t number) {
  std::vector<std::string_view> result;
  for (const Field& field : fields_of(message)) {
    if (field.number == number) result.push_back(field.bytes);
  }
  return result;
}

inline std::vector<std::int64_t> numbers(std::string_view message, std::uint64_t number) {
  std::vector<std::int64_t> result;
  for (const Field& field : fields_of(message)) {
    if (field.number == number) result.push_back(static_cast<std::int64_t>(field.value));
  }
  return result;
}

// A model, by the numbers of ONNX's fields.
class ReadModel {
 public:
  explicit ReadModel(const std::string& path) : bytes_(content(path)) {
    graph_ = texts(bytes_, 7).at(0);
  }
  std::string_view bytes() const { return bytes_; }
  std::vector<std::string_view> nodes() const { return texts(graph_, 1); }
  std::vector<std::string> ops() const {
    std::vector<std::string> result;
    for (const std::string_view node : nodes()) result.emplace_back(texts(node, 4).at(0));
    return result;
  }
  // "Slice [1] [3] [1]", "MaxPool kernel_shape=2,2 pads=0,0,0,0 ...": each node's operation, its
  // inputs that are constant int64 numbers, and its attributes that are whole numbers.
  std::vector<std::string> described() const {
    constexpr std::int64_t kInt64 = 7;
    std::map<std::string_view, std::string> known;
    for (const std::string_view each : texts(graph_, 5)) {
      if (numbers(each, 2).at(0) != kInt64) continue;
      const std::string_view raw = texts(each, 9).at(0);
      std::vector<std::int64_t> values(raw.size() / sizeof(std::int64_t));
      std::memcpy(values.data(), raw.data(), raw.size());
      known[texts(each, 8).at(0)] = "[" + joined(values) + "]";
    }
    std::vector<std::string> result;
    for (const std::string_view node : nodes()) {
      std::string text(texts(node, 4).at(0));
      for (const std::string_view input : texts(node, 1)) {
        if (const auto found = known.find(input); found != known.end()) text += " " + found->second;
      }
      for (const std::string_view attribute : texts(node, 5)) {
        std::vector<std::int64_t> values = numbers(attribute, 3);
        const std::vector<std::int64_t> several = numbers(attribute, 8);
        values.insert(values.end(), several.begin(), several.end());
        if (values.empty()) continue;
        text += " " + std::string(texts(attribute, 1).at(0)) + "=" + joined(values);
      }
      result.push_back(text);
    }
    return result;
  }
  std::vector<std::string> constants() const { return names(5, 8); }
  std::vector<std::string> inputs() const { return names(11, 1); }
  std::vector<std::string> outputs() const { return names(12, 1); }
  // "batch 3 ?": the shape of an input (11) or output (12).
  std::string shape(std::uint64_t kind, std::size_t i) const {
    const std::string_view tensor = texts(texts(texts(graph_, kind).at(i), 2).at(0), 1).at(0);
    std::string result;
    for (const std::string_view dim : texts(texts(tensor, 2).at(0), 1)) {
      std::string text = "?";
      for (const Field& field : fields_of(dim)) {
        text = field.number == 1 ? std::to_string(field.value) : std::string(field.bytes);
      }
      result += (result.empty() ? "" : " ") + text;
    }
    return result;
  }
  std::string_view constant(const std::string& name) const {
    for (const std::string_view each : texts(graph_, 5)) {
      if (texts(each, 8).at(0) == name) return each;
    }
    ADD_FAILURE() << "no constant " << name;
    return {};
  }
  // Each value has one name, and nodes read what inputs, constants and earlier nodes give.
  void expect_sound() const {
    std::set<std::string> known;
    const auto add = [&](const std::string& name) {
      EXPECT_TRUE(known.insert(name).second) << name << " is there twice";
    };
    for (const std::string& name : inputs()) add(name);
    for (const std::string& name : constants()) add(name);
    for (const std::string_view node : nodes()) {
      for (const std::string_view input : texts(node, 1)) {
        EXPECT_TRUE(input.empty() || known.contains(std::string(input))) << input;
      }
      for (const std::string_view output : texts(node, 2)) add(std::string(output));
    }
    for (const std::string& name : outputs()) EXPECT_TRUE(known.contains(name)) << name;
  }

 private:
  static std::string joined(const std::vector<std::int64_t>& values) {
    std::string text;
    for (const std::int64_t value : values) {
      text += (text.empty() ? "" : ",") + std::to_string(value);
    }
    return text;
  }
  std::vector<std::string> names(std::uint64_t kind, std::uint64_t field) const {
    std::vector<std::string> result;
    for (const std::string_view each : texts(graph_, kind)) {
      result.emplace_back(texts(each, field).at(0));
    }
    return result;
  }

  std::string bytes_;
  std::string_view graph_;
};

}  // namespace dl::onnx
