#include "nn/serialize/value.h"

#include <fmt/format.h>

#include <array>

#include "nn/serialize/safetensors_header.h"

namespace dl::nn {

Value::Value(const StateDict& state) {
  Dict& entries = held_.emplace<Dict>();
  for (const NamedTensor& entry : state) entries.push_back({entry.name, entry.tensor});
}

std::string_view Value::type_name() const noexcept {
  constexpr std::array<std::string_view, std::variant_size_v<decltype(held_)>> kNames = {
      "None", "bool", "int", "float", "str", "Tensor", "list", "tuple", "dict"};
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
  return held<std::int64_t>("int");
}

double Value::as_float() const {
  return is_int() ? static_cast<double>(as_int()) : held<double>("float");
}

const std::string& Value::as_string() const {
  return held<std::string>("str");
}

const Tensor& Value::as_tensor() const {
  return held<Tensor>("Tensor");
}

const Value::List& Value::as_list() const {
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
    there += name.is_string() ? shown_name(name.as_string()) : fmt::to_string(name.as_int());
  }
  throw_error(ErrorKind::kNotFound, "Value: there is no key {}; it begins with {}", shown_name(key),
              there.empty() ? "nothing" : there);
}

}  // namespace dl::nn
