// In place of the file of the same name: the smallest sizes at which everything happens. An element
// has 8 bytes; three of them fit beside a flag, six in two lines, eight are an exchange, twelve a
// slot, and two slots are filled and emptied in turn.
#pragma once

#include <cstddef>
#include <type_traits>

namespace dl::collectives::shm {

inline constexpr std::size_t kLineBytes = 32;
inline constexpr std::size_t kApartBytes = 2 * kLineBytes;
inline constexpr std::size_t kLinePayload = kLineBytes - 8;
inline constexpr std::size_t kPayloadLines = 2;
inline constexpr std::size_t kInlineBytes = kPayloadLines * kLinePayload;
inline constexpr std::size_t kInlineSumBytes = kInlineBytes;
inline constexpr std::size_t kSlotBytes = 96;

// As many as a test wants, of the two for which there is room.
struct Slots {
  static inline std::size_t in_use = 2;
  constexpr operator std::size_t() const noexcept {  // NOLINT(google-explicit-constructor)
    return std::is_constant_evaluated() ? 2 : in_use;
  }
};
inline constexpr Slots kSlots;

inline constexpr std::size_t kExchangeBytes = 64;
inline constexpr std::size_t kOversubscribedExchangeBytes = 64;
inline constexpr std::size_t kOneWayChunks = 2;
inline constexpr std::size_t kOneWayChunkBytes = 64;
inline constexpr std::size_t kSumBlockBytes = 32;
inline constexpr std::size_t kDirectStepBytes = 64;
inline constexpr int kMostRanks = 3;
inline constexpr std::size_t kMostCauseBytes = 8;

// Of a message three elements fit beside the header; four fill a ring, and more go round in it.
inline constexpr std::size_t kFrameBytes = 64;
inline constexpr std::size_t kRingBytes = 128;
inline constexpr std::size_t kCreditBytes = kRingBytes;
inline constexpr std::size_t kMostMessageBytes = 32;
inline constexpr std::size_t kPieceBytes = 64;

}  // namespace dl::collectives::shm
