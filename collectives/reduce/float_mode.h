// DefaultFloatMode: while it lives, the thread has the CPU's default floating-point mode: round to
// nearest, denormals kept.
//
// A program may have switched denormals off in its own threads (-ffast-math does), but not in the
// progress thread. Any of these threads may do a reduction, so the mode must not change the
// result's bits. Costs a few nanoseconds if the mode is the default already.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dl::collectives {

class DefaultFloatMode {
 public:
  DefaultFloatMode() noexcept : before_(get()) {
    if ((before_ & kModeBits) != 0) set(before_ & ~kModeBits);
  }
  ~DefaultFloatMode() {
    if ((before_ & kModeBits) != 0) set(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  using Word = std::uint32_t;
  static constexpr Word kModeBits = 0x8000 | 0x0040 | 0x6000;  // FTZ, DAZ, rounding
  static Word get() noexcept { return _mm_getcsr(); }
  static void set(Word word) noexcept { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kModeBits = Word{7} << 22;  // FZ, rounding
  static Word get() noexcept {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void set(Word word) noexcept { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = std::uint32_t;
  static constexpr Word kModeBits = 0;
  static Word get() noexcept { return 0; }
  static void set(Word) noexcept {}
#endif

  Word before_;
};

}  // namespace dl::collectives
