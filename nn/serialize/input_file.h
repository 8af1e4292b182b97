// InputFile: a regular file that is read at any offset. Errors name the file. Thread-safety:
// read_at() may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/system/unique_fd.h"

namespace dl::nn {

// The most dimensions of a tensor in a file, as in PyTorch and NumPy; all readers refuse more.
inline constexpr std::size_t kMaxDims = 64;

class InputFile {
 public:
  // Throws kNotFound or kIo.
  explicit InputFile(const std::string& path);

  std::uint64_t size() const noexcept { return size_; }
  // Fills `out` with the file's bytes from `offset` on. Throws kIo.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
};

}  // namespace dl::nn
