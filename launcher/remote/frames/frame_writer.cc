#include "launcher/remote/frames/frame_writer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace dl::launcher::remote {

void FrameWriter::take(const Frame& frame) {
  Output part;
  part.id = frame.id;
  part.time_us =
      std::chrono::duration_cast<std::chrono::microseconds>(frame.time.time_since_epoch()).count();
  std::string_view rest = frame.bytes;
  do {
    part.bytes = rest.substr(0, kMostOutput);
    rest.remove_prefix(part.bytes.size());
    part.is_last = frame.is_last && rest.empty();
    of(frame.id.stream).credit -= static_cast<std::int64_t>(part.bytes.size());
    channel_.send(part);
  } while (!rest.empty());
}

void FrameWriter::give(Stream stream, std::uint32_t bytes) {
  Direction& direction = of(stream);
  direction.credit += bytes;
  if (direction.credit <= 0) return;
  for (const auto& ready : std::exchange(direction.waiting, {})) ready();
}

}  // namespace dl::launcher::remote
