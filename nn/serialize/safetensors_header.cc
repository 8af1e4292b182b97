#include "nn/serialize/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "core/base/error.h"

namespace dl::nn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::array<std::string_view, kDTypeCount> kDTypeNames = {
    "F16", "BF16", "F32", "F64", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"};

std::optional<DType> dtype_of(std::string_view text) noexcept {
  const auto found = std::ranges::find(kDTypeNames, text);
  if (found == kDTypeNames.end()) return std::nullopt;
  return static_cast<DType>(found - kDTypeNames.begin());
}

// What a person reads of bytes that a stranger wrote: short, and without control characters.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string result = "\"";
  for (const char c : text.substr(0, kMost)) result += c >= ' ' && c != 0x7f ? c : '?';
  return result + (text.size() > kMost ? "...\"" : "\"");
}

// JSON itself allows a key twice, and nesting without end; a header has neither.
Json parse_json(std::string_view text, std::string_view file) {
  constexpr int kDeepest = 3;  // {"name": {"shape": [1]}}
  std::array<std::set<std::string>, kDeepest + 1> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    DL_CHECK(depth <= kDeepest, kParse, "{}: the header is nested deeper than a header is", file);
    if (event == Json::parse_event_t::object_start && depth < kDeepest) {
      keys[static_cast<std::size_t>(depth) + 1].clear();
    }
    if (event == Json::parse_event_t::key) {
      DL_CHECK(keys[static_cast<std::size_t>(depth)].insert(value.get<std::string>()).second,
               kParse, "{}: {} appears twice in the header", file,
               shown(value.get_ref<const std::string&>()));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorKind::kParse, "{}: the header is not JSON: {}", file, shown(error.what()));
  }
}

// One entry's fields, checked one by one.
class EntryReader {
 public:
  EntryReader(const Json& json, std::string_view tensor, std::string_view file)
      : json_(json), tensor_(shown(tensor)), file_(file) {
    DL_CHECK(json.is_object(), kParse, "{}: tensor {} is described by {}, wanted an object", file_,
             tensor_, json.type_name());
    for (const auto& [key, value] : json.items()) {
      DL_CHECK(key == "dtype" || key == "shape" || key == "data_offsets", kParse,
               "{}: tensor {} has an unknown field {}", file_, tensor_, shown(key));
    }
  }

  DType dtype() const {
    const Json& value = field("dtype");
    DL_CHECK(value.is_string(), kParse, "{}: tensor {} has a dtype that is no text", file_,
             tensor_);
    const auto& text = value.get_ref<const std::string&>();
    const std::optional<DType> dtype = dtype_of(text);
    DL_CHECK(dtype.has_value(), kParse, "{}: tensor {} has dtype {}, wanted one of {}", file_,
             tensor_, shown(text), fmt::join(kDTypeNames, ", "));
    return *dtype;
  }

  std::vector<std::uint64_t> numbers(const char* name) const {
    const Json& value = field(name);
    DL_CHECK(value.is_array(), kParse, "{}: tensor {} has a {} that is no list", file_, tensor_,
             name);
    std::vector<std::uint64_t> numbers;
    for (const Json& number : value) {
      DL_CHECK(number.is_number_unsigned(), kParse,
               "{}: tensor {} has {} in its {}, wanted whole numbers of at least 0", file_, tensor_,
               shown(number.dump(-1, ' ', false, Json::error_handler_t::replace)), name);
      numbers.push_back(number.get<std::uint64_t>());
    }
    return numbers;
  }

 private:
  const Json& field(const char* name) const {
    const auto found = json_.find(name);
    DL_CHECK(found != json_.end(), kParse, "{}: tensor {} has no {}", file_, tensor_, name);
    return *found;
  }

  const Json& json_;
  std::string tensor_;
  std::string_view file_;
};

SafetensorsEntry read_entry(const Json& json, const std::string& tensor, std::string_view file) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const EntryReader reader(json, tensor, file);
  SafetensorsEntry entry{.name = tensor, .dtype = reader.dtype()};
  std::uint64_t bytes = size_of(entry.dtype);
  bool fits = true;
  for (const std::uint64_t size : reader.numbers("shape")) {
    fits = fits && size <= kMost && !__builtin_mul_overflow(bytes, size, &bytes) && bytes <= kMost;
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }
  DL_CHECK(fits, kParse, "{}: tensor {} has more elements than memory can address", file,
           shown(tensor));
  const std::vector<std::uint64_t> offsets = reader.numbers("data_offsets");
  DL_CHECK(offsets.size() == 2 && offsets[0] <= offsets[1], kParse,
           "{}: tensor {} has data_offsets [{}], wanted a begin and an end", file, shown(tensor),
           fmt::join(offsets, ", "));
  entry.begin = offsets[0];
  entry.end = offsets[1];
  DL_CHECK(entry.end - entry.begin == bytes, kParse,
           "{}: tensor {} has {} bytes, but its dtype and shape make {}", file, shown(tensor),
           entry.end - entry.begin, bytes);
  return entry;
}

void read_metadata(const Json& json, std::string_view file,
                   std::map<std::string, std::string>& out) {
  DL_CHECK(json.is_object(), kParse, "{}: {} is no object of texts", file, kMetadata);
  for (const auto& [key, value] : json.items()) {
    DL_CHECK(value.is_string(), kParse, "{}: {} in {} is no text", file, shown(key), kMetadata);
    out[key] = value.get<std::string>();
  }
}

}  // namespace

std::uint64_t safetensors_header_length(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                                        std::string_view name) {
  DL_CHECK(prefix.size() >= sizeof(std::uint64_t) && file_bytes >= sizeof(std::uint64_t), kParse,
           "{} has {} bytes, a safetensors file has at least 8", name, file_bytes);
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof(length));
  DL_CHECK(length <= kMaxSafetensorsHeader, kParse,
           "{} is not a safetensors file: it begins with a header length of {}, wanted at most {}",
           name, length, kMaxSafetensorsHeader);
  DL_CHECK(length <= file_bytes - sizeof(length), kParse,
           "{} is truncated: its header takes {} bytes, {} are there", name, length,
           file_bytes - sizeof(length));
  return length;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view name) {
  DL_CHECK(json.starts_with('{'), kParse,
           "{} is not a safetensors file: its header does not begin with {{", name);
  const Json parsed = parse_json(json, name);
  SafetensorsHeader header;
  for (const auto& [key, value] : parsed.items()) {
    if (key == kMetadata) {
      read_metadata(value, name, header.metadata);
    } else {
      header.entries.push_back(read_entry(value, key, name));
    }
  }
  std::ranges::sort(header.entries, {}, [](const SafetensorsEntry& entry) {
    return std::tie(entry.begin, entry.end, entry.name);
  });
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    DL_CHECK(entry.begin == covered, kParse,
             "{}: tensor {} begins at byte {} of the data, wanted {}: no gaps, no overlaps", name,
             shown(entry.name), entry.begin, covered);
    covered = entry.end;
  }
  DL_CHECK(covered <= data_bytes, kParse,
           "{} is truncated: its header announces {} bytes of tensors, {} are there", name, covered,
           data_bytes);
  DL_CHECK(covered == data_bytes, kParse, "{} has {} bytes beyond the {} that its header announces",
           name, data_bytes - covered, covered);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[std::string(kMetadata)] = header.metadata;
  for (const SafetensorsEntry& entry : header.entries) {
    DL_CHECK(entry.name != kMetadata, kInvalidArgument,
             "safetensors: a tensor cannot be called {}, the format reserves that name", kMetadata);
    DL_CHECK(!json.contains(entry.name), kInvalidArgument, "safetensors: two tensors are called {}",
             shown(entry.name));
    json[entry.name] = {{"dtype", kDTypeNames[static_cast<std::size_t>(entry.dtype)]},
                        {"shape", entry.shape},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorKind::kInvalidArgument,
                "safetensors: a name or a metadata text is not UTF-8: {}", shown(error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  DL_CHECK(text.size() <= kMaxSafetensorsHeader, kInvalidArgument,
           "safetensors: the header takes {} bytes, the format allows {}", text.size(),
           kMaxSafetensorsHeader);
  const std::uint64_t length = text.size();
  std::string result(sizeof(length), '\0');
  std::memcpy(result.data(), &length, sizeof(length));
  return result + text;
}

}  // namespace dl::nn
