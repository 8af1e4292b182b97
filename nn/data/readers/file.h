// Reads whole files of untrusted origin with a size limit, plain or gzip-compressed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::data {

// The content of a regular file. Throws kNotFound or kIo with the file's name, and kParse if it has
// more than `max_bytes`.
std::vector<std::byte> read_file(const std::string& path, std::size_t max_bytes);

// True for the two bytes that begin every gzip stream.
bool is_gzip(std::span<const std::byte> bytes) noexcept;

// Inflates a gzip stream (RFC 1952, also with several members) from memory, piece by piece, so that
// memory is used only for what is read. Not thread-safe. Throws kParse with `name` if the stream is
// damaged or ends early.
class GzipReader {
 public:
  GzipReader(std::span<const std::byte> compressed, std::string_view name);
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;
  ~GzipReader();

  // Fills `out` and returns the number of bytes written, which is smaller than out.size() only at
  // the end.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  std::string name_;
};

}  // namespace dl::data
