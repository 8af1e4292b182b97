#include "nn/serialize/npy/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/base/text/printable.h"
#include "nn/serialize/input_file.h"

namespace dl::nn {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// NumPy's letters and names for unsupported kinds of elements.
struct Kind {
  char letter;
  const char* what;
};
constexpr Kind kRefusedKinds[] = {{'c', "complex numbers"},
                                  {'O', "Python objects"},
                                  {'S', "bytes"},
                                  {'U', "text"},
                                  {'M', "dates"},
                                  {'m', "times"},
                                  {'V', "raw records"},
                                  {'f', "floats of this width"},
                                  {'i', "integers of this width"},
                                  {'u', "integers of this width"}};

struct Code {
  DType dtype;
  std::string_view code;
};
// The codes that NumPy writes.
constexpr Code kCodes[] = {{DType::kF16, "f2"}, {DType::kF32, "f4"}, {DType::kF64, "f8"},
                           {DType::kI8, "i1"},  {DType::kI16, "i2"}, {DType::kI32, "i4"},
                           {DType::kI64, "i8"}, {DType::kU8, "u1"},  {DType::kU16, "u2"},
                           {DType::kU32, "u4"}, {DType::kU64, "u8"}, {DType::kBool, "b1"}};
// Other codes that numpy.dtype() accepts: letters of C types, as on 64-bit Linux, optionally after
// a byte order,
constexpr Code kLetters[] = {{DType::kBool, "?"}, {DType::kI8, "b"},  {DType::kU8, "B"},
                             {DType::kI16, "h"},  {DType::kU16, "H"}, {DType::kI32, "i"},
                             {DType::kU32, "I"},  {DType::kI64, "l"}, {DType::kU64, "L"},
                             {DType::kI64, "q"},  {DType::kU64, "Q"}, {DType::kI64, "p"},
                             {DType::kU64, "P"},  {DType::kI64, "n"}, {DType::kU64, "N"},
                             {DType::kF16, "e"},  {DType::kF32, "f"}, {DType::kF64, "d"}};
// and names, without a byte order.
constexpr Code kNames[] = {
    {DType::kBool, "bool"},     {DType::kBool, "bool_"},   {DType::kI8, "int8"},
    {DType::kI8, "byte"},       {DType::kU8, "uint8"},     {DType::kU8, "ubyte"},
    {DType::kI16, "int16"},     {DType::kI16, "short"},    {DType::kU16, "uint16"},
    {DType::kU16, "ushort"},    {DType::kI32, "int32"},    {DType::kI32, "intc"},
    {DType::kU32, "uint32"},    {DType::kU32, "uintc"},    {DType::kI64, "int64"},
    {DType::kI64, "int"},       {DType::kI64, "int_"},     {DType::kI64, "intp"},
    {DType::kI64, "long"},      {DType::kI64, "longlong"}, {DType::kU64, "uint64"},
    {DType::kU64, "uint"},      {DType::kU64, "uintp"},    {DType::kU64, "ulong"},
    {DType::kU64, "ulonglong"}, {DType::kF16, "float16"},  {DType::kF16, "half"},
    {DType::kF32, "float32"},   {DType::kF32, "single"},   {DType::kF64, "float64"},
    {DType::kF64, "float"},     {DType::kF64, "double"}};

// Parses the header's dictionary, which is a Python literal.
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  NpyHeader read() {
    NpyHeader header;
    std::optional<std::string_view> descr;
    bool has_order = false;
    bool has_shape = false;
    expect('{', "a dictionary");
    while (!take('}')) {
      const std::string_view key = string("a key");
      expect(':', "a colon");
      if (key == "descr" && !descr) {
        DL_CHECK(next() != '[', kDType,
                 "{} holds records of several fields, which dlrun does not have", name_);
        descr = string("a dtype");
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.fortran_order = truth();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.shape = sizes();
      } else {
        damaged(fmt::format("the key {} stands there", quoted_name(key)));
      }
      if (next() != '}') expect(',', "a comma");
    }
    next();
    if (at_ != text_.size()) damaged("something follows the dictionary");
    if (!descr || !has_order || !has_shape) damaged("descr, fortran_order or shape is missing");
    set_dtype(*descr, header);
    return header;
  }

 private:
  [[noreturn]] void damaged(std::string_view what) const {
    throw_error(ErrorKind::kParse,
                "{} has a damaged .npy header: {} (at byte {} of its dictionary)", name_, what,
                at_);
  }
  // Skips white space and returns the next character; 0 at the end.
  char next() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) != nullptr &&
           text_[at_] != '\0')
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (next() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c, std::string_view what) {
    if (!take(c)) damaged(fmt::format("{} is missing", what));
  }
  std::string_view string(std::string_view what) {
    const char quote = next();
    if (quote != '\'' && quote != '"') damaged(fmt::format("{} is missing", what));
    const std::size_t end = text_.find(quote, ++at_);
    if (end == text_.npos) damaged(fmt::format("{} has no end", what));
    const std::string_view result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  bool truth() {
    next();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    damaged("fortran_order is neither True nor False");
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        damaged("a size is larger than memory can address");
      }
    }
    if (at_ == begin) damaged("a size is missing");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 writes long integers this way
    return value;
  }
  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> shape;
    expect('(', "a tuple of sizes");
    while (!take(')')) {
      next();
      shape.push_back(number());
      if (shape.size() > kMaxDims) damaged(fmt::format("more than {} sizes", kMaxDims));
      if (next() != ')') expect(',', "a comma between sizes");
    }
    return shape;
  }
  static bool set_from(std::span<const Code> codes, std::string_view code, NpyHeader& header) {
    const auto known = std::ranges::find(codes, code, &Code::code);
    if (known == codes.end()) return false;
    header.dtype = known->dtype;
    return true;
  }
  void set_dtype(std::string_view descr, NpyHeader& header) const {
    std::string_view code = descr;
    if (set_from(kNames, code, header)) return;
    if (!code.empty() && std::string_view("<>=|").find(code.front()) != code.npos) {
      header.big_endian = code.front() == '>';
      code.remove_prefix(1);
    }
    if (set_from(kCodes, code, header) || set_from(kLetters, code, header)) return;
    const char* what = "a dtype that NumPy does not have";
    for (const Kind& kind : kRefusedKinds) {
      if (!code.empty() && kind.letter == code.front()) what = kind.what;
    }
    throw_error(ErrorKind::kDType, "{} holds {} ({}), which dlrun does not have", name_,
                quoted_name(descr), what);
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

// 10 with version 1, else 12.
std::size_t length_end(std::span<const std::byte> prefix) {
  return prefix[6] == std::byte{1} ? 10 : 12;
}

}  // namespace

std::uint64_t npy_data_begin(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                             std::string_view name) {
  DL_CHECK(prefix.size() >= 8 && std::memcmp(prefix.data(), kMagic.data(), kMagic.size()) == 0,
           kParse, "{} is not a .npy file: it does not begin with \\x93NUMPY", name);
  const int major = std::to_integer<int>(prefix[6]);
  const int minor = std::to_integer<int>(prefix[7]);
  DL_CHECK(major >= 1 && major <= 3 && minor == 0, kParse,
           "{} is a .npy file of version {}.{}, wanted 1.0, 2.0 or 3.0", name, major, minor);
  const std::size_t end = length_end(prefix);
  DL_CHECK(prefix.size() >= end, kParse, "{} is truncated: it ends inside its .npy header", name);
  std::uint64_t length = 0;
  for (std::size_t i = end; i-- > 8;)
    length = length << 8 | std::to_integer<std::uint8_t>(prefix[i]);
  DL_CHECK(length <= kMaxNpyHeader, kParse,
           "{} announces a .npy header of {} bytes, wanted at most {}", name, length,
           kMaxNpyHeader);
  DL_CHECK(end + length <= file_bytes, kParse, "{} is truncated: it ends inside its .npy header",
           name);
  return end + length;
}

NpyHeader parse_npy_header(std::span<const std::byte> head, std::uint64_t data_bytes,
                           std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  NpyHeader header = NpyDictionary(text.substr(length_end(head)), name).read();
  std::uint64_t bytes = size_of(header.dtype);
  bool fits = true;
  bool empty = false;
  for (const std::int64_t size : header.shape) {
    empty = empty || size == 0;
    // An empty array's strides are products of its other sizes, so these must not overflow.
    fits =
        fits &&
        (size == 0 || !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) &&
        bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  if (empty) bytes = 0;
  DL_CHECK(fits, kParse, "{} announces more elements than memory can address", name);
  DL_CHECK(bytes <= data_bytes, kParse,
           "{} is truncated: its header announces {} bytes of elements, it has {}", name, bytes,
           data_bytes);
  DL_CHECK(bytes == data_bytes, kParse,
           "{} has {} bytes beyond its array; files of several arrays cannot be read", name,
           data_bytes - bytes);
  return header;
}

std::string format_npy_header(DType dtype, std::span<const std::int64_t> shape,
                              std::string_view name) {
  std::string_view code;
  for (const Code& known : kCodes) {
    if (known.dtype == dtype) code = known.code;
  }
  DL_CHECK(!code.empty(), kDType,
           "{}: NumPy has no {}; convert the tensor first: x.to(DType::kF32)", name,
           name_of(dtype));
  DL_CHECK(shape.size() <= kMaxDims, kShape, "{}: the tensor has {} dimensions, wanted at most {}",
           name, shape.size(), kMaxDims);
  std::string sizes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    sizes += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  size_of(dtype) == 1 ? '|' : '<', code, sizes, shape.size() == 1 ? "," : "");
  // NumPy leaves room for the first size to grow to 21 digits, then fills 64 bytes with spaces.
  if (!shape.empty()) text.append(21 - fmt::formatted_size("{}", shape[0]), ' ');
  constexpr std::size_t kPrefix = 10;
  text.append(64 - (kPrefix + text.size() + 1) % 64, ' ');
  text += '\n';
  std::string head(kMagic);
  head += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return head + text;
}

}  // namespace dl::nn
