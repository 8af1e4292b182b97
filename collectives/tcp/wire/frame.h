// The 64-byte header, little-endian, of every frame that the ranks of a group exchange
// (docs/protocol.md, "Collectives over TCP").
//
// decode() trusts no input: it returns only known enumerators and lengths that the frame type
// allows. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "collectives/call/descriptor.h"

namespace dl::collectives::tcp {

enum class FrameType : std::uint8_t {
  kData = 1,    // a slice of a collective's transfer
  kMessage,     // a whole small message
  kRequest,     // asks to send a large message; aux: its id
  kClear,       // the message of request `aux` may be sent
  kBulk,        // a slice of the message `aux`
  kCredit,      // `aux` bytes of small messages were consumed
  kProbe,       // asks for a kProbeReply
  kProbeReply,  // sequence: the last operation that the sender has called
  kAbort,       // the group is broken; detail: ErrorKind, payload: the cause
  kGoodbye,     // the sender leaves the group without an error
};
inline constexpr std::size_t kFrameTypeCount = 10;
std::string_view name_of(FrameType type) noexcept;

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::uint32_t kFrameMagic = 0x31434c44;  // "DLC1"
inline constexpr std::size_t kMostSliceBytes = 256 * 1024;
inline constexpr std::size_t kMostMessageBytes = 64 * 1024;  // above: request and clear
inline constexpr std::size_t kMostAbortBytes = 4096;

struct FrameHeader {
  FrameType type = FrameType::kData;
  std::uint32_t length = 0;    // bytes of payload that follow
  Descriptor descriptor{};     // point-to-point: root holds the tag's bits
  std::uint32_t hash = 0;      // of the descriptor, with the group's salt
  std::uint32_t transfer = 0;  // index among the transfers from this sender to this receiver
  std::uint64_t offset = 0;    // bytes into the transfer or message
  std::uint64_t aux = 0;
  std::uint8_t detail = 0;  // kAbort: the ErrorKind
};

void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> to) noexcept;
// Returns nullopt if the bytes are not a valid header.
std::optional<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> from) noexcept;

}  // namespace dl::collectives::tcp
