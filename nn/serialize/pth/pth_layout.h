// The content of a PyTorch file and its offsets, before any tensor is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nn/serialize/pickle/pickle_reader.h"
#include "nn/serialize/zip/zip_reader.h"

namespace dl::nn {

inline constexpr std::uint64_t kMaxPickleBytes = 256 << 20;

struct PthLayout {
  // The position of a storage's bytes: in an entry, or at an offset of the file.
  struct Place {
    const ZipEntry* entry = nullptr;
    std::uint64_t begin = 0;
  };

  ByteSource source;
  std::optional<ZipReader> zip{};  // nullopt: a file before PyTorch 1.6
  std::vector<char> pickled{};     // the bytes that `pickle` refers to
  Pickle pickle{};
  std::vector<Place> storages{};  // for each of pickle.storages, with the same number of bytes
  bool big_endian = false;

  // Fills `out`, which has pickle.storages[number].bytes. Throws kParse if an entry is damaged.
  void read_storage(std::size_t number, std::span<std::byte> out) const;
};

// Throws kParse or kDType: one sentence that begins with the source's name. Every tensor is inside
// its storage, and every storage inside the file.
PthLayout read_pth_layout(ByteSource source, ZipLimits limits);

// pth_legacy.cc: files before PyTorch 1.6, which begin with a magic number in a pickle.
bool is_legacy_pth(const ByteSource& source);
PthLayout read_legacy_layout(ByteSource source);

}  // namespace dl::nn
