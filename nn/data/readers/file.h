// Bytes from files that strangers wrote: read whole, with a bound, plain or gzip-compressed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::data {

// The whole of a regular file. Throws kNotFound or kIo naming the file, and kParse where it has
// more than `max_bytes`.
std::vector<std::byte> read_file(const std::string& path, std::size_t max_bytes);

// True for the two bytes that begin every gzip stream.
bool is_gzip(std::span<const std::byte> bytes) noexcept;

// Inflates a gzip stream (RFC 1952, several members too) from memory, as far as it is asked to:
// what a stream claims to hold costs nothing until it is read. Not thread-safe. Throws kParse,
// naming `name`, where the stream is damaged or ends early.
class GzipReader {
 public:
  GzipReader(std::span<const std::byte> compressed, std::string_view name);
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;
  ~GzipReader();

  // Fills `out` as far as the stream goes and returns how much it wrote; less only at the end.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  std::string name_;
};

}  // namespace dl::data
