// safetensors headers: any bytes give a header that fits the file, or an Error with its name.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "nn/serialize/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const std::uint64_t length = dl::nn::safetensors_header_length(bytes, size, "fuzz");
    const std::string_view json(reinterpret_cast<const char*>(data) + 8, length);
    const std::uint64_t data_bytes = size - 8 - length;
    const dl::nn::SafetensorsHeader header =
        dl::nn::parse_safetensors_header(json, data_bytes, "fuzz");
    for (const dl::nn::SafetensorsEntry& entry : header.entries) {
      if (entry.begin > entry.end || entry.end > data_bytes) __builtin_trap();
    }
    // What was read can be written, and read again as the same; what was skipped leaves a gap.
    const std::string again = dl::nn::format_safetensors_header(header, "fuzz");
    if (!header.skipped.empty()) return 0;
    const dl::nn::SafetensorsHeader second =
        dl::nn::parse_safetensors_header(std::string_view(again).substr(8), data_bytes, "fuzz");
    if (second.entries.size() != header.entries.size() || second.metadata != header.metadata) {
      __builtin_trap();
    }
  } catch (const dl::Error& error) {
    if (std::string_view(error.what()).find("fuzz") == std::string_view::npos) __builtin_trap();
  }
  return 0;
}
