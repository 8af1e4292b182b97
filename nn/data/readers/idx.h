// The IDX format of MNIST and its relatives: a magic number that names element type and number of
// dimensions, the dimensions, the elements, all big-endian (Y. LeCun, the MNIST database, 1998).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace dl::data {

struct IdxArray {
  DType dtype = DType::kU8;           // uint8, int8, int16, int32, float32 or float64
  std::vector<std::int64_t> shape{};  // at least one dimension
  std::vector<std::byte> bytes{};     // in this machine's byte order
};

// Limits of a reader; a file that exceeds them throws kParse.
struct ReadLimits {
  std::size_t max_bytes = std::size_t{16} << 30;
};

// Reads a plain or gzip-compressed file, recognised by its first bytes. If `path` does not exist,
// it reads `path`.gz.
// Throws kNotFound, kIo, or kParse: one sentence with the file's name, the value found and the
// value expected.
IdxArray read_idx(const std::string& path, ReadLimits limits = {});
// Reads from memory instead of a file; `name` stands for the file in errors.
IdxArray parse_idx(std::span<const std::byte> bytes, std::string_view name, ReadLimits limits = {});

}  // namespace dl::data
