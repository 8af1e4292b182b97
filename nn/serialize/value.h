// Value: what a PyTorch file holds: None, bool, int, float, str, tensor, list, tuple or dict.
//
//     const nn::Value file = nn::load_pth("checkpoint.pth");
//     model.load_state_dict(file.at("model_state_dict"));
//     const std::int64_t epoch = file.at("epoch").as_int();
//
//     nn::save_pth("checkpoint.pth", nn::Value::Dict{{"epoch", 3},
//                                                    {"model_state_dict", model.state_dict()}});
//
// A value owns what it holds; tensors in it are handles. Thread-safety: as of a standard container.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/tensor.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn {

class Value {
 public:
  using List = std::vector<Value>;
  struct Tuple {
    List items{};
  };
  // In the order of the file. Keys are texts or integers, each once.
  using Dict = std::vector<std::pair<Value, Value>>;

  Value() noexcept = default;  // None
  Value(std::same_as<bool> auto value) : held_(value) {}
  // Throws kInvalidArgument for more than 2^63 - 1.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Value(T value) : held_(static_cast<std::int64_t>(value)) {
    DL_CHECK(std::in_range<std::int64_t>(value), kInvalidArgument, "Value: {} is too large", value);
  }
  Value(std::floating_point auto value) : held_(static_cast<double>(value)) {}
  Value(const char* text) : held_(std::string(text)) {}
  Value(std::string_view text) : held_(std::string(text)) {}
  Value(std::string text) : held_(std::move(text)) {}
  Value(Tensor tensor) : held_(std::move(tensor)) {}
  Value(List items) : held_(std::move(items)) {}
  Value(Tuple items) : held_(std::move(items)) {}
  Value(Dict entries) : held_(std::move(entries)) {}
  Value(const StateDict& state);  // a dict of tensors

  bool is_none() const noexcept { return std::holds_alternative<std::monostate>(held_); }
  bool is_bool() const noexcept { return std::holds_alternative<bool>(held_); }
  bool is_int() const noexcept { return std::holds_alternative<std::int64_t>(held_); }
  bool is_float() const noexcept { return std::holds_alternative<double>(held_); }
  bool is_string() const noexcept { return std::holds_alternative<std::string>(held_); }
  bool is_tensor() const noexcept { return std::holds_alternative<Tensor>(held_); }
  bool is_list() const noexcept { return std::holds_alternative<List>(held_); }
  bool is_tuple() const noexcept { return std::holds_alternative<Tuple>(held_); }
  bool is_dict() const noexcept { return std::holds_alternative<Dict>(held_); }
  // Python's name of what is held: "None", "bool", "int", "float", "str", "Tensor", "list", ...
  std::string_view type_name() const noexcept;

  // Each throws kMismatch if something else is held.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_float() const;  // also of an int
  const std::string& as_string() const;
  const Tensor& as_tensor() const;
  const List& as_list() const;  // also of a tuple
  const Dict& as_dict() const;
  // A dict whose keys are texts and whose values are tensors. The error names the key.
  StateDict as_state_dict() const;

  // A dict's value; null if there is none. Throw kMismatch if no dict is held.
  const Value* find(std::string_view key) const;
  const Value* find(std::int64_t key) const;
  // Throws kNotFound, naming the first keys that are there.
  const Value& at(std::string_view key) const;

 private:
  template <typename T>
  const T& held(std::string_view wanted) const;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Tensor, List, Tuple, Dict>
      held_{};
};

}  // namespace dl::nn
