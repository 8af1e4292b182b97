// ZipReader: reads zip archives of untrusted origin by their central directory.
//
// Stored and deflated entries, zip64, any extra fields and data descriptors (APPNOTE.TXT 6.3.10).
// The directory and all entries must be inside the file and must not overlap, so that all entries
// together have at most kMostInflation times the file's bytes. zlib inflates; libzip and minizip
// are not used because they do not check for overlaps, and because their other decoders (bzip2, xz,
// AES) would parse hostile bytes in formats that PyTorch never writes. Thread-safety: const members
// may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dl::nn {

// Bytes with random access: a file, or memory.
struct ByteSource {
  std::string name{};  // for errors
  std::uint64_t size = 0;
  std::function<void(std::uint64_t offset, std::span<std::byte> out)> read_at{};
};

struct ZipEntry {
  std::string name;
  std::uint64_t begin = 0;   // of the entry's bytes in the file
  std::uint64_t packed = 0;  // bytes in the file
  std::uint64_t size = 0;    // bytes when inflated
  std::uint32_t crc32 = 0;
  bool deflated = false;
};

struct ZipLimits {
  // The limit for the inflated bytes of all deflated entries.
  std::uint64_t max_inflated = std::uint64_t{4} << 30;
  bool check_crc32 = true;
};

std::uint32_t crc32_of(std::span<const std::byte> bytes);

class ZipReader {
 public:
  // Reads the directory. Throws kParse: one sentence that begins with the source's name.
  ZipReader(ByteSource source, ZipLimits limits);

  const ByteSource& source() const noexcept { return source_; }
  const std::vector<ZipEntry>& entries() const noexcept { return entries_; }
  // Null if there is no such entry.
  const ZipEntry* find(std::string_view name) const;
  // Fills `out`, which has entry.size bytes. Throws kParse if the entry is damaged.
  void read(const ZipEntry& entry, std::span<std::byte> out) const;

 private:
  struct Directory {
    std::uint64_t begin;
    std::uint64_t size;
    std::uint64_t count;
  };

  Directory find_directory() const;
  Directory directory_of_zip64(std::uint64_t locator) const;
  void read_directory(const Directory& directory);
  // Sets entry.begin from its local header at offset `header`; returns the entry's end.
  std::uint64_t locate(ZipEntry& entry, std::uint64_t header, std::uint64_t limit) const;
  void inflate_to(const ZipEntry& entry, std::span<std::byte> out) const;

  ByteSource source_;
  ZipLimits limits_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

}  // namespace dl::nn
