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

// What a reader refuses to exceed, whatever the file claims.
struct ReadLimits {
  std::size_t max_bytes = std::size_t{16} << 30;
};

// Reads a plain or gzip-compressed file; which of them it is, its first bytes say. Where `path` is
// not there, `path`.gz is taken.
// Throws kNotFound, kIo, or kParse: one sentence that names the file, what came and what was
// wanted.
IdxArray read_idx(const std::string& path, ReadLimits limits = {});
// Reads from memory instead of a file; `name` stands for the file in errors.
IdxArray parse_idx(std::span<const std::byte> bytes, std::string_view name, ReadLimits limits = {});

}  // namespace dl::data
