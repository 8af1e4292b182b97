// ZipWriter: writes a zip archive of stored entries, each aligned to 64 bytes as in PyTorch's
// files, with zip64 fields if an entry or the archive needs them. The bytes depend on the entries
// alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/atomic_file.h"

namespace dl::nn {

class ZipWriter {
 public:
  // Sizes and offsets of at least `zip64_from` are written as zip64; tests write small ones.
  explicit ZipWriter(AtomicFile& file, std::uint64_t zip64_from = 0xffffffff)
      : file_(file), zip64_from_(zip64_from) {}

  // Names are unique in an archive. Throws what AtomicFile throws, as finish() does.
  void add(std::string_view name, std::span<const std::byte> bytes);
  // Writes the directory. Nothing is added after it; the caller commits the file.
  void finish();

 private:
  void write(std::string_view bytes);

  AtomicFile& file_;
  std::uint64_t zip64_from_;
  std::uint64_t position_ = 0;
  std::uint64_t count_ = 0;
  std::string directory_{};
};

}  // namespace dl::nn
