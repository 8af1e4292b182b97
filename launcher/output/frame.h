// Frames: the output of a rank on its way from its node's agent to the frontend.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string_view>

namespace dl::launcher {

enum class Stream : std::uint8_t { kOut, kErr };

// One stream of one rank in one generation; rank -1: a helper of dlrun's own.
struct StreamId {
  int attempt = 0;
  int rank = -1;
  Stream stream = Stream::kOut;
  auto operator<=>(const StreamId&) const = default;
};

struct Frame {
  StreamId id;
  std::chrono::system_clock::time_point time;  // when the agent read it
  std::string_view bytes;                      // as the rank wrote them; valid during take() only
  bool is_last = false;                        // the stream ends here
};

// FrameTaker: the frontend, as the agent's streams see it. In one process, a frame is a call
// (JobOutput). A remote agent's FrameTaker writes frames to its connection, and has room while the
// frontend gives it credit.
class FrameTaker {
 public:
  virtual ~FrameTaker() = default;
  virtual bool has_room(Stream stream) const = 0;
  // Calls back once, when there is room.
  virtual void when_room(Stream stream, std::function<void()> ready) = 0;
  // Takes the frame even if there is no room: the last bytes of a dead rank do not wait.
  virtual void take(const Frame& frame) = 0;
};

}  // namespace dl::launcher
