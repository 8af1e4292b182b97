// Message: a message of Protocol Buffers, field by field, as bytes for a file.
//
// A message holds the bytes that it was given, except borrowed ones, so that weights are not
// copied: their owner must live until the message is written. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dl::onnx {

class Message {
 public:
  void number(std::uint32_t field, std::int64_t value);
  void real(std::uint32_t field, float value);
  void text(std::uint32_t field, std::string_view value);
  void borrow(std::uint32_t field, std::span<const std::byte> bytes);
  void message(std::uint32_t field, const Message& value);

  std::uint64_t size() const noexcept { return size_; }
  void write(const std::function<void(std::span<const std::byte>)>& sink) const;

 private:
  struct Piece {
    std::string own;
    std::span<const std::byte> borrowed{};
  };

  void varint(std::uint64_t value);
  void tag(std::uint32_t field, std::uint32_t type) { varint(std::uint64_t{field} << 3 | type); }
  void append(std::string_view bytes);

  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
};

}  // namespace dl::onnx
