// The Mersenne Twister of Matsumoto and Nishimura (1998), 32-bit outputs, seeded as PyTorch and
// NumPy seed it.
//
// A value: copying it copies the position in the stream. Not thread-safe; Generator adds the lock.
#pragma once

#include <array>
#include <cstdint>

namespace dl::random {

class Mt19937 {
 public:
  static constexpr std::size_t kWords = 624;

  // The stream depends on the low 32 bits of the seed only, as PyTorch's does.
  explicit Mt19937(std::uint64_t seed) noexcept {
    words_[0] = static_cast<std::uint32_t>(seed);
    for (std::uint32_t i = 1; i < kWords; ++i) {
      words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
    }
  }
  // Restores a saved stream. The next output comes from words[position]; kWords: renew the words
  // first. `is_new`: no output was drawn since it was seeded.
  Mt19937(const std::array<std::uint32_t, kWords>& words, std::size_t position,
          bool is_new) noexcept
      : words_(words), position_(position), is_new_(is_new) {}

  std::uint32_t operator()() noexcept {
    if (position_ == kWords) renew();
    std::uint32_t y = words_[position_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
  }

  const std::array<std::uint32_t, kWords>& words() const noexcept { return words_; }
  std::size_t position() const noexcept { return position_; }
  bool is_new() const noexcept { return is_new_; }

 private:
  static constexpr std::size_t kShift = 397;

  static std::uint32_t twist(std::uint32_t u, std::uint32_t v) noexcept {
    return (((u & 0x80000000U) | (v & 0x7fffffffU)) >> 1) ^ ((v & 1U) != 0 ? 0x9908b0dfU : 0U);
  }

  void renew() noexcept {
    std::size_t i = 0;
    for (; i < kWords - kShift; ++i) {
      words_[i] = words_[i + kShift] ^ twist(words_[i], words_[i + 1]);
    }
    for (; i < kWords - 1; ++i) {
      words_[i] = words_[i + kShift - kWords] ^ twist(words_[i], words_[i + 1]);
    }
    words_[kWords - 1] = words_[kShift - 1] ^ twist(words_[kWords - 1], words_[0]);
    position_ = 0;
    is_new_ = false;
  }

  std::array<std::uint32_t, kWords> words_{};
  std::size_t position_ = kWords;
  bool is_new_ = true;
};

}  // namespace dl::random
