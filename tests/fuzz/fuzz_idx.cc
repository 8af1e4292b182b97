// IDX files, plain and compressed: any bytes give an array or an Error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "nn/data/readers/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const dl::data::IdxArray array =
        dl::data::parse_idx(bytes, "fuzz", {.max_bytes = std::size_t{1} << 24});
    std::size_t elements = 1;
    for (const std::int64_t n : array.shape) elements *= static_cast<std::size_t>(n);
    if (array.bytes.size() != elements * dl::size_of(array.dtype)) __builtin_trap();
  } catch (const dl::Error&) {
  }
  return 0;
}
