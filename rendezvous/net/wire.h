// Reads and writes little-endian fields in byte strings, for the project's own protocols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::rendezvous {

// Appends fields to a byte string.
class WireWriter {
 public:
  template <typename Integer>
  void put(Integer value) {
    for (std::size_t i = 0; i < sizeof(Integer); ++i) {
      bytes_.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  void put_bytes(std::span<const std::uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // One byte of length and the text, which has at most 255 bytes.
  void put_text(std::string_view text) {
    put(static_cast<std::uint8_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

// Takes fields from a byte string. If a field is missing, it and all further fields are 0 or empty,
// and ok_and_done() is false.
class WireReader {
 public:
  explicit WireReader(std::span<const std::uint8_t> bytes) noexcept : rest_(bytes) {}

  template <typename Integer>
  Integer take() noexcept {
    std::uint64_t value = 0;
    const std::span<const std::uint8_t> field = take_bytes(sizeof(Integer));
    for (std::size_t i = 0; i < field.size(); ++i) value |= std::uint64_t{field[i]} << (8 * i);
    return static_cast<Integer>(value);
  }
  std::span<const std::uint8_t> take_bytes(std::size_t size) noexcept {
    if (size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::span<const std::uint8_t> field = rest_.first(size);
    rest_ = rest_.subspan(size);
    return field;
  }
  std::span<const std::uint8_t> take_rest() noexcept { return take_bytes(rest_.size()); }
  std::string take_text() {
    const std::span<const std::uint8_t> field = take_bytes(take<std::uint8_t>());
    return {field.begin(), field.end()};
  }
  // True if every field was there and nothing is left over.
  bool ok_and_done() const noexcept { return ok_ && rest_.empty(); }

 private:
  std::span<const std::uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace dl::rendezvous
