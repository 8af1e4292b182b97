// Value: the content of a PyTorch file: None, bool, int, float, complex, str, bytes, tensor, list,
// tuple, set or dict.
//
//     const nn::Value file = nn::load_pth("checkpoint.pth");
//     model.load_state_dict(file.at("model_state_dict"));
//     const std::int64_t epoch = file.at("epoch").as_int();
//
//     nn::save_pth("checkpoint.pth", nn::Value::Dict{{"epoch", 3},
//                                                    {"model_state_dict", model.state_dict()}});
//
// A value owns its content; tensors in it are handles. Thread-safety: like a standard container.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <optional>
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
  struct Set {
    List items{};  // in the order of the file
  };
  struct Bytes {
    std::string data{};
  };
  // An integer out of range of int64; Python's integers have any size.
  struct BigInt {
    std::string digits{};  // "-36893488147419103232"

    // Little-endian, in two's complement, of any length. bytes() is as short as it can be.
    static BigInt of_bytes(std::string_view bytes);
    std::string bytes() const;
  };
  // In the order of the file. Keys are unique: a text, a number, None, bytes, or a tuple of these.
  using Dict = std::vector<std::pair<Value, Value>>;

  Value() noexcept = default;  // None
  Value(std::same_as<bool> auto value) : held_(value) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Value(T value) : held_(static_cast<std::int64_t>(value)) {
    if (!std::in_range<std::int64_t>(value)) held_ = BigInt{std::to_string(value)};
  }
  Value(BigInt value);  // an int64 if it is in range; throws kInvalidArgument unless `digits` are
                        // decimal
  Value(std::floating_point auto value) : held_(static_cast<double>(value)) {}
  Value(std::complex<double> value) : held_(value) {}
  Value(const char* text) : held_(std::string(text)) {}
  Value(std::string_view text) : held_(std::string(text)) {}
  Value(std::string text) : held_(std::move(text)) {}
  Value(Bytes bytes) : held_(std::move(bytes)) {}
  Value(Tensor tensor) : held_(std::move(tensor)) {}
  Value(List items) : held_(std::move(items)) {}
  Value(Tuple items) : held_(std::move(items)) {}
  Value(Set items) : held_(std::move(items)) {}
  Value(Dict entries) : held_(std::move(entries)) {}
  Value(const StateDict& state);  // a dict of tensors

  bool is_none() const noexcept { return std::holds_alternative<std::monostate>(held_); }
  bool is_bool() const noexcept { return std::holds_alternative<bool>(held_); }
  bool is_int() const noexcept { return std::holds_alternative<std::int64_t>(held_); }
  bool is_big_int() const noexcept { return std::holds_alternative<BigInt>(held_); }
  bool is_float() const noexcept { return std::holds_alternative<double>(held_); }
  bool is_complex() const noexcept { return std::holds_alternative<std::complex<double>>(held_); }
  bool is_string() const noexcept { return std::holds_alternative<std::string>(held_); }
  bool is_bytes() const noexcept { return std::holds_alternative<Bytes>(held_); }
  bool is_tensor() const noexcept { return std::holds_alternative<Tensor>(held_); }
  bool is_list() const noexcept { return std::holds_alternative<List>(held_); }
  bool is_tuple() const noexcept { return std::holds_alternative<Tuple>(held_); }
  bool is_set() const noexcept { return std::holds_alternative<Set>(held_); }
  bool is_dict() const noexcept { return std::holds_alternative<Dict>(held_); }
  // Python's name of the value's type: "None", "bool", "int", "float", "str", "Tensor", "list", ...
  std::string_view type_name() const noexcept;

  // Each throws kMismatch if the value has another type.
  bool as_bool() const;
  std::int64_t as_int() const;      // for a larger number the error text mentions as_uint64()
  std::uint64_t as_uint64() const;  // for an int that is not negative
  const BigInt& as_big_int() const;
  double as_float() const;  // also for an int
  std::complex<double> as_complex() const;
  // The number in a bool, an int, a float or a tensor of one element; nullopt for other types.
  std::optional<double> number() const;
  const std::string& as_string() const;
  const std::string& as_bytes() const;
  const Tensor& as_tensor() const;
  const List& as_list() const;  // also for a tuple or a set
  const Dict& as_dict() const;
  // A dict whose keys are texts and whose values are tensors. The error names the key.
  StateDict as_state_dict() const;

  // A dict's value; null if there is none. Throw kMismatch if the value is not a dict.
  const Value* find(std::string_view key) const;
  const Value* find(std::int64_t key) const;
  // Throws kNotFound with the first existing keys.
  const Value& at(std::string_view key) const;

 private:
  template <typename T>
  const T& held(std::string_view wanted) const;

  std::variant<std::monostate, bool, std::int64_t, BigInt, double, std::complex<double>,
               std::string, Bytes, Tensor, List, Tuple, Set, Dict>
      held_{};
};

}  // namespace dl::nn
