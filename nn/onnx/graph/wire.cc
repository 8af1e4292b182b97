#include "nn/onnx/graph/wire.h"

#include <bit>
#include <cstring>

namespace dl::onnx {
namespace {

// How the bytes of a field are found: as a number of 7 bits a byte, after their length, or as four.
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kLengthFirst = 2;
constexpr std::uint32_t kFourBytes = 5;

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");

}  // namespace

void Message::append(std::string_view bytes) {
  if (pieces_.empty() || !pieces_.back().borrowed.empty()) pieces_.emplace_back();
  pieces_.back().own += bytes;
  size_ += bytes.size();
}

void Message::varint(std::uint64_t value) {
  char bytes[10];
  std::size_t count = 0;
  for (; value >= 0x80; value >>= 7) bytes[count++] = static_cast<char>(value | 0x80);
  bytes[count++] = static_cast<char>(value);
  append({bytes, count});
}

void Message::number(std::uint32_t field, std::int64_t value) {
  tag(field, kVarint);
  varint(static_cast<std::uint64_t>(value));
}

void Message::real(std::uint32_t field, float value) {
  tag(field, kFourBytes);
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  append({bytes, sizeof(bytes)});
}

void Message::text(std::uint32_t field, std::string_view value) {
  tag(field, kLengthFirst);
  varint(value.size());
  append(value);
}

void Message::borrow(std::uint32_t field, std::span<const std::byte> bytes) {
  tag(field, kLengthFirst);
  varint(bytes.size());
  if (bytes.empty()) return;
  pieces_.push_back({.own = {}, .borrowed = bytes});
  size_ += bytes.size();
}

void Message::message(std::uint32_t field, const Message& value) {
  tag(field, kLengthFirst);
  varint(value.size());
  for (const Piece& piece : value.pieces_) {
    if (piece.borrowed.empty()) {
      append(piece.own);
    } else {
      pieces_.push_back(piece);
      size_ += piece.borrowed.size();
    }
  }
}

void Message::write(const std::function<void(std::span<const std::byte>)>& sink) const {
  for (const Piece& piece : pieces_) {
    sink(piece.borrowed.empty() ? std::as_bytes(std::span(piece.own)) : piece.borrowed);
  }
}

}  // namespace dl::onnx
