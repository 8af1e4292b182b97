#include "nn/serialize/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>

#include "core/base/text/number.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

// Negates the number.
void negate(std::string& bytes) {
  int carry = 1;
  for (char& byte : bytes) {
    const int sum = (~byte & 0xff) + carry;
    byte = static_cast<char>(sum);
    carry = sum >> 8;
  }
}

bool is_negative(std::string_view bytes) {
  return !bytes.empty() && (bytes.back() & 0x80) != 0;
}

}  // namespace

Value::BigInt Value::BigInt::of_bytes(std::string_view given) {
  std::string bytes(given);
  const bool negative = is_negative(bytes);
  if (negative) {
    bytes += '\xff';  // minus the lowest number of a length needs one more byte
    negate(bytes);
  }
  std::string digits;
  do {
    int rest = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      rest = rest << 8 | static_cast<unsigned char>(bytes[i]);
      bytes[i] = static_cast<char>(rest / 10);
      rest %= 10;
    }
    digits += static_cast<char>('0' + rest);
    while (!bytes.empty() && bytes.back() == 0) bytes.pop_back();
  } while (!bytes.empty());
  if (negative) digits += '-';
  return {.digits = std::string(digits.rbegin(), digits.rend())};
}

std::string Value::BigInt::bytes() const {
  const bool negative = digits.starts_with('-');
  std::string bytes;
  for (const char digit : std::string_view(digits).substr(negative ? 1 : 0)) {
    int carry = digit - '0';
    for (char& byte : bytes) {
      carry += static_cast<unsigned char>(byte) * 10;
      byte = static_cast<char>(carry);
      carry >>= 8;
    }
    if (carry > 0) bytes += static_cast<char>(carry);
  }
  bytes += '\0';  // for the sign
  if (negative) negate(bytes);
  while (bytes.size() > 1 &&
         bytes.back() == (is_negative({&bytes[bytes.size() - 2], 1}) ? '\xff' : '\0')) {
    bytes.pop_back();
  }
  return bytes;
}

Value::Value(BigInt value) {
  const std::string_view text = value.digits;
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  DL_CHECK(!digits.empty() &&
               std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; }),
           kInvalidArgument, "Value: the digits of an integer are {}", shown_name(text));
  if (const auto number = read_number<std::int64_t>(text)) {
    held_ = *number;
  } else {
    held_ = std::move(value);
  }
}

Value::Value(const StateDict& state) {
  Dict& entries = held_.emplace<Dict>();
  for (const NamedTensor& entry : state) entries.push_back({entry.name, entry.tensor});
}

std::string_view Value::type_name() const noexcept {
  constexpr std::array<std::string_view, std::variant_size_v<decltype(held_)>> kNames = {
      "None",  "bool",   "int",  "int",   "float", "complex", "str",
      "bytes", "Tensor", "list", "tuple", "set",   "dict"};
  return kNames[held_.index()];
}

template <typename T>
const T& Value::held(std::string_view wanted) const {
  const T* const found = std::get_if<T>(&held_);
  DL_CHECK(found != nullptr, kMismatch, "Value: it is {}, wanted {}", type_name(), wanted);
  return *found;
}

bool Value::as_bool() const {
  return held<bool>("bool");
}

std::int64_t Value::as_int() const {
  DL_CHECK(!is_big_int(), kMismatch,
           "Value: it is the int {}, which int64 does not hold; ask as_uint64() or as_big_int()",
           as_big_int().digits);
  return held<std::int64_t>("int");
}

std::uint64_t Value::as_uint64() const {
  if (is_int() && as_int() >= 0) return static_cast<std::uint64_t>(as_int());
  const std::optional<std::uint64_t> number =
      is_big_int() ? read_number<std::uint64_t>(as_big_int().digits) : std::nullopt;
  DL_CHECK(number || (!is_int() && !is_big_int()), kMismatch,
           "Value: it is the int {}, wanted 0 to 2^64 - 1",
           is_int() ? std::to_string(as_int()) : as_big_int().digits);
  return number ? *number : static_cast<std::uint64_t>(held<std::int64_t>("int"));
}

const Value::BigInt& Value::as_big_int() const {
  return held<BigInt>("an int that int64 does not hold");
}

double Value::as_float() const {
  if (is_big_int()) return std::strtod(as_big_int().digits.c_str(), nullptr);
  return is_int() ? static_cast<double>(as_int()) : held<double>("float");
}

std::complex<double> Value::as_complex() const {
  return held<std::complex<double>>("complex");
}

std::optional<double> Value::number() const {
  if (is_bool()) return as_bool() ? 1 : 0;
  if (is_int() || is_big_int() || is_float()) return as_float();
  if (is_tensor() && as_tensor().defined() && as_tensor().numel() == 1) {
    return as_tensor().item<double>();
  }
  return std::nullopt;
}

const std::string& Value::as_bytes() const {
  return held<Bytes>("bytes").data;
}

const std::string& Value::as_string() const {
  return held<std::string>("str");
}

const Tensor& Value::as_tensor() const {
  return held<Tensor>("Tensor");
}

const Value::List& Value::as_list() const {
  if (is_set()) return std::get<Set>(held_).items;
  return is_tuple() ? std::get<Tuple>(held_).items : held<List>("list");
}

const Value::Dict& Value::as_dict() const {
  return held<Dict>("dict");
}

StateDict Value::as_state_dict() const {
  StateDict state;
  for (const auto& [key, value] : as_dict()) {
    DL_CHECK(key.is_string(), kMismatch,
             "Value: key {} of the dict is {}, wanted a state_dict, whose keys are texts",
             state.size(), key.type_name());
    DL_CHECK(value.is_tensor(), kMismatch,
             "Value: {} is {}, wanted a state_dict, whose values are tensors; does it stand under "
             "another key of the file?",
             shown_name(key.as_string()), value.type_name());
    state.push_back({key.as_string(), value.as_tensor()});
  }
  return state;
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : as_dict()) {
    const auto* const text = std::get_if<std::string>(&name.held_);
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

const Value* Value::find(std::int64_t key) const {
  for (const auto& [name, value] : as_dict()) {
    const auto* const number = std::get_if<std::int64_t>(&name.held_);
    if (number != nullptr && *number == key) return &value;
  }
  return nullptr;
}

const Value& Value::at(std::string_view key) const {
  if (const Value* const found = find(key)) return *found;
  constexpr std::size_t kMost = 5;
  std::string there;
  for (const auto& [name, value] : as_dict()) {
    if (there.size() > kMost * 20) break;
    there += there.empty() ? "" : ", ";
    there += name.is_string() ? shown_name(name.as_string())
             : name.is_int()  ? std::to_string(name.as_int())
                              : fmt::format("a {}", name.type_name());
  }
  throw_error(ErrorKind::kNotFound, "Value: there is no key {}; it begins with {}", shown_name(key),
              there.empty() ? "nothing" : there);
}

}  // namespace dl::nn
