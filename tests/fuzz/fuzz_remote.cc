// What comes over the connection of a frontend and a remote agent: any bytes, in any pieces, are
// values or an Error, and each value that comes out is written as the bytes that it came from. The
// first byte says whether a login may have written something before, and how long the pieces are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "launcher/remote/frames/messages.h"

using namespace dl::launcher::remote;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Decoder decoder((data[0] & 1) != 0);
  const std::size_t piece = 1 + data[0] / 2;
  const std::span<const std::uint8_t> all(data + 1, size - 1);
  try {
    for (std::size_t at = 0; at < all.size(); at += piece) {
      decoder.feed(all.subspan(at, std::min(piece, all.size() - at)));
      while (const auto value = decoder.next()) {
        const auto frame = encode(*value);
        if (std::ranges::search(all, frame).empty()) __builtin_trap();
      }
    }
  } catch (const dl::Error&) {
  }
  return 0;
}
