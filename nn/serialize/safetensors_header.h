// The header of a safetensors file: its tensors and their offsets.
//
//   uint64 n, little-endian | n bytes of JSON | the tensors' bytes, without gaps
//   {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
//   [0, 24]}}
//
// (github.com/huggingface/safetensors, format of version 0.4; its limits are kept: a header of at
// most 100 MB, no name twice, offsets that cover the rest of the file exactly.) A tensor with an
// unknown dtype or field is skipped and named; its byte range must be valid like the others. Pure
// functions of memory; their time is linear in the header's length, except for the sorting of
// names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace dl::nn {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape{};
  std::uint64_t begin = 0;  // counted from the end of the header
  std::uint64_t end = 0;
};

// A tensor of a file that cannot be read here.
struct SkippedTensor {
  std::string name;    // as in the file: any bytes
  std::string reason;  // its dtype is "F8_E4M3", which dlrun does not have
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries{};  // in the order of their bytes
  std::vector<SkippedTensor> skipped{};     // in the order of the header
  std::map<std::string, std::string> metadata{};
};

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

// The JSON's length, from the first eight bytes of a file of `file_bytes`.
// Throws kParse with `name` if the length is impossible.
std::uint64_t safetensors_header_length(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                                        std::string_view name);
// Parses the JSON and checks it against `data_bytes`, the number of bytes after it. Throws kParse:
// one sentence with the file, the tensor, the value found and the value expected.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view name);
// The length and the JSON for a file, padded to a multiple of eight bytes. The entries' offsets
// must be set; skipped tensors are omitted. Throws kInvalidArgument, naming `name`, for a tensor's
// name that the format reserves, that appears twice or that is not UTF-8.
std::string format_safetensors_header(const SafetensorsHeader& header, std::string_view name);
// Bytes from outside for an error text: in quotes, shortened, and without control characters.
std::string shown_name(std::string_view text);

}  // namespace dl::nn
