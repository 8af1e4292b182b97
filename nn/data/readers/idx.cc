#include "nn/data/readers/idx.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/text/inflation.h"
#include "nn/data/readers/file.h"

namespace dl::data {
namespace {

std::optional<DType> dtype_of(std::uint8_t code) noexcept {
  switch (code) {
    case 0x08:
      return DType::kU8;
    case 0x09:
      return DType::kI8;
    case 0x0B:
      return DType::kI16;
    case 0x0C:
      return DType::kI32;
    case 0x0D:
      return DType::kF32;
    case 0x0E:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

// The source of the elements: plain memory, or memory that is inflated piece by piece.
class Source {
 public:
  Source(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes) {
    if (is_gzip(bytes)) gzip_.emplace(bytes, name);
  }
  // The most bytes that can still be read.
  std::size_t at_most() const noexcept {
    return gzip_ ? bytes_.size() * kMostInflation : bytes_.size() - position_;
  }
  std::size_t read(std::span<std::byte> out) {
    if (gzip_) return gzip_->read(out);
    const std::size_t n = std::min(out.size(), bytes_.size() - position_);
    if (n > 0) std::memcpy(out.data(), bytes_.data() + position_, n);
    position_ += n;
    return n;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::optional<GzipReader> gzip_;
};

std::uint32_t big_endian(const std::array<std::byte, 4>& b) noexcept {
  std::uint32_t value = 0;
  for (const std::byte byte : b) value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

std::uint32_t read_word(Source& source, std::string_view name, std::string_view what) {
  std::array<std::byte, 4> word{};
  DL_CHECK(source.read(word) == word.size(), kParse,
           "{} is truncated: it ends inside {} of the IDX header", name, what);
  return big_endian(word);
}

// Grows as data arrives, so that a false size in a compressed stream allocates nothing.
std::vector<std::byte> read_elements(Source& source, std::size_t wanted, std::string_view name) {
  constexpr std::size_t kPiece = std::size_t{1} << 24;
  std::vector<std::byte> bytes;
  while (bytes.size() < wanted) {
    const std::size_t before = bytes.size();
    bytes.resize(std::min(wanted, std::max(2 * before, kPiece)));
    const std::size_t got = source.read(std::span(bytes).subspan(before));
    DL_CHECK(before + got == bytes.size(), kParse,
             "{} is truncated: its header announces {} bytes of elements, it has {}", name, wanted,
             before + got);
  }
  return bytes;
}

void to_native(std::vector<std::byte>& bytes, std::size_t element) noexcept {
  for (std::size_t i = 0; i + element <= bytes.size(); i += element) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + element));
  }
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> bytes, std::string_view name, ReadLimits limits) {
  Source source(bytes, name);
  const std::uint32_t magic = read_word(source, name, "the magic number");
  const auto dims = static_cast<std::size_t>(magic & 0xffU);
  const std::optional<DType> dtype = dtype_of(static_cast<std::uint8_t>(magic >> 8));
  DL_CHECK(magic >> 16 == 0 && dtype.has_value() && dims > 0, kParse,
           "{} is not an IDX file: it begins with {:#010x}, wanted 0x0000TTDD with a type of "
           "08, 09, 0b, 0c, 0d, 0e and 1 to 255 dimensions",
           name, magic);

  IdxArray array;
  array.dtype = *dtype;
  std::size_t total = size_of(*dtype);
  for (std::size_t i = 0; i < dims; ++i) {
    const std::uint32_t size = read_word(source, name, "the dimensions");
    array.shape.push_back(size);
    DL_CHECK(!__builtin_mul_overflow(total, std::size_t{size}, &total), kParse,
             "{} announces more elements than memory can address", name);
  }
  DL_CHECK(total <= limits.max_bytes, kParse,
           "{} announces {} bytes of elements, wanted at most {}", name, total, limits.max_bytes);
  DL_CHECK(total <= source.at_most(), kParse,
           "{} is truncated: its header announces {} bytes of elements, there can be at most {}",
           name, total, source.at_most());

  array.bytes = read_elements(source, total, name);
  std::byte extra{};
  DL_CHECK(source.read(std::span(&extra, 1)) == 0, kParse,
           "{} has data beyond the {} bytes of elements that its header announces", name, total);
  to_native(array.bytes, size_of(*dtype));
  return array;
}

IdxArray read_idx(const std::string& path, ReadLimits limits) {
  const bool plain = ::access(path.c_str(), F_OK) == 0;
  const std::string compressed = path + ".gz";
  const std::string& found = !plain && ::access(compressed.c_str(), F_OK) == 0 ? compressed : path;
  constexpr std::size_t kHeader = 4 + 255 * 4;
  return parse_idx(read_file(found, limits.max_bytes + kHeader), found, limits);
}

}  // namespace dl::data
