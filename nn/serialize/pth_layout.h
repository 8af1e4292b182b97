// What a PyTorch file holds and where, before any tensor is made of it.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/serialize/pickle_reader.h"
#include "nn/serialize/zip_reader.h"

namespace dl::nn {

inline constexpr std::uint64_t kMaxPickleBytes = 256 << 20;

struct PthLayout {
  ZipReader zip;
  std::vector<char> pickled{};  // the bytes of data.pkl, which `pickle` refers to
  Pickle pickle{};
  std::vector<const ZipEntry*> storages{};  // of each of pickle.storages; of as many bytes
  bool big_endian = false;
};

// Throws kParse or kDType: one sentence that begins with the source's name. Every tensor lies in
// its storage, and every storage in the file.
PthLayout read_pth_layout(ByteSource source, ZipLimits limits);

}  // namespace dl::nn
