#include "nn/serialize/npy/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/atomic_file.h"
#include "core/tensor/factories.h"
#include "nn/serialize/input_file.h"
#include "nn/serialize/npy/npy_header.h"

namespace dl::nn {
namespace {

std::span<std::byte> npy_elements(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// Allocates a tensor of the header's shape; the reversed shape for Fortran order.
Tensor npy_memory(const NpyHeader& header, const std::string& path) {
  std::vector<std::int64_t> sizes = header.shape;
  if (header.fortran_order) std::ranges::reverse(sizes);
  try {
    return empty(Shape(std::span<const std::int64_t>(sizes)), {.dtype = header.dtype});
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: {}", path, error.what());
  }
}

}  // namespace

Tensor load_npy(const std::string& path) {
  const InputFile file(path);
  std::array<std::byte, kNpyPrefix> bytes{};
  const auto prefix = std::span(bytes).first(std::min<std::uint64_t>(kNpyPrefix, file.size()));
  file.read_at(0, prefix);
  std::vector<std::byte> head(npy_data_begin(prefix, file.size(), path));
  file.read_at(0, head);
  const NpyHeader header = parse_npy_header(head, file.size() - head.size(), path);
  const Tensor tensor = npy_memory(header, path);
  const std::span<std::byte> elements = npy_elements(tensor);
  file.read_at(head.size(), elements);
  const std::size_t width = size_of(header.dtype);
  if (header.big_endian && width > 1) {
    for (auto at = elements.begin(); at != elements.end();
         at += static_cast<std::ptrdiff_t>(width)) {
      std::reverse(at, at + static_cast<std::ptrdiff_t>(width));
    }
  }
  if (header.dtype == DType::kBool) {
    DL_CHECK(std::ranges::all_of(elements, [](std::byte b) { return b <= std::byte{1}; }), kParse,
             "{} holds bool and other bytes than 0 and 1", path);
  }
  return header.fortran_order ? tensor.T().contiguous() : tensor;
}

void save_npy(const std::string& path, const Tensor& tensor) {
  DL_CHECK(tensor.defined(), kInvalidArgument, "save {}: the tensor is undefined", path);
  const Tensor row_major = tensor.detach().cpu().contiguous();
  const std::vector<std::int64_t> shape(tensor.sizes().begin(), tensor.sizes().end());
  const std::string head = format_npy_header(tensor.dtype(), shape, fmt::format("save {}", path));
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(head)));
  file.write(npy_elements(row_major));
  file.commit();
}

}  // namespace dl::nn
