// DType: element types, shared by tensors and collectives. Has no dependencies, so that a group can
// be used without tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dl {

enum class DType : std::uint8_t {
  kF16,
  kBF16,
  kF32,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool
};
inline constexpr std::size_t kDTypeCount = 13;

// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) noexcept {
  return dtype <= DType::kF64;
}

// Short names in error texts and in messages between ranks: "f32", "i64", "bool".
constexpr std::string_view short_name(DType dtype) noexcept {
  constexpr std::string_view kNames[kDTypeCount] = {
      "f16", "bf16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"};
  return kNames[static_cast<std::size_t>(dtype)];
}

// PyTorch's names: "float32", "int64", "bool".
constexpr std::string_view name_of(DType dtype) noexcept {
  constexpr std::string_view kNames[kDTypeCount] = {
      "float16", "bfloat16", "float32", "float64", "int8",   "uint8", "int16",
      "uint16",  "int32",    "uint32",  "int64",   "uint64", "bool"};
  return kNames[static_cast<std::size_t>(dtype)];
}

}  // namespace dl
