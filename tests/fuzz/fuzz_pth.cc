// PyTorch's files: the first byte says whether the rest is a whole file (an archive, or the format
// before PyTorch 1.6) or an archive's pickle alone. Any
// bytes give tensors that lie in their storages, or an Error with the file's name.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "nn/serialize/pth/pth_layout.h"

namespace {

void check_pickle(const dl::nn::Pickle& pickle) {
  for (const dl::nn::PickleTensor& tensor : pickle.tensors) {
    const dl::nn::PickleStorage& storage = pickle.storages.at(tensor.storage);
    bool empty = false;
    std::int64_t last = tensor.offset;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      empty = empty || tensor.shape[d] == 0;
      if (tensor.shape[d] > 0) last += (tensor.shape[d] - 1) * tensor.strides.at(d);
    }
    const auto held = static_cast<std::int64_t>(storage.bytes / dl::size_of(tensor.dtype));
    if (!empty && (last < 0 || last >= held)) __builtin_trap();
  }
}

void read_archive(std::span<const std::byte> bytes) {
  const dl::nn::PthLayout layout = dl::nn::read_pth_layout(
      {.name = "fuzz",
       .size = bytes.size(),
       .read_at =
           [bytes](std::uint64_t offset, std::span<std::byte> out) {
             if (offset > bytes.size() || out.size() > bytes.size() - offset) __builtin_trap();
             if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
           }},
      {.max_inflated = std::uint64_t{1} << 24, .check_crc32 = false});
  check_pickle(layout.pickle);
  for (std::size_t i = 0; i < layout.storages.size(); ++i) {
    std::vector<std::byte> storage(layout.pickle.storages[i].bytes);
    layout.read_storage(i, storage);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    if (data[0] % 2 == 0) {
      read_archive(bytes);
    } else {
      check_pickle(
          dl::nn::read_pickle({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "fuzz"));
    }
  } catch (const dl::Error& error) {
    if (!std::string_view(error.what()).starts_with("fuzz")) __builtin_trap();
  }
  return 0;
}
