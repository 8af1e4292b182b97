// Headers of safetensors files, and of .npy files if the bytes begin like one: any bytes give a
// header that fits the file, or an Error with its name.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "nn/serialize/npy/npy_header.h"
#include "nn/serialize/safetensors_header.h"

namespace {

void check_safetensors(std::span<const std::byte> bytes) {
  const std::uint64_t length = dl::nn::safetensors_header_length(bytes, bytes.size(), "fuzz");
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  const std::uint64_t data_bytes = bytes.size() - 8 - length;
  const dl::nn::SafetensorsHeader header =
      dl::nn::parse_safetensors_header(json, data_bytes, "fuzz");
  for (const dl::nn::SafetensorsEntry& entry : header.entries) {
    if (entry.begin > entry.end || entry.end > data_bytes) __builtin_trap();
  }
  // What was read can be written, and read again as the same; what was skipped leaves a gap.
  const std::string again = dl::nn::format_safetensors_header(header, "fuzz");
  if (!header.skipped.empty()) return;
  const dl::nn::SafetensorsHeader second =
      dl::nn::parse_safetensors_header(std::string_view(again).substr(8), data_bytes, "fuzz");
  if (second.entries.size() != header.entries.size() || second.metadata != header.metadata) {
    __builtin_trap();
  }
}

void check_npy(std::span<const std::byte> bytes) {
  const std::uint64_t begin = dl::nn::npy_data_begin(
      bytes.first(std::min(bytes.size(), dl::nn::kNpyPrefix)), bytes.size(), "fuzz");
  const dl::nn::NpyHeader header =
      dl::nn::parse_npy_header(bytes.first(begin), bytes.size() - begin, "fuzz");
  std::uint64_t elements = 1;
  for (const std::int64_t n : header.shape) elements *= static_cast<std::uint64_t>(n);
  if (elements * dl::size_of(header.dtype) != bytes.size() - begin) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    if (size >= 6 && std::memcmp(data, "\x93NUMPY", 6) == 0) {
      check_npy(bytes);
    } else {
      check_safetensors(bytes);
    }
  } catch (const dl::Error& error) {
    if (std::string_view(error.what()).find("fuzz") == std::string_view::npos) __builtin_trap();
  }
  return 0;
}
