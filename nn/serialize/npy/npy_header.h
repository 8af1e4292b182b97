// NpyHeader: reads and writes the header of a .npy file.
//
//   \x93NUMPY | uint8 major, uint8 minor | uint16 or, from version 2 on, uint32 n, little-endian
//   n bytes: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } | the elements
//
// (numpy.lib.format, versions 1.0, 2.0 and 3.0.) Pure functions of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace dl::nn {

struct NpyHeader {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran_order = false;  // the first index changes fastest
  std::vector<std::int64_t> shape{};
};

inline constexpr std::size_t kNpyPrefix = 12;  // bytes of the file that npy_data_begin() needs
inline constexpr std::uint64_t kMaxNpyHeader = 1'000'000;

// Returns the offset of the elements, in bytes. `prefix` is the file's first kNpyPrefix bytes, or
// all bytes of a shorter file. Throws kParse, naming `name`, for a damaged or truncated beginning.
std::uint64_t npy_data_begin(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                             std::string_view name);
// Parses `head`, all bytes before the elements. `data_bytes` is the number of bytes after it.
// Throws kParse with `name` for a damaged header or if data_bytes does not match the shape; and
// kDType with `name` and the dtype for a dtype that dlrun does not have (complex, text, objects).
NpyHeader parse_npy_header(std::span<const std::byte> head, std::uint64_t data_bytes,
                           std::string_view name);
// Returns all bytes before the elements, as NumPy writes them. Throws kDType, naming `name`, for
// bfloat16.
std::string format_npy_header(DType dtype, std::span<const std::int64_t> shape,
                              std::string_view name);

}  // namespace dl::nn
