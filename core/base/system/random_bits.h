// Random bits of the kernel, for names and numbers that no other process has.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#include "core/base/error.h"

namespace dl {

// Waits until the kernel's source is ready, early in a machine's life. Throws kIo. Not by
// std::random_device, which needs a newer C library than dlrun's packages promise.
inline std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) throw_errno(errno, "getrandom");
  return bits;
}

}  // namespace dl
