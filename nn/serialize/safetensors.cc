#include "nn/serialize/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/atomic_file.h"
#include "core/tensor/factories.h"
#include "nn/serialize/input_file.h"
#include "nn/serialize/safetensors_header.h"

namespace dl::nn {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are written as they lie in memory");

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

Tensor memory_for(const SafetensorsEntry& entry, const std::string& path) {
  try {
    return empty(Shape(std::span<const std::int64_t>(entry.shape)), {.dtype = entry.dtype});
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: tensor {}: {}", path, shown_name(entry.name), error.what());
  }
}

Tensor read_tensor(const InputFile& file, std::uint64_t data, const SafetensorsEntry& entry,
                   const std::string& path) {
  Tensor tensor = memory_for(entry, path);
  const std::span<std::byte> bytes = bytes_of(tensor);
  file.read_at(data + entry.begin, bytes);
  if (entry.dtype == DType::kBool) {
    DL_CHECK(std::ranges::all_of(bytes, [](std::byte b) { return b <= std::byte{1}; }), kParse,
             "{}: tensor {} is BOOL and holds other bytes than 0 and 1", path,
             shown_name(entry.name));
  }
  return tensor;
}

}  // namespace

void save_safetensors(const std::string& path, const StateDict& tensors, const Metadata& metadata) {
  StateDict ordered;
  for (const std::size_t width : {8, 4, 2, 1}) {
    for (const NamedTensor& entry : tensors) {
      DL_CHECK(entry.tensor.defined(), kInvalidArgument, "save {}: tensor {} is undefined", path,
               shown_name(entry.name));
      if (size_of(entry.tensor.dtype()) == width) {
        ordered.push_back({entry.name, entry.tensor.cpu().contiguous()});
      }
    }
  }
  SafetensorsHeader header{.metadata = metadata};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    const Shape& shape = tensor.sizes();
    header.entries.push_back({.name = name,
                              .dtype = tensor.dtype(),
                              .shape = {shape.begin(), shape.end()},
                              .begin = offset,
                              .end = offset + tensor.nbytes()});
    offset += tensor.nbytes();
  }
  const std::string head = format_safetensors_header(header, fmt::format("save {}", path));
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(head)));
  for (const NamedTensor& entry : ordered) file.write(bytes_of(entry.tensor));
  file.commit();
}

Safetensors load_safetensors(const std::string& path) {
  const InputFile file(path);
  std::array<std::byte, sizeof(std::uint64_t)> prefix{};
  file.read_at(0, std::span(prefix).first(std::min<std::uint64_t>(prefix.size(), file.size())));
  const std::uint64_t length = safetensors_header_length(prefix, file.size(), path);
  std::string json(length, '\0');
  file.read_at(prefix.size(), std::as_writable_bytes(std::span(json)));
  const std::uint64_t data = prefix.size() + length;
  SafetensorsHeader header = parse_safetensors_header(json, file.size() - data, path);
  Safetensors result{.tensors = {},
                     .metadata = std::move(header.metadata),
                     .skipped = std::move(header.skipped),
                     .path = path};
  for (const SafetensorsEntry& entry : header.entries) {
    result.tensors.push_back({entry.name, read_tensor(file, data, entry, path)});
  }
  return result;
}

}  // namespace dl::nn
