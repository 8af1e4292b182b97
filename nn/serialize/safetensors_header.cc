#include "nn/serialize/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "nn/serialize/input_file.h"

namespace dl::nn {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::array<std::string_view, kDTypeCount> kDTypeNames = {
    "F16", "BF16", "F32", "F64", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"};

std::optional<DType> dtype_of(std::string_view text) noexcept {
  const auto found = std::ranges::find(kDTypeNames, text);
  if (found == kDTypeNames.end()) return std::nullopt;
  return static_cast<DType>(found - kDTypeNames.begin());
}

// The description of one tensor, as far as it has been read.
struct Description {
  std::string name{};
  std::optional<std::string> dtype{};
  std::optional<std::vector<std::uint64_t>> shape{};
  std::optional<std::vector<std::uint64_t>> offsets{};
  std::optional<std::string> unknown_field{};  // the first
};

// The byte range of a tensor, also if its dtype is not supported.
struct Span {
  std::uint64_t begin;
  std::uint64_t end;
  std::string name;
};

// Receives the JSON's parts one after another (nlohmann's SAX interface), so that time and memory
// are linear in the header's length for any content, without recursion.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  SafetensorsHeader header{};
  std::vector<Span> spans{};

  bool null() { return scalar("null"); }
  bool boolean(bool value) { return scalar("boolean", value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return scalar("number", std::to_string(value)); }
  bool number_float(double, const std::string& text) { return scalar("number", text); }
  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::kNumbers) return scalar("number", std::to_string(value));
    numbers_->push_back(value);
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::kTexts) {
      DL_CHECK(header.metadata.emplace(field_, std::move(value)).second, kParse,
               "{}: {} appears twice in the header", file_, shown_name(field_));
    } else if (place_ == Place::kTensor && field_ == "dtype") {
      tensor_.dtype = std::move(value);
    } else {
      scalar("string", value);
    }
    return true;
  }
  bool binary(Json::binary_t&) { return scalar("binary"); }

  bool key(std::string& name) {
    if (place_ == Place::kUnknown) return true;
    if (place_ == Place::kTop) {
      tensor_ = {.name = std::move(name)};
      return true;
    }
    field_ = std::move(name);
    if (place_ == Place::kTensor) note_field();
    return true;
  }

  bool start_object(std::size_t) {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      const bool is_metadata = tensor_.name == kMetadata;
      DL_CHECK(!is_metadata || !std::exchange(seen_metadata_, true), kParse,
               "{}: {} appears twice in the header", file_, shown_name(kMetadata));
      place_ = is_metadata ? Place::kTexts : Place::kTensor;
    } else {
      start("object");
    }
    return true;
  }
  bool end_object() {
    if (place_ == Place::kTensor) finish_tensor();
    return end();
  }
  bool start_array(std::size_t) {
    std::optional<std::vector<std::uint64_t>>* const list = place_ != Place::kTensor ? nullptr
                                                            : field_ == "shape" ? &tensor_.shape
                                                            : field_ == "data_offsets"
                                                                ? &tensor_.offsets
                                                                : nullptr;
    if (list != nullptr) {
      numbers_ = &list->emplace();
      place_ = Place::kNumbers;
    } else {
      start("array");
    }
    return true;
  }
  bool end_array() { return end(); }

  [[noreturn]] bool parse_error(std::size_t byte, const std::string&, const Json::exception&) {
    throw_error(ErrorKind::kParse,
                "{}: the header is not JSON from byte {} of it on; is the file whole, and a "
                "safetensors file?",
                file_, byte);
  }

 private:
  enum class Place : std::uint8_t {
    kStart,
    kTop,      // {"name": HERE}
    kTexts,    // {"__metadata__": {"key": HERE}}
    kTensor,   // {"name": {"field": HERE}}
    kNumbers,  // {"name": {"shape": [HERE]}}
    kUnknown,  // inside the value of a field that this version does not know
  };

  void note_field() {
    const bool known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    const bool again = (field_ == "dtype" && tensor_.dtype) ||
                       (field_ == "shape" && tensor_.shape) ||
                       (field_ == "data_offsets" && tensor_.offsets) ||
                       (tensor_.unknown_field && field_ == *tensor_.unknown_field);
    DL_CHECK(!again, kParse, "{}: {} appears twice in the header", file_, shown_name(field_));
    if (!known && !tensor_.unknown_field) tensor_.unknown_field = field_;
  }

  // Any other value than a list or an object.
  bool scalar(std::string_view type, std::string_view text = "null") {
    switch (place_) {
      case Place::kStart:
        break;  // the caller has checked the first character
      case Place::kTop:
        refuse_entry(type);
      case Place::kTexts:
        throw_error(ErrorKind::kParse, "{}: {} in {} is no text", file_, shown_name(field_),
                    kMetadata);
      case Place::kTensor:
        refuse_known_field();
        break;
      case Place::kNumbers:
        refuse_number(text);
      case Place::kUnknown:
        break;
    }
    return true;
  }

  // The begin of a list or an object that is unexpected, or in an unknown field.
  void start(std::string_view type) {
    switch (place_) {
      case Place::kStart:
      case Place::kTop:
        refuse_entry(type);
      case Place::kTexts:
        scalar(type);
        break;
      case Place::kTensor:
        refuse_known_field();
        place_ = Place::kUnknown;
        depth_ = 1;
        break;
      case Place::kNumbers:
        refuse_number(type);
      case Place::kUnknown:
        ++depth_;
        break;
    }
  }

  // The end of a list or an object.
  bool end() {
    switch (place_) {
      case Place::kTexts:
      case Place::kTensor:
        place_ = Place::kTop;
        break;
      case Place::kNumbers:
        place_ = Place::kTensor;
        break;
      case Place::kUnknown:
        if (--depth_ == 0) place_ = Place::kTensor;
        break;
      case Place::kStart:
      case Place::kTop:
        break;
    }
    return true;
  }

  [[noreturn]] void refuse_entry(std::string_view type) const {
    DL_CHECK(tensor_.name != kMetadata, kParse, "{}: {} is no object of texts", file_, kMetadata);
    throw_error(ErrorKind::kParse, "{}: tensor {} is described by {}, wanted an object", file_,
                shown_name(tensor_.name), type);
  }
  [[noreturn]] void refuse_number(std::string_view text) const {
    throw_error(ErrorKind::kParse,
                "{}: tensor {} has {} in its {}, wanted whole numbers of at least 0", file_,
                shown_name(tensor_.name), shown_name(text), field_);
  }
  void refuse_known_field() const {
    DL_CHECK(field_ != "dtype", kParse, "{}: tensor {} has a dtype that is no text", file_,
             shown_name(tensor_.name));
    DL_CHECK(field_ != "shape" && field_ != "data_offsets", kParse,
             "{}: tensor {} has a {} that is no list", file_, shown_name(tensor_.name), field_);
  }

  void finish_tensor() {
    const std::string name = shown_name(tensor_.name);
    const auto require = [&](bool there, std::string_view field) {
      DL_CHECK(there, kParse, "{}: tensor {} has no {}", file_, name, field);
    };
    require(tensor_.dtype.has_value(), "dtype");
    require(tensor_.shape.has_value(), "shape");
    require(tensor_.offsets.has_value(), "data_offsets");
    const std::vector<std::uint64_t>& offsets = *tensor_.offsets;
    DL_CHECK(offsets.size() == 2 && offsets[0] <= offsets[1], kParse,
             "{}: tensor {} has data_offsets [{}], wanted a begin and an end", file_, name,
             fmt::join(offsets, ", "));
    spans.push_back({offsets[0], offsets[1], tensor_.name});
    const std::optional<DType> dtype = dtype_of(*tensor_.dtype);
    if (tensor_.unknown_field) {
      skip(fmt::format("it has a field {}, which is unknown here",
                       shown_name(*tensor_.unknown_field)));
    } else if (!dtype) {
      skip(fmt::format("its dtype is {}, which dlrun does not have", shown_name(*tensor_.dtype)));
    } else {
      add_entry(*dtype, name);
    }
  }

  void skip(std::string reason) {
    header.skipped.push_back({.name = std::move(tensor_.name), .reason = std::move(reason)});
  }

  void add_entry(DType dtype, const std::string& name) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    DL_CHECK(tensor_.shape->size() <= kMaxDims, kParse,
             "{}: tensor {} has {} dimensions, wanted at most {}", file_, name,
             tensor_.shape->size(), kMaxDims);
    SafetensorsEntry entry{.name = std::move(tensor_.name),
                           .dtype = dtype,
                           .begin = (*tensor_.offsets)[0],
                           .end = (*tensor_.offsets)[1]};
    std::uint64_t bytes = size_of(dtype);
    bool fits = true;
    bool empty = false;
    for (const std::uint64_t size : *tensor_.shape) {
      empty = empty || size == 0;
      // An empty tensor's strides are products of its other sizes, so these must not overflow.
      fits = fits && size <= kMost && (size == 0 || !__builtin_mul_overflow(bytes, size, &bytes)) &&
             bytes <= kMost;
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    DL_CHECK(fits, kParse, "{}: tensor {} has more elements than memory can address", file_, name);
    if (empty) bytes = 0;
    DL_CHECK(entry.end - entry.begin == bytes, kParse,
             "{}: tensor {} has {} bytes, but its dtype and shape make {}", file_, name,
             entry.end - entry.begin, bytes);
    header.entries.push_back(std::move(entry));
  }

  std::string_view file_;
  Place place_ = Place::kStart;
  std::size_t depth_ = 0;  // of lists and objects inside an unknown field
  bool seen_metadata_ = false;
  Description tensor_{};
  std::string field_{};
  std::vector<std::uint64_t>* numbers_ = nullptr;
};

// The first repeated name; sorts `names`.
std::optional<std::string_view> twice(std::vector<std::string_view>& names) {
  std::ranges::sort(names);
  const auto found = std::ranges::adjacent_find(names);
  if (found == names.end()) return std::nullopt;
  return *found;
}

// The spans must be consecutive and cover the data.
void check_spans(std::vector<Span>& spans, std::uint64_t data_bytes, std::string_view file) {
  std::vector<std::string_view> names;
  for (const Span& span : spans) names.push_back(span.name);
  if (const auto name = twice(names)) {
    throw_error(ErrorKind::kParse, "{}: {} appears twice in the header", file, shown_name(*name));
  }
  std::ranges::sort(spans, {},
                    [](const Span& span) { return std::tie(span.begin, span.end, span.name); });
  std::uint64_t covered = 0;
  for (const Span& span : spans) {
    DL_CHECK(span.begin == covered, kParse,
             "{}: tensor {} begins at byte {} of the data, wanted {}: no gaps, no overlaps", file,
             shown_name(span.name), span.begin, covered);
    covered = span.end;
  }
  DL_CHECK(covered <= data_bytes, kParse,
           "{} is truncated: its header announces {} bytes of tensors, {} are there", file, covered,
           data_bytes);
  DL_CHECK(covered == data_bytes, kParse, "{} has {} bytes beyond the {} that its header announces",
           file, data_bytes - covered, covered);
}

}  // namespace

std::string shown_name(std::string_view text) {
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return quoted_name(text);
  return quoted_name(std::string(text.substr(0, kMost)) + "...");
}

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
  HeaderReader reader(name);
  Json::sax_parse(json, &reader);
  check_spans(reader.spans, data_bytes, name);
  std::ranges::sort(reader.header.entries, {}, [](const SafetensorsEntry& entry) {
    return std::tie(entry.begin, entry.end, entry.name);
  });
  return std::move(reader.header);
}

std::string format_safetensors_header(const SafetensorsHeader& header, std::string_view name) {
  std::vector<std::string_view> names;
  for (const SafetensorsEntry& entry : header.entries) {
    DL_CHECK(entry.name != kMetadata, kInvalidArgument,
             "{}: a tensor cannot be called {}, the format reserves that name", name, kMetadata);
    names.push_back(entry.name);
  }
  if (const auto again = twice(names)) {
    throw_error(ErrorKind::kInvalidArgument, "{}: two tensors are called {}", name,
                shown_name(*again));
  }
  std::string text = "{";
  const auto add = [&](std::string_view what, const std::string& value) {
    try {
      text += Json(value).dump();
    } catch (const Json::exception&) {
      throw_error(ErrorKind::kInvalidArgument, "{}: {} {} is not UTF-8", name, what,
                  shown_name(value));
    }
  };
  const auto add_key = [&](std::string_view what, const std::string& key) {
    if (!text.ends_with('{')) text += ',';
    add(what, key);
    text += ':';
  };
  if (!header.metadata.empty()) {
    add_key("metadata", std::string(kMetadata));
    text += '{';
    for (const auto& [key, value] : header.metadata) {
      add_key("the metadata's key", key);
      add("the metadata's text", value);
    }
    text += '}';
  }
  for (const SafetensorsEntry& entry : header.entries) {
    add_key("the tensor's name", entry.name);
    fmt::format_to(std::back_inserter(text),
                   R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   kDTypeNames[static_cast<std::size_t>(entry.dtype)], fmt::join(entry.shape, ","),
                   entry.begin, entry.end);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  DL_CHECK(text.size() <= kMaxSafetensorsHeader, kInvalidArgument,
           "{}: the header takes {} bytes, the format allows {}", name, text.size(),
           kMaxSafetensorsHeader);
  const std::uint64_t length = text.size();
  std::string result(sizeof(length), '\0');
  std::memcpy(result.data(), &length, sizeof(length));
  return result + text;
}

}  // namespace dl::nn
